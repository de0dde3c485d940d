//! Failures for lack of memory, with all that is to be remembered of the moment.

use crate::amount::Amount;
use crate::costs::Look;
use crate::devices::DeviceUse;
use crate::history::{Ended, History};
use crate::ledger::Ledger;
use crate::oom::{self, Failure, LastFree};
use crate::rows::{Row, RowId, RowKey, Rows};
use crate::shapes;
use oomhook_trace::record::HostMemory;
use oomhook_trace::{Event, Space, What};

/// The driver's code for "already registered".
const ALREADY_REGISTERED: u32 = 712;
/// What changed lately is what changed in the present window of time and the one before.
const WINDOW_NS: u64 = 5_000_000_000;

/// A look at a device that is no older tells of now.
const RECENT_NS: u64 = 2_000_000_000;

/// The number of the window that an instant lies in, from 1.
fn window(time_ns: u64) -> u64 {
    time_ns / WINDOW_NS + 1
}

impl Ledger {
    pub(crate) fn alloc_failed(&mut self, event: &Event) {
        let What::AllocFailed {
            space,
            requested,
            code,
            free,
            total,
            address,
        } = event.what
        else {
            return;
        };
        if space.is_some_and(Space::is_allocation) {
            self.totals.failed_allocs += 1;
        }
        if space == Some(Space::Registered) && code == ALREADY_REGISTERED {
            self.failed_register(event, address.unwrap_or(0), code);
        }
        if code != oom::OUT_OF_MEMORY {
            return;
        }
        let failure = Failure {
            space,
            requested,
            free,
            total,
        };
        let host = self.host_memory.remove(&event.thread);
        self.fail(event, failure, host);
    }

    /// A failure for lack of memory, with what lived then.
    pub(crate) fn fail(&mut self, event: &Event, failure: Failure, host: Option<HostMemory>) {
        let ended = self.ended_so_far(event.device);
        let space = failure.space;
        let cache = self.cache_state(event.device);
        let phase = self.phases.of_thread(event.thread);
        let growth = self.growth();
        let asked = failure.requested.unwrap_or(0);
        let log = self.log.failed(event.time_ns, asked);
        if let Some(group) = self.oom.fail(event, failure, self.totals.allocs, ended) {
            group.frees = self.totals.frees;
            group.rows = largest_rows(&self.rows, event.device, space);
            group.tracked = self.devices.get(event.device).map_or(Vec::new(), tracked);
            group.pool_idle = self.pools.idle(event.device);
            group.hidden_pools = !self.pools.are_known(event.device);
            if let Some(device) = event.device {
                let taken = self.costs.taken(device);
                group.taken = taken
                    .into_iter()
                    .map(|(kind, of)| (kind, of.0, of.1))
                    .collect();
                let recent =
                    |look: &&Look| self.last_ns.saturating_sub(look.sample.time_ns) < RECENT_NS;
                let look = self.costs.latest(device).filter(recent);
                group.others = look.map_or(Vec::new(), |look| look.other_processes().to_vec());
                group.others_known = look.is_some_and(|look| look.sample.others_known);
                group.driver = look.map_or(0, Look::driver);
            }
            group.changes = changes(&self.rows, event.device, self.last_ns);
            group.changes_since_ns = window_before(self.last_ns).max(self.restored_ns);
            group.last_frees = last_frees(&self.history, &self.rows, event.device);
            group.host = host;
            group.cache = cache;
            group.phase = phase;
            group.round = self.phases.round(phase);
            group.phases = self.phases.within(event.thread);
            group.growth = growth;
            group.log = log;
            let of_device = |(_, row): &(RowId, &Row)| {
                row.key.space.is_device() && row.key.device == event.device
            };
            let rows = self.rows.iter().filter(of_device);
            group.rising = shapes::rising(rows, self.totals.allocs, true);
        }
    }

    /// The number of the present window of time.
    pub(crate) fn present_window(&self) -> u64 {
        window(self.last_ns)
    }

    pub(crate) fn ended_so_far(&self, device: Option<u8>) -> oom::EndedSoFar {
        oom::EndedSoFar {
            bytes: self.ended_bytes(device),
            taken_back: self.tensors.ended_bytes(device),
        }
    }

    pub(crate) fn ended_bytes(&self, device: Option<u8>) -> u64 {
        self.devices
            .get(device)
            .map_or(0, |usage| usage.ended_bytes)
    }
}

/// Bytes of the device that live, space by space.
fn tracked(device: &DeviceUse) -> Vec<(Space, u64)> {
    let spaces = device.spaces.used();
    let live = spaces.map(|(space, usage)| (space, usage.live.bytes));
    live.filter(|(space, bytes)| space.is_device() && *bytes > 0)
        .collect()
}

/// Beginning of the window before the present one.
fn window_before(now_ns: u64) -> u64 {
    (now_ns / WINDOW_NS).saturating_sub(1) * WINDOW_NS
}

/// The rows of the device that changed most lately, the largest change first.
fn changes(rows: &Rows, device: Option<u8>, now_ns: u64) -> Vec<(RowId, i64)> {
    let now = window(now_ns);
    let of_device = |row: &Row| row.key.space.is_device() && row.key.device == device;
    let mut found: Vec<(RowId, i64)> = rows
        .iter()
        .filter(|(_, row)| of_device(row))
        .map(|(id, row)| (id, row.change(now)))
        .filter(|(_, change)| *change != 0)
        .collect();
    found.sort_by_key(|(id, change)| (std::cmp::Reverse(change.unsigned_abs()), *id));
    found.truncate(oom::MOST_CHANGES);
    found
}

/// The latest frees of device memory, the latest first.
fn last_frees(history: &History, rows: &Rows, device: Option<u8>) -> Vec<LastFree> {
    let of_device = |ended: &&Ended| {
        let key = rows.get(ended.row).map(|row| row.key);
        key.is_some_and(|key| key.space.is_device() && key.device == device)
    };
    let frees = history.newest().filter(of_device).take(oom::MOST_FREES);
    frees
        .map(|ended| LastFree {
            row: ended.row,
            bytes: ended.bytes,
            by: ended.by,
        })
        .collect()
}

/// The rows that explain why there was no memory left in this space of this device.
fn largest_rows(rows: &Rows, device: Option<u8>, space: Option<Space>) -> Vec<(RowId, Amount)> {
    let on_host = matches!(space, Some(Space::Pinned | Space::Registered));
    let explains = |key: &RowKey| {
        if on_host {
            return matches!(key.space, Space::Pinned | Space::Registered);
        }
        key.space.is_device() && (device.is_none() || key.device == device)
    };
    let mut found: Vec<(RowId, Amount)> = rows
        .iter()
        .filter(|(_, row)| row.live.blocks > 0 && explains(&row.key))
        .map(|(id, row)| (id, row.live))
        .collect();
    found.sort_by_key(|(id, live)| (std::cmp::Reverse(live.bytes), *id));
    found.truncate(oom::MOST_ROWS);
    found
}
