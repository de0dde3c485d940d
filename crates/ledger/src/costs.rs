//! Device memory that calls took without saying so, and looks at whole devices.

use crate::apart::{Joint, Made};
use crate::hash::Map;
use oomhook_trace::StackId;
use oomhook_trace::record::{CallId, Cost, CostKind, Object, Other, Sample};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Changes kept; when they are too many, each two of a kind become one.
const MOST_CHANGES: usize = 4096;
/// Rows by call and stack; later ones are summed under no stack.
const MOST_ROWS: usize = 4096;
/// Looks kept for the line over time; when they are too many, every second one goes.
const MOST_LOOKS: usize = 1024;

/// What a call took, summed over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRow {
    /// Bytes taken, less those given back.
    pub bytes: i64,
    /// How often.
    pub calls: u64,
    /// Other processes may have had a part in it.
    pub estimated: bool,
}

/// Where a cost comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CostKey {
    /// Device.
    pub device: u8,
    /// What for.
    pub kind: CostKind,
    /// Call.
    pub call: CallId,
    /// Stack.
    pub stack: StackId,
}

/// A change of what is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Change {
    time_ns: u64,
    device: u8,
    kind: CostKind,
    bytes: i64,
}

/// What is taken for each purpose on one device.
pub type Taken = BTreeMap<CostKind, (i64, bool)>;

/// A look at a device, beside what the books said then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// The look.
    pub sample: Sample,
    /// Live device bytes of this process.
    pub tracked: u64,
    /// Bytes that its pools kept idle.
    pub pool_idle: u64,
    /// What calls had taken besides.
    pub costs: i64,
    /// How many objects of each kind lived.
    #[serde(default)]
    pub counts: Vec<(Object, u64)>,
}

impl Look {
    /// Other processes. Where this one is not told apart (its own namespace has other numbers) it may be any of those
    /// listed, so none of them is known to be another one.
    #[must_use]
    pub fn other_processes(&self) -> &[Other] {
        match self.sample.process {
            Some(_) => &self.sample.others,
            None => &[],
        }
    }

    /// Bytes of other processes, as far as they are known.
    #[must_use]
    pub fn others(&self) -> u64 {
        let others = self.other_processes().iter();
        others.filter_map(|other| other.bytes).sum()
    }

    /// Bytes in use that belong to no process: the driver's own. 0 where not every process's bytes are known.
    #[must_use]
    pub fn driver(&self) -> u64 {
        let all_known = self.sample.others_known
            && self.sample.others.iter().all(|other| other.bytes.is_some());
        match self.sample.process {
            Some(process) if all_known => self
                .sample
                .used
                .saturating_sub(process)
                .saturating_sub(self.others()),
            _ => 0,
        }
    }

    /// Bytes of this process, as they are counted for it alone, that nothing explains.
    #[must_use]
    pub(crate) fn rest_of_process(&self) -> Option<i64> {
        let known = i128::from(self.tracked) + i128::from(self.pool_idle) + i128::from(self.costs);
        let process = self.sample.process?;
        i64::try_from(i128::from(process) - known).ok()
    }

    /// Bytes in use by this process (and by nobody known) beside its allocations and what its pools keep.
    #[must_use]
    pub fn untracked(&self) -> i64 {
        self.rest().saturating_add(self.costs)
    }

    /// The same of this process alone; `None` where it is not known what it has.
    #[must_use]
    pub fn untracked_of_process(&self) -> Option<i64> {
        self.rest_of_process()
            .map(|rest| rest.saturating_add(self.costs))
    }

    /// How many objects of a kind lived.
    #[must_use]
    pub fn count(&self, object: Object) -> u64 {
        let found = self.counts.iter().find(|(kind, _)| *kind == object);
        found.map_or(0, |(_, count)| *count)
    }

    /// Bytes in use that nothing explains; negative where the books say more.
    #[must_use]
    pub fn rest(&self) -> i64 {
        let known = i128::from(self.tracked)
            + i128::from(self.pool_idle)
            + i128::from(self.costs)
            + i128::from(self.others())
            + i128::from(self.driver());
        i64::try_from(i128::from(self.sample.used) - known).unwrap_or(0)
    }
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Costs {
    #[serde(with = "as_list")]
    rows: Map<CostKey, CostRow>,
    changes: Vec<Change>,
    taken: BTreeMap<u8, Taken>,
    looks: Vec<Look>,
    /// How many looks stand for one that is kept.
    every: u32,
    skipped: u32,
    latest: BTreeMap<u8, Look>,
    /// Calls whose parts could not be told apart, by device.
    joint: BTreeMap<u8, Joint>,
}

mod as_list {
    use super::{CostKey, CostRow, Map};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(
        rows: &Map<CostKey, CostRow>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let mut list: Vec<(&CostKey, &CostRow)> = rows.iter().collect();
        list.sort_by_key(|(key, _)| **key);
        list.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Map<CostKey, CostRow>, D::Error> {
        Ok(Vec::<(CostKey, CostRow)>::deserialize(from)?
            .into_iter()
            .collect())
    }
}

impl Costs {
    pub(crate) fn add(&mut self, cost: &Cost) {
        if cost.bytes == Cost::ALL_BACK {
            return self.forget(cost.device, cost.time_ns);
        }
        let row = self.row(CostKey {
            device: cost.device,
            kind: cost.kind,
            call: cost.call,
            stack: cost.stack,
        });
        row.bytes = row.bytes.saturating_add(cost.bytes);
        row.calls += 1;
        row.estimated |= cost.estimated;
        self.change(
            cost.time_ns,
            cost.device,
            cost.kind,
            cost.bytes,
            cost.estimated,
        );
    }

    fn row(&mut self, mut key: CostKey) -> &mut CostRow {
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&key) {
            key.stack = 0;
        }
        self.rows.entry(key).or_default()
    }

    /// What a call took could not be measured.
    pub(crate) fn not_measured(&mut self, key: CostKey, time_ns: u64, seen: u64) {
        let latest = self.latest.get(&key.device);
        let before = latest.and_then(|look| look.rest_of_process());
        let joint = self.joint.entry(key.device).or_default();
        joint.call(key, time_ns, seen, before.unwrap_or(0));
    }

    /// A look tells what the calls took together that could not be told apart.
    fn settle(&mut self, look: &mut Look, made: &Made) {
        let device = look.sample.device;
        let Some(mut joint) = self.joint.remove(&device) else {
            return;
        };
        if joint.is_open() {
            for share in joint.take_back() {
                look.costs = look.costs.saturating_sub(share.bytes);
                self.share(share.key, share.time_ns, -share.bytes, -share.calls);
            }
            if let Some(rest) = look.rest_of_process() {
                for share in joint.shares(rest, look.sample.is_quiet, &self.rows, made) {
                    look.costs = look.costs.saturating_add(share.bytes);
                    self.share(share.key, share.time_ns, share.bytes, share.calls);
                }
            }
        }
        self.joint.insert(device, joint);
    }

    fn share(&mut self, key: CostKey, time_ns: u64, bytes: i64, calls: i64) {
        let row = self.row(key);
        row.bytes = row.bytes.saturating_add(bytes);
        row.calls = row.calls.saturating_add_signed(calls);
        row.estimated = true;
        self.change(time_ns, key.device, key.kind, bytes, true);
    }

    /// A context has gone, and perhaps with it some of what was not told apart.
    pub(crate) fn reopen(&mut self, device: u8) {
        if let Some(joint) = self.joint.get_mut(&device) {
            joint.reopen();
        }
    }

    /// Calls on a device that took what no look has told yet.
    #[must_use]
    pub fn not_apart(&self, device: u8) -> u64 {
        self.joint.get(&device).map_or(0, Joint::untold)
    }

    fn change(&mut self, time_ns: u64, device: u8, kind: CostKind, bytes: i64, estimated: bool) {
        let taken = self.taken.entry(device).or_default();
        let sum = taken.entry(kind).or_default();
        sum.0 = sum.0.saturating_add(bytes);
        sum.1 |= estimated;
        // Nothing lives that could be estimated.
        sum.1 &= sum.0 != 0;
        self.changes.push(Change {
            time_ns,
            device,
            kind,
            bytes,
        });
        if self.changes.len() > MOST_CHANGES {
            self.join_changes();
        }
    }

    /// Has half as many changes say the same, less exactly when: two that follow each other become one at the later time.
    fn join_changes(&mut self) {
        let mut joined: Vec<Change> = Vec::with_capacity(self.changes.len());
        let mut open: BTreeMap<(u8, CostKind), Change> = BTreeMap::new();
        for change in &self.changes {
            let key = (change.device, change.kind);
            match open.remove(&key) {
                Some(before) => joined.push(Change {
                    bytes: before.bytes.saturating_add(change.bytes),
                    ..*change
                }),
                None => drop(open.insert(key, *change)),
            }
        }
        joined.extend(open.into_values());
        joined.sort_by_key(|change| change.time_ns);
        joined.retain(|change| change.bytes != 0);
        self.changes = joined;
    }

    /// The last context of a device is gone, and with it all that was taken there.
    fn forget(&mut self, device: u8, time_ns: u64) {
        let taken: Vec<(CostKind, i64)> = self
            .taken
            .get(&device)
            .into_iter()
            .flatten()
            .map(|(kind, (bytes, _))| (*kind, *bytes))
            .collect();
        for (kind, bytes) in taken {
            self.change(time_ns, device, kind, bytes.saturating_neg(), false);
        }
        self.rows.retain(|key, _| key.device != device);
        self.joint.remove(&device);
    }

    /// A look at a device; what calls took that could not be told apart is settled by it, unless something else may be what is
    /// not explained.
    pub(crate) fn look(&mut self, mut look: Look, made: Option<&Made>) {
        if let Some(made) = made {
            self.settle(&mut look, made);
        }
        self.latest.insert(look.sample.device, look.clone());
        self.skipped += 1;
        if self.skipped <= self.every {
            return;
        }
        self.skipped = 0;
        self.looks.push(look);
        if self.looks.len() > MOST_LOOKS {
            let mut number = 0;
            self.looks.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every = self.every * 2 + 1;
        }
    }

    /// What is taken on a device now, by purpose.
    #[must_use]
    pub fn taken(&self, device: u8) -> Taken {
        self.taken.get(&device).cloned().unwrap_or_default()
    }

    /// All that is taken on a device now.
    #[must_use]
    pub fn sum(&self, device: u8) -> i64 {
        let taken = self.taken.get(&device).into_iter().flatten();
        taken.map(|(_, (bytes, _))| *bytes).sum()
    }

    /// What was taken on a device at an instant, by purpose.
    #[must_use]
    pub fn taken_at(&self, device: u8, time_ns: u64) -> Taken {
        let mut taken = self.taken(device);
        let later = self
            .changes
            .iter()
            .filter(|change| change.time_ns > time_ns);
        for change in later.filter(|change| change.device == device) {
            let sum = taken.entry(change.kind).or_default();
            sum.0 = sum.0.saturating_sub(change.bytes);
        }
        taken
    }

    /// By call and stack, the largest first.
    #[must_use]
    pub fn rows(&self) -> Vec<(CostKey, CostRow)> {
        let mut rows: Vec<(CostKey, CostRow)> =
            self.rows.iter().map(|(key, row)| (*key, *row)).collect();
        rows.sort_by_key(|(key, row)| (std::cmp::Reverse(row.bytes), *key));
        rows
    }

    /// The latest look at a device.
    #[must_use]
    pub fn latest(&self, device: u8) -> Option<&Look> {
        self.latest.get(&device)
    }

    /// Looks at all devices, in order of time.
    #[must_use]
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// The look at a device that is nearest to an instant.
    #[must_use]
    pub fn nearest(&self, device: u8, time_ns: u64) -> Option<&Look> {
        let of_device = |look: &&Look| look.sample.device == device;
        let all = self.looks.iter().chain(self.latest.get(&device));
        all.filter(of_device)
            .min_by_key(|look| look.sample.time_ns.abs_diff(time_ns))
    }
}
