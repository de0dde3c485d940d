//! Allocations that ran out of memory: grouped, so that a retry is no new story, and told apart by what came of them.

use crate::amount::Amount;
use crate::announcements::Origin;
use crate::gave_up::CacheState;
use crate::growth::Growth;
use crate::hash::Map;
use crate::phases::PhaseId;
use crate::rows::RowId;
use crate::shapes::Rising;
use oomhook_trace::record::{CallId, CostKind, HostMemory, Other};
use oomhook_trace::told::PhaseNameId;
use oomhook_trace::{Event, Space, StackId, ThreadId};
use serde::{Deserialize, Serialize};

/// The driver's code for out of memory.
pub const OUT_OF_MEMORY: u32 = 2;
/// Most groups kept; attempts of further ones are counted only.
pub const MOST_GROUPS: usize = 1024;
/// Most rows of a composition.
pub const MOST_ROWS: usize = 20;
/// Most rows that changed lately.
pub const MOST_CHANGES: usize = 8;
/// Most frees before a failure.
pub const MOST_FREES: usize = 8;

/// A free before a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastFree {
    /// Where the block came from.
    pub row: RowId,
    /// Its bytes.
    pub bytes: u64,
    /// Who freed it, and when.
    pub by: Origin,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The same request succeeded later.
    Recovered,
    /// The process died of it.
    Fatal,
    /// The program was finding out how much there is.
    Probe,
    /// The program lived with it.
    Caught,
}

/// A success after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// When.
    pub time_ns: u64,
    /// Bytes that ended between the last failure and the success: of the device, or, where a cache's block was the success, of
    /// what the cache had handed out if that was more. The one is inside the other, so they are not added.
    pub freed_between: u64,
}

/// Failures of one request from one stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Call.
    pub call: CallId,
    /// Stack.
    pub stack: StackId,
    /// Bytes asked for, if the call says.
    pub requested: Option<u64>,
    /// Device.
    pub device: Option<u8>,
    /// Space, if the call says.
    pub space: Option<Space>,
    /// Thread of the latest attempt.
    pub thread: ThreadId,
    /// When it failed first.
    pub first_ns: u64,
    /// When it failed last.
    pub last_ns: u64,
    /// Allocations that had succeeded before the latest attempt.
    pub event: u64,
    /// Frees before that.
    #[serde(default)]
    pub frees: u64,
    /// How often it failed.
    pub attempts: u64,
    /// Free bytes of the device at the latest attempt, if known.
    pub free: Option<u64>,
    /// Total bytes of the device, if known.
    pub total: Option<u64>,
    /// The largest rows that lived then, largest first.
    pub rows: Vec<(RowId, Amount)>,
    /// Bytes of the device that lived then, space by space.
    #[serde(default)]
    pub tracked: Vec<(Space, u64)>,
    /// The look at the device has told of all other processes.
    #[serde(default)]
    pub others_known: bool,
    /// Memory came from pools of which the driver has not said what they reserve.
    #[serde(default)]
    pub hidden_pools: bool,
    /// Bytes that the device's pools kept and nobody used.
    #[serde(default)]
    pub pool_idle: u64,
    /// What calls had taken on the device without saying so: for what, bytes, estimated.
    #[serde(default)]
    pub taken: Vec<(CostKind, i64, bool)>,
    /// Bytes of the device that belonged to no process.
    #[serde(default)]
    pub driver: u64,
    /// Other processes on the device.
    #[serde(default)]
    pub others: Vec<Other>,
    /// The rows whose live bytes had changed most lately, the largest change first.
    #[serde(default)]
    pub changes: Vec<(RowId, i64)>,
    /// Since when.
    #[serde(default)]
    pub changes_since_ns: u64,
    /// The latest frees before, the latest first.
    #[serde(default)]
    pub last_frees: Vec<LastFree>,
    /// What the host had, where that may be the reason.
    #[serde(default)]
    pub host: Option<HostMemory>,
    /// The framework's cache then, if there was one.
    #[serde(default)]
    pub cache: Option<CacheState>,
    /// The cache itself refused: no call of the driver failed.
    #[serde(default)]
    pub by_cache: bool,
    /// The phase that the thread was in; 0 for none.
    #[serde(default)]
    pub phase: PhaseId,
    /// Which instance of the phase it was, from 1.
    #[serde(default)]
    pub round: u64,
    /// That phase and those around it, the outermost first, each with the name of its instance (0 for none).
    #[serde(default)]
    pub phases: Vec<(PhaseId, PhaseNameId)>,
    /// Rows that had been rising, the steepest first.
    #[serde(default)]
    pub rising: Vec<Rising>,
    /// What phases leave behind each time, as it was then.
    #[serde(default)]
    pub growth: Vec<Growth>,
    /// The program's last lines before, by their number in the [`crate::log`].
    #[serde(default)]
    pub log: u64,
    /// The success, if one followed the latest attempt.
    pub recovery: Option<Recovery>,
    ended_before: u64,
    #[serde(default)]
    taken_back_before: u64,
    probe: Option<u32>,
}

impl Group {
    /// By how much the free memory was too small, where it was.
    #[must_use]
    pub fn short_by(&self) -> Option<u64> {
        self.requested?.checked_sub(self.free?).filter(|by| *by > 0)
    }
}

/// A series of failing requests, each half as large as the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Probe {
    failures: u64,
    succeeded: bool,
}

type GroupKey = (CallId, StackId, Option<u64>, Option<u8>);
type SuccessKey = (CallId, Option<u8>, u64);

/// All failures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OutOfMemory {
    groups: Vec<Group>,
    probes: Vec<Probe>,
    beyond: u64,
    latest: Option<usize>,
    #[serde(skip)]
    numbers: Map<GroupKey, usize>,
    #[serde(skip)]
    open: Map<SuccessKey, Vec<usize>>,
    last_of_thread: Vec<(ThreadId, usize)>,
    #[serde(default)]
    refused: Vec<Refused>,
}

/// A group, by its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupRef(usize);

/// What a framework's cache refused and has not handed out since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Refused {
    group: usize,
    device: Option<u8>,
    asked: u64,
}

/// True if a block of this size is the answer to a request: a cache does not split off a rest of up to 1 MiB.
fn is_served(asked: u64, bytes: u64) -> bool {
    const UNSPLIT: u64 = 1 << 20;
    let rest = if asked > UNSPLIT { UNSPLIT } else { 0 };
    (asked..=asked.saturating_add(rest)).contains(&bytes)
}

/// What has ever ended on a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedSoFar {
    /// Device bytes.
    pub(crate) bytes: u64,
    /// Bytes that a framework's cache has taken back.
    pub(crate) taken_back: u64,
}

/// What a failure says.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Space, if the call says.
    pub space: Option<Space>,
    /// Bytes asked for, if the call says.
    pub requested: Option<u64>,
    /// Free bytes, if known.
    pub free: Option<u64>,
    /// Total bytes, if known.
    pub total: Option<u64>,
}

impl OutOfMemory {
    /// Every group, in order of the first failure.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Failures beyond the kept groups.
    #[must_use]
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// The series of halved requests that a group belongs to, if there were more than one.
    #[must_use]
    pub fn series(&self, number: usize) -> Option<u32> {
        let probe = self.groups.get(number)?.probe?;
        (self.probes.get(probe as usize)?.failures > 1).then_some(probe)
    }

    /// The number of the group that failed last.
    #[must_use]
    pub fn latest(&self) -> Option<usize> {
        self.latest
    }

    /// What came of a group, when the process ended badly or not.
    #[must_use]
    pub fn class(&self, number: usize, ended_badly: bool) -> Class {
        let Some(group) = self.groups.get(number) else {
            return Class::Caught;
        };
        let probe = group
            .probe
            .and_then(|probe| self.probes.get(probe as usize))
            .filter(|probe| probe.failures > 1);
        if group.recovery.is_some() {
            Class::Recovered
        } else if probe.is_some_and(|probe| probe.succeeded) {
            Class::Probe
        } else if ended_badly && self.latest == Some(number) {
            Class::Fatal
        } else if probe.is_some() {
            Class::Probe
        } else {
            Class::Caught
        }
    }

    /// A failure; returns the group if its composition is worth taking (not at every one of a million retries).
    pub(crate) fn fail(
        &mut self,
        event: &Event,
        failure: Failure,
        allocs: u64,
        ended: EndedSoFar,
    ) -> Option<&mut Group> {
        let key = (event.call, event.stack, failure.requested, event.device);
        let known = self.numbers.get(&key).copied();
        if known.is_none() && self.groups.len() >= MOST_GROUPS {
            self.beyond += 1;
            return None;
        }
        let number = known.unwrap_or_else(|| {
            self.groups.push(Group {
                call: event.call,
                stack: event.stack,
                requested: failure.requested,
                device: event.device,
                space: failure.space,
                thread: event.thread,
                first_ns: event.time_ns,
                last_ns: event.time_ns,
                event: allocs,
                frees: 0,
                attempts: 0,
                free: None,
                total: None,
                rows: Vec::new(),
                tracked: Vec::new(),
                others_known: false,
                hidden_pools: false,
                pool_idle: 0,
                taken: Vec::new(),
                driver: 0,
                others: Vec::new(),
                changes: Vec::new(),
                changes_since_ns: 0,
                last_frees: Vec::new(),
                host: None,
                cache: None,
                by_cache: false,
                phase: 0,
                round: 0,
                phases: Vec::new(),
                growth: Vec::new(),
                log: 0,
                rising: Vec::new(),
                recovery: None,
                ended_before: 0,
                taken_back_before: 0,
                probe: None,
            });
            self.numbers.insert(key, self.groups.len() - 1);
            self.groups.len() - 1
        });
        self.latest = Some(number);
        self.continue_probe(event.thread, number);
        if let Some(requested) = failure.requested {
            let open = self
                .open
                .entry((event.call, event.device, requested))
                .or_default();
            if !open.contains(&number) {
                open.push(number);
            }
        }
        let group = &mut self.groups[number];
        group.thread = event.thread;
        group.last_ns = event.time_ns;
        group.event = allocs;
        group.attempts += 1;
        group.free = failure.free.or(group.free);
        group.total = failure.total.or(group.total);
        group.recovery = None;
        group.ended_before = ended.bytes;
        group.taken_back_before = ended.taken_back;
        (group.attempts <= 16 || group.attempts.is_power_of_two()).then_some(group)
    }

    /// The group of the thread's latest failure on a device, if that came after `since` and nothing succeeded meanwhile.
    pub(crate) fn just_failed(
        &mut self,
        thread: ThreadId,
        device: Option<u8>,
        since: u64,
    ) -> Option<GroupRef> {
        let last = self.last_of_thread.iter().find(|one| one.0 == thread)?;
        let group = self.groups.get(last.1)?;
        let is_it = group.device == device && group.last_ns > since && !group.by_cache;
        is_it.then_some(GroupRef(last.1))
    }

    /// The group that failed last is one of a cache that keeps to a limit of its own.
    pub(crate) fn latest_is_by_cache(&mut self) -> Option<GroupRef> {
        let number = self.latest?;
        self.groups.get_mut(number)?.by_cache = true;
        Some(GroupRef(number))
    }

    /// A framework's cache gave up what this group asked for, or asked for itself.
    pub(crate) fn cache_gave_up(&mut self, at: GroupRef, state: CacheState) {
        let group = &mut self.groups[at.0];
        if let Some(asked) = state.asked {
            self.refused.retain(|refused| refused.group != at.0);
            self.refused.push(Refused {
                group: at.0,
                device: group.device,
                asked,
            });
        }
        group.cache = Some(state);
    }

    /// The cache has handed out a block: whoever asked for as much has got it.
    pub(crate) fn cache_served(
        &mut self,
        time_ns: u64,
        device: Option<u8>,
        bytes: u64,
        ended: EndedSoFar,
    ) {
        let groups = &mut self.groups;
        self.refused.retain(|refused| {
            let is_answered = refused.device == device && is_served(refused.asked, bytes);
            if is_answered && let Some(group) = groups.get_mut(refused.group) {
                let of_driver = ended.bytes.saturating_sub(group.ended_before);
                let of_cache = ended.taken_back.saturating_sub(group.taken_back_before);
                group.recovery = Some(Recovery {
                    time_ns,
                    freed_between: of_driver.max(of_cache),
                });
            }
            !is_answered
        });
    }

    fn continue_probe(&mut self, thread: ThreadId, number: usize) {
        let last = self.last_of_thread.iter_mut().find(|one| one.0 == thread);
        let before = match last {
            Some(last) => std::mem::replace(&mut last.1, number),
            None => {
                self.last_of_thread.push((thread, number));
                return;
            }
        };
        if before == number {
            return;
        }
        let (first, second) = (&self.groups[before], &self.groups[number]);
        let same =
            (first.call, first.stack, first.device) == (second.call, second.stack, second.device);
        if !same || !is_half(second.requested, first.requested) {
            return;
        }
        let probe = first.probe.unwrap_or_else(|| {
            self.probes.push(Probe {
                failures: 1,
                succeeded: false,
            });
            self.probes.len() as u32 - 1
        });
        self.probes[probe as usize].failures += 1;
        self.groups[before].probe = Some(probe);
        self.groups[number].probe = Some(probe);
    }

    /// An allocation succeeded: does that close a group?
    pub(crate) fn succeed(&mut self, event: &Event, requested: u64, ended_bytes: u64) {
        if self.groups.is_empty() {
            return;
        }
        if let Some(closed) = self.open.remove(&(event.call, event.device, requested)) {
            for number in closed {
                let group = &mut self.groups[number];
                group.recovery = Some(Recovery {
                    time_ns: event.time_ns,
                    freed_between: ended_bytes.saturating_sub(group.ended_before),
                });
            }
        }
        let of_thread = |one: &(ThreadId, usize)| one.0 == event.thread;
        if let Some(at) = self.last_of_thread.iter().position(of_thread) {
            let (_, number) = self.last_of_thread.swap_remove(at);
            let group = &self.groups[number];
            let same = group.call == event.call && group.device == event.device;
            if let Some(probe) = group.probe
                && same
                && is_half(Some(requested), group.requested)
            {
                self.probes[probe as usize].succeeded = true;
            }
        }
    }

    pub(crate) fn reindex(&mut self) {
        for (number, group) in self.groups.iter().enumerate() {
            let key = (group.call, group.stack, group.requested, group.device);
            self.numbers.insert(key, number);
            if let (Some(requested), None) = (group.requested, group.recovery) {
                self.open
                    .entry((group.call, group.device, requested))
                    .or_default()
                    .push(number);
            }
        }
    }
}

fn is_half(smaller: Option<u64>, larger: Option<u64>) -> bool {
    match (smaller, larger) {
        (Some(smaller), Some(larger)) => smaller == larger / 2 || smaller == larger.div_ceil(2),
        _ => false,
    }
}
