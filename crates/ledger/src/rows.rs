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
}

impl Row {
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
