//! When a framework's cache gives up: what it held, what it had handed out, and where in it there was room.

use crate::amount::Amount;
use crate::holes::CacheMap;
use crate::ledger::Ledger;
use crate::oom::{Failure, MOST_CHANGES};
use crate::rows::RowId;
use crate::shapes::{self, Jumped, Rising};
use oomhook_trace::told::Tensor;
use oomhook_trace::{Event, Space, What};
use serde::{Deserialize, Serialize};

/// Rows of a cache that are kept of a failure.
const MOST_TENSOR_ROWS: usize = 64;

/// A cache at the moment of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheState {
    /// Bytes handed out.
    pub allocated: u64,
    /// Bytes that it held.
    pub reserved: u64,
    /// Blocks handed out so far.
    pub event: u64,
    /// Blocks taken back so far.
    pub frees: u64,
    /// Where there was room.
    pub map: CacheMap,
    /// The largest rows of what was handed out, the largest first.
    pub rows: Vec<(RowId, Amount)>,
    /// Of each of them: blocks that had come, blocks that had gone, and the nanoseconds that these had lived. A process that
    /// dies of the failure frees everything afterwards, which says nothing of how it had used it.
    pub lives: Vec<(u64, u64, u64)>,
    /// Rows that changed most lately, the largest change first.
    pub changes: Vec<(RowId, i64)>,
    /// Rows that had been rising, the steepest first.
    pub rising: Vec<Rising>,
    /// Rows that held far more than ever before, those that hold most first.
    pub jumped: Vec<Jumped>,
    /// Bytes that the cache was asked for, if it said that it gave up.
    pub asked: Option<u64>,
}

impl Ledger {
    /// The state of a device's cache now, if it has one.
    pub(crate) fn cache_state(&self, device: Option<u8>) -> Option<CacheState> {
        let device = device?;
        let cache = self.tensors.cache(device)?;
        let of_device = || {
            let rows = self.tensors.rows();
            rows.filter(|(_, row)| row.key.device == Some(device))
        };
        let mut rows: Vec<(RowId, Amount)> = of_device()
            .filter(|(_, row)| row.live.blocks > 0)
            .map(|(id, row)| (id, row.live))
            .collect();
        rows.sort_by_key(|(id, live)| (std::cmp::Reverse(live.bytes), *id));
        rows.truncate(MOST_TENSOR_ROWS);
        let lives = rows.iter().filter_map(|(id, _)| {
            let row = self.tensors.row(*id)?;
            Some((row.allocs, row.ended(), row.lived_ns))
        });
        let now = self.present_window();
        let mut changes: Vec<(RowId, i64)> = of_device()
            .map(|(id, row)| (id, row.change(now)))
            .filter(|(_, change)| *change != 0)
            .collect();
        changes.sort_by_key(|(id, change)| (std::cmp::Reverse(change.unsigned_abs()), *id));
        changes.truncate(MOST_CHANGES);
        Some(CacheState {
            allocated: cache.allocated,
            reserved: cache.reserved,
            event: cache.allocs,
            frees: cache.frees,
            map: self.cache_map(device).unwrap_or_default(),
            lives: lives.collect(),
            rows,
            changes,
            rising: shapes::rising(of_device(), self.tensors.allocs(), true),
            jumped: shapes::jumped(of_device(), self.tensors.allocs()),
            asked: None,
        })
    }

    /// The cache has given up. If the driver has just refused it memory in the same thread, that is one story; if not, the
    /// cache keeps to a limit of its own, and no call of the driver failed.
    pub(crate) fn tensor_failed(&mut self, tensor: &Tensor, requested: u64) {
        let device = Some(tensor.device);
        let state = self.cache_state(device).map(|state| CacheState {
            allocated: tensor.allocated,
            reserved: tensor.reserved,
            asked: Some(requested),
            ..state
        });
        let state = state.unwrap_or(CacheState {
            asked: Some(requested),
            ..CacheState::default()
        });
        let since = self.last_tensor(tensor.thread);
        if let Some(group) = self.oom.just_failed(tensor.thread, device, since) {
            return self.oom.cache_gave_up(group, state);
        }
        let event = Event {
            time_ns: tensor.time_ns,
            thread: tensor.thread,
            device,
            call: 0,
            stack: tensor.stack,
            what: What::NullFree,
        };
        let failure = Failure {
            space: Some(Space::Device),
            requested: Some(requested),
            free: None,
            total: None,
        };
        self.fail(&event, failure, None);
        if let Some(group) = self.oom.latest_is_by_cache() {
            self.oom.cache_gave_up(group, state);
        }
    }

    /// A block was handed out: does that end a story of failures?
    pub(crate) fn tensor_succeeded(&mut self, tensor: &Tensor, bytes: u64) {
        if self.oom.groups().is_empty() {
            return;
        }
        self.tensor_times.insert(tensor.thread, tensor.time_ns);
        let device = Some(tensor.device);
        let ended = self.ended_so_far(device);
        self.oom.cache_served(tensor.time_ns, device, bytes, ended);
    }

    fn last_tensor(&self, thread: u32) -> u64 {
        self.tensor_times.get(&thread).copied().unwrap_or(0)
    }
}
