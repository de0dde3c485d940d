//! Blocks summed by origin. A row knows its sum now and its sum at its device's latest peak, in constant work.
//!
//! A device counts its peaks. Before a row changes, it compares: if it has not changed since the latest peak, its
//! present sum is its sum at that peak, and is put aside. So a new peak touches no row at all.

use crate::amount::Amount;
use crate::hash::Map;
use oomhook_trace::record::CallId;
use oomhook_trace::{Space, StackId, ThreadId};

/// Number of a row.
pub type RowId = u32;

/// Where blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
}

/// The blocks of one origin.
#[derive(Clone, Debug)]
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
    pub(crate) lately: Lately,
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
            });
            self.rows.len() as RowId - 1
        })
    }

    pub(crate) fn restore(&mut self, row: Row) {
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
