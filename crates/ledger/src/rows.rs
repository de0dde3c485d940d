//! Blocks summed by origin. A row knows its sum now and its sum at its device's latest peak, in constant work.
//!
//! A device counts its peaks. Before a row changes, it compares: if it has not changed since the latest peak, its
//! present sum is its sum at that peak, and is put aside. So a new peak touches no row at all.

use crate::amount::Amount;
use crate::hash::Map;
use crate::phases::PhaseId;
use crate::series::Series;
use oomhook_trace::record::CallId;
use oomhook_trace::{Space, StackId, ThreadId};
use serde::{Deserialize, Serialize};

/// Number of a row.
pub type RowId = u32;

/// A row's life is followed over time once it has had so many bytes.
const WORTH_A_SERIES: u64 = 64 << 10;
/// Rows whose life is followed.
const MOST_SERIES: usize = 8192;

/// Where blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RowKey {
    /// Stack of the allocation.
    pub stack: StackId,
    /// Thread of the allocation.
    pub thread: ThreadId,
    /// Call of the allocation.
    pub call: CallId,
    /// Device, where there is one.
    pub device: Option<u8>,
    /// Space.
    pub space: Space,
    /// Phase that the thread was in; 0 for none.
    #[serde(default)]
    pub phase: PhaseId,
}

/// Whether a row's blocks become larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sizes {
    /// The latest block's.
    pub latest: u64,
    /// Blocks that were larger than the one before.
    pub larger: u64,
    /// Blocks that were smaller than the one before.
    pub smaller: u64,
}

/// The blocks of one origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The origin.
    pub key: RowKey,
    /// What lives.
    pub live: Amount,
    /// What lived at the peak number `peak`.
    pub(crate) at_peak: Amount,
    pub(crate) peak: u64,
    /// Blocks that ever came.
    pub allocs: u64,
    /// Bytes that ever came.
    pub cumulative_bytes: u64,
    /// What lived lately.
    #[serde(skip)]
    pub(crate) lately: Lately,
    /// Nanoseconds that its ended blocks lived, summed.
    pub lived_ns: u64,
    /// Whether its blocks become larger.
    pub sizes: Sizes,
    /// A framework's cache keeps blocks of others in them.
    pub serves_cache: bool,
    /// Live bytes over the life of the process, if they were ever worth it.
    pub series: Option<Box<Series>>,
}

/// Live bytes at the beginning of this window of time and of the one before, each kept at the first change in it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lately {
    window: u64,
    bytes: u64,
    earlier: u64,
    earlier_bytes: u64,
}

impl Lately {
    /// Call before any change, with the number of the present window (from 1).
    fn settle(&mut self, window: u64, live: u64) {
        if self.window != window {
            (self.earlier, self.earlier_bytes) = (self.window, self.bytes);
            (self.window, self.bytes) = (window, live);
        }
    }

    /// What lived at the beginning of the window before the present one.
    fn before(&self, window: u64, live: u64) -> u64 {
        let from = window.saturating_sub(1);
        if self.window != 0 && self.earlier >= from && self.earlier != 0 {
            self.earlier_bytes
        } else if self.window >= from && self.window != 0 {
            self.bytes
        } else {
            live
        }
    }
}

impl Row {
    /// Live bytes that came (or went) since the beginning of the window of time before the present one.
    pub(crate) fn change(&self, window: u64) -> i64 {
        let before = self.lately.before(window, self.live.bytes);
        i64::try_from(i128::from(self.live.bytes) - i128::from(before)).unwrap_or(0)
    }

    /// Call before any change of `live`, with the number of the present window of time.
    pub(crate) fn note_the_time(&mut self, window: u64) {
        self.lately.settle(window, self.live.bytes);
    }

    /// Call before any change of `live`, with the number of the device's latest peak.
    pub(crate) fn settle(&mut self, peak: u64) {
        if self.peak != peak {
            self.at_peak = self.live;
            self.peak = peak;
        }
    }

    /// Blocks that ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.allocs.saturating_sub(self.live.blocks)
    }

    fn follow(&mut self, tick: u64, before: u64, kept: &mut usize) {
        if let Some(series) = &mut self.series {
            series.change(tick, before, self.live.bytes);
        } else if self.live.bytes >= WORTH_A_SERIES && *kept < MOST_SERIES {
            *kept += 1;
            let mut series = Series::new(tick, before);
            series.change(tick, before, self.live.bytes);
            self.series = Some(Box::new(series));
        }
    }

    /// What lived at the device's latest peak, which has this number.
    pub(crate) fn at_peak(&self, peak: u64) -> Amount {
        if self.peak == peak {
            self.at_peak
        } else {
            self.live
        }
    }
}

/// All rows.
#[derive(Clone, Default)]
pub struct Rows {
    rows: Vec<Row>,
    numbers: Map<RowKey, RowId>,
    followed: usize,
}

/// The instant of a change, by the clocks that rows go by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    /// Number of the device's latest peak.
    pub peak: u64,
    /// Number of the present window of time.
    pub window: u64,
    /// Allocations so far.
    pub tick: u64,
}

impl Rows {
    /// The number of this origin's row; made at its first mention. `peak` is the number of its device's latest peak.
    pub fn intern(&mut self, key: RowKey, peak: u64) -> RowId {
        *self.numbers.entry(key).or_insert_with(|| {
            self.rows.push(Row {
                key,
                live: Amount::default(),
                at_peak: Amount::default(),
                peak,
                allocs: 0,
                cumulative_bytes: 0,
                lately: Lately::default(),
                lived_ns: 0,
                sizes: Sizes::default(),
                serves_cache: false,
                series: None,
            });
            self.rows.len() as RowId - 1
        })
    }

    /// Live bytes of a row come or go.
    pub(crate) fn change(&mut self, id: RowId, now: Instant, change: impl FnOnce(&mut Amount)) {
        let Some(row) = self.rows.get_mut(id as usize) else {
            return;
        };
        row.settle(now.peak);
        row.note_the_time(now.window);
        let before = row.live.bytes;
        change(&mut row.live);
        row.follow(now.tick, before, &mut self.followed);
    }

    /// A row has made a block.
    pub(crate) fn count(&mut self, id: RowId, bytes: u64) {
        let Some(row) = self.rows.get_mut(id as usize) else {
            return;
        };
        row.allocs += 1;
        row.cumulative_bytes = row.cumulative_bytes.saturating_add(bytes);
        if row.allocs > 1 {
            row.sizes.larger += u64::from(bytes > row.sizes.latest);
            row.sizes.smaller += u64::from(bytes < row.sizes.latest);
        }
        row.sizes.latest = bytes;
    }

    /// A block of a row has ended, after such a life.
    pub(crate) fn buried(&mut self, id: RowId, lived_ns: u64) {
        if let Some(row) = self.rows.get_mut(id as usize) {
            row.lived_ns = row.lived_ns.saturating_add(lived_ns);
        }
    }

    pub(crate) fn restore(&mut self, row: Row) {
        self.followed += usize::from(row.series.is_some());
        self.numbers.insert(row.key, self.rows.len() as RowId);
        self.rows.push(row);
    }

    /// The row with this number.
    #[must_use]
    pub fn get(&self, id: RowId) -> Option<&Row> {
        self.rows.get(id as usize)
    }

    pub(crate) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        self.rows.get_mut(id as usize)
    }

    /// Every row.
    pub fn iter(&self) -> impl Iterator<Item = (RowId, &Row)> {
        self.rows
            .iter()
            .enumerate()
            .map(|(id, row)| (id as RowId, row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lived_lately_is_known_for_two_windows() {
        let mut lately = Lately::default();
        // Nothing has changed: what lives has lived.
        assert_eq!(lately.before(9, 7), 7);
        lately.settle(3, 0);
        lately.settle(3, 10);
        assert_eq!(lately.before(3, 30), 0);
        assert_eq!(lately.before(4, 30), 0);
        assert_eq!(lately.before(5, 30), 30);
        lately.settle(4, 30);
        assert_eq!(lately.before(4, 50), 0);
        assert_eq!(lately.before(5, 50), 30);
        assert_eq!(lately.before(6, 50), 50);
        lately.settle(8, 50);
        assert_eq!(lately.before(8, 5), 50);
        assert_eq!(lately.before(9, 5), 50);
        assert_eq!(lately.before(10, 5), 5);
    }
}
