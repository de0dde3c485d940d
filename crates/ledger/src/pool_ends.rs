//! Pools that are destroyed, perhaps with blocks in them, and blocks that are freed on another stream than their own.

use crate::announcements::Origin;
use crate::blocks::Block;
use crate::hash::Map;
use crate::ledger::Ledger;
use crate::rows::RowId;
use oomhook_trace::{Event, Space, What};

impl Ledger {
    /// A pool is no more, but for the blocks that are left of it.
    pub(crate) fn destroy_pool(&mut self, event: &Event, pool: u64) {
        let Some(number) = self.pools.by_handle.remove(&pool) else {
            return;
        };
        self.pools.current.retain(|_, current| *current != number);
        let live = self.pools.books[number as usize].live;
        let from = (live.blocks > 0).then(|| self.most_of_pool(number));
        let book = &mut self.pools.books[number as usize];
        book.destroyed = Some(event.into());
        book.left = live;
        book.left_from = from.flatten();
        if live.blocks == 0 {
            (book.used, book.reserved) = (0, 0);
        }
    }

    /// The row that has most of a pool's living bytes.
    fn most_of_pool(&mut self, number: u32) -> Option<RowId> {
        if !self.may_scan() {
            return None;
        }
        let mut sums: Map<RowId, u64> = Map::default();
        for (_, block) in self.blocks.live() {
            let device = self.rows.get(block.row).and_then(|row| row.key.device);
            if self.pools.of(block, device) == Some(number) {
                *sums.entry(block.row).or_default() += block.bytes;
            }
        }
        let most = sums
            .into_iter()
            .max_by_key(|(row, bytes)| (*bytes, std::cmp::Reverse(*row)));
        most.map(|(row, _)| row)
    }

    /// A stream-ordered free of a block; true if it is on another stream than the allocation.
    pub(crate) fn free_on_stream(&mut self, event: &Event, family: Space, block: &Block) -> bool {
        let What::Free { stream, .. } = event.what else {
            return false;
        };
        let ordered = family == Space::Async && block.space == Space::Async;
        // The default stream of a thread is another one in each thread.
        let row = self.rows.get(block.row).map(|row| row.key);
        let own = stream == PER_THREAD && row.is_some_and(|key| key.thread != event.thread);
        let elsewhere = ordered && (stream != block.stream || own);
        if elsewhere {
            let device = row.and_then(|key| key.device);
            self.pools.freed_elsewhere(event.into(), block, device);
        }
        elsewhere
    }

    pub(crate) fn undo_free_on_stream(&mut self, by: Origin, block: &Block) {
        let device = self.rows.get(block.row).and_then(|row| row.key.device);
        self.pools.not_freed_elsewhere(by, block, device);
    }
}

/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;
