//! Where in a framework's cache there is room: its segments (the driver's blocks) with the blocks that it has handed out from
//! them, by address.
//!
//! Segments that touch are one where they are mappings of physical memory (PyTorch's expandable segments): the cache hands out
//! blocks across their borders. Blocks of the driver's own calls stay apart, as the cache keeps them.

use crate::ledger::Ledger;
use crate::rows::RowId;
use oomhook_trace::{Space, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Sizes told apart.
const MOST_SIZES: usize = 16;
/// Rows told of that keep segments.
const MOST_PINNED: usize = 4;

/// The segments of one device's cache, and the room in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheMap {
    /// Segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes in them that are not handed out.
    pub idle_bytes: u64,
    /// Segments with such bytes.
    pub idle_in: u64,
    /// Segments of which nothing is handed out.
    pub empty_segments: u64,
    /// Their bytes.
    pub empty_bytes: u64,
    /// Gaps between blocks that are handed out.
    pub holes: u64,
    /// The largest gap.
    pub largest_hole: u64,
    /// How many segments there are of each size, the largest first.
    pub sizes: Vec<(u64, u64)>,
    /// Bytes handed out that lie in no known segment.
    pub outside_bytes: u64,
    /// Segments are mappings of physical memory, which can grow.
    pub expandable: bool,
    /// Whose blocks keep segments that are partly idle from being given back, the most idle bytes first.
    pub pinned: Vec<Pinned>,
}

/// Idle bytes of segments in which one row has most of the blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The row.
    pub row: RowId,
    /// How many segments.
    pub segments: u64,
    /// Bytes in them that are not handed out.
    pub idle_bytes: u64,
    /// Bytes in them that are.
    pub used_bytes: u64,
}

/// The driver's latest blocks and mappings: the cache hands out a new segment's first block in the same thread, at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    ring: [(ThreadId, u64, u64, RowId); 8],
    next: usize,
}

impl Recent {
    /// A block or a mapping has come.
    pub fn came(&mut self, thread: ThreadId, address: u64, bytes: u64, row: RowId) {
        self.ring[self.next] = (thread, address, bytes, row);
        self.next = (self.next + 1) % self.ring.len();
    }

    /// The row of one of this thread's latest ones that a block lies in, at least in part; told once. A block may reach from
    /// an older mapping into new ones.
    pub fn holding(&mut self, thread: ThreadId, address: u64, bytes: u64) -> Option<RowId> {
        let end = address.saturating_add(bytes.max(1));
        let found = self.ring.iter_mut().find(|(of, start, size, _)| {
            *of == thread && address < start.saturating_add(*size) && *start < end
        })?;
        let row = found.3;
        *found = (0, 0, 0, 0);
        Some(row)
    }
}

struct Segment {
    bytes: u64,
    /// May be one with a segment that touches it.
    is_mapped: bool,
}

impl Ledger {
    /// The cache of a device, segment by segment; `None` if no block of a cache was seen there.
    ///
    /// Looks at every block.
    #[must_use]
    pub fn cache_map(&self, device: u8) -> Option<CacheMap> {
        self.tensors.cache(device)?;
        let (segments, expandable) = self.segments(device);
        let mut blocks: Vec<(u64, u64, RowId)> = self
            .tensors
            .blocks()
            .filter(|(_, block)| {
                let row = self.tensors.row(block.row);
                row.is_some_and(|row| row.key.device == Some(device))
            })
            .map(|(address, block)| (address, block.bytes, block.row))
            .collect();
        blocks.sort_unstable();
        let mut map = CacheMap {
            expandable,
            ..CacheMap::default()
        };
        let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
        let mut pinned: BTreeMap<RowId, Pinned> = BTreeMap::new();
        let mut here: BTreeMap<RowId, u64> = BTreeMap::new();
        let mut at = 0;
        for (start, bytes) in segments {
            let end = start.saturating_add(bytes);
            while let Some((address, size, _)) = blocks.get(at)
                && *address < start
            {
                map.outside_bytes += size;
                at += 1;
            }
            let mut free_from = start;
            let mut used = 0;
            here.clear();
            while let Some((address, size, row)) = blocks.get(at)
                && *address < end
            {
                *here.entry(*row).or_default() += 1;
                map.hole(address.saturating_sub(free_from));
                free_from = address.saturating_add(*size).max(free_from);
                used += size;
                at += 1;
            }
            map.hole(end.saturating_sub(free_from));
            map.segments += 1;
            map.bytes += bytes;
            let idle = bytes.saturating_sub(used);
            map.idle_bytes += idle;
            map.idle_in += u64::from(idle > 0);
            let most = here
                .iter()
                .max_by_key(|(row, blocks)| (**blocks, std::cmp::Reverse(**row)));
            if let Some((row, _)) = most.filter(|_| idle > 0) {
                let pinned = pinned.entry(*row).or_default();
                pinned.row = *row;
                pinned.segments += 1;
                pinned.idle_bytes += idle;
                pinned.used_bytes += used;
            }
            if used == 0 {
                map.empty_segments += 1;
                map.empty_bytes += bytes;
            }
            *sizes.entry(bytes).or_default() += 1;
        }
        map.outside_bytes += blocks[at..].iter().map(|(_, size, _)| size).sum::<u64>();
        map.sizes = sizes.into_iter().rev().take(MOST_SIZES).collect();
        map.pinned = pinned.into_values().collect();
        map.pinned
            .sort_by_key(|one| (std::cmp::Reverse(one.idle_bytes), one.row));
        map.pinned.truncate(MOST_PINNED);
        Some(map)
    }

    /// Start and length of the segments of a device's cache, by address; true if they are mappings.
    fn segments(&self, device: u8) -> (Vec<(u64, u64)>, bool) {
        let is_the_caches = |row: RowId| {
            let row = self.rows.get(row);
            row.is_some_and(|row| row.serves_cache && row.key.device == Some(device))
        };
        let mut all: BTreeMap<u64, Segment> = BTreeMap::new();
        for (_, block) in self.blocks.live() {
            if block.space.is_device() && block.space != Space::Vmm && is_the_caches(block.row) {
                let segment = Segment {
                    bytes: block.bytes,
                    is_mapped: false,
                };
                all.insert(block.address, segment);
            }
        }
        for (address, mapping) in self.physical.mappings() {
            let block = self.blocks.get(mapping.slot);
            if block.is_some_and(|block| is_the_caches(block.row)) {
                let segment = Segment {
                    bytes: mapping.bytes,
                    is_mapped: true,
                };
                all.insert(address, segment);
            }
        }
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        let any_mapped = all.values().any(|segment| segment.is_mapped);
        let mut last_is_mapped = false;
        for (start, segment) in all {
            match joined.last_mut() {
                Some((at, bytes))
                    if segment.is_mapped && last_is_mapped && *at + *bytes == start =>
                {
                    *bytes += segment.bytes;
                }
                _ => joined.push((start, segment.bytes)),
            }
            last_is_mapped = segment.is_mapped;
        }
        (joined, any_mapped)
    }
}

impl CacheMap {
    fn hole(&mut self, bytes: u64) {
        self.holes += u64::from(bytes > 0);
        self.largest_hole = self.largest_hole.max(bytes);
    }
}
