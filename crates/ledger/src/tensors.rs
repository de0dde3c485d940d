//! Blocks inside a framework's cache: a second layer over the driver's blocks, never added to them.
//!
//! What is handed out and what is held the cache says itself with each block, so both peaks are its own to the byte; the
//! blocks' addresses give the composition, and where in the cache's segments there is room.

use crate::amount::Amount;
use crate::hash::Map;
use crate::phases::PhaseId;
use crate::rows::{Instant, Row, RowId, RowKey, Rows};
use crate::runs::Runs;
use oomhook_trace::Record;
use oomhook_trace::told::{Tensor, TensorWhat};
use oomhook_trace::{Space, StackId, ThreadId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The first instant of a highest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Highest {
    /// Bytes.
    pub bytes: u64,
    /// When.
    pub time_ns: u64,
    /// How many blocks had been handed out.
    pub event: u64,
    /// Counts the highest values.
    pub number: u64,
    /// The phase in which it was reached; 0 for none.
    #[serde(default)]
    pub phase: PhaseId,
    /// Which instance of the phase it was, from 1.
    #[serde(default)]
    pub round: u64,
}

impl Highest {
    fn see(&mut self, now: Highest) {
        if now.bytes > self.bytes {
            *self = Highest {
                number: self.number + 1,
                ..now
            };
        }
    }
}

/// The cache of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Bytes handed out, as the cache says.
    pub allocated: u64,
    /// Bytes that the cache holds: as it said with its latest block, less the segments that it has given back since.
    pub reserved: u64,
    /// Bytes of its segments, by the driver's books.
    pub segments: u64,
    /// Most bytes handed out.
    pub allocated_peak: Highest,
    /// Most bytes held.
    pub reserved_peak: Highest,
    /// What is handed out, by our own books.
    pub live: Amount,
    /// Blocks handed out.
    pub allocs: u64,
    /// Blocks taken back.
    pub frees: u64,
    /// Bytes ever handed out.
    pub cumulative_bytes: u64,
    /// Bytes ever taken back.
    pub ended_bytes: u64,
    /// Blocks taken back whose handing out was not seen.
    pub unknown_frees: u64,
    /// Times that the cache gave up.
    pub failures: u64,
}

impl Cache {
    /// Bytes that the cache holds and nobody uses.
    #[must_use]
    pub fn idle(&self) -> u64 {
        self.reserved.saturating_sub(self.allocated)
    }
}

/// A block that is handed out.
#[derive(Clone, Copy, Debug)]
pub struct TensorBlock {
    /// Its size.
    pub bytes: u64,
    /// When it was handed out.
    pub time_ns: u64,
    /// Its number, from 1.
    pub number: u64,
    /// Its origin.
    pub row: RowId,
}

/// All caches.
#[derive(Clone, Default)]
pub struct Tensors {
    caches: BTreeMap<u8, Cache>,
    rows: Rows,
    blocks: Map<u64, TensorBlock>,
    allocs: u64,
}

/// What goes into a checkpoint besides the living blocks.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SavedTensors {
    caches: BTreeMap<u8, Cache>,
    rows: Vec<Row>,
    allocs: u64,
}

impl Tensors {
    /// True if any block was seen.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.caches.is_empty()
    }

    /// The cache of a device.
    #[must_use]
    pub fn cache(&self, device: u8) -> Option<&Cache> {
        self.caches.get(&device)
    }

    /// Every device with a cache.
    pub fn caches(&self) -> impl Iterator<Item = (u8, &Cache)> {
        self.caches.iter().map(|(device, cache)| (*device, cache))
    }

    /// Every row with its number.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &Row)> {
        self.rows.iter()
    }

    /// One row.
    #[must_use]
    pub fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.get(id)
    }

    /// What was handed out of a row when most bytes of its device were.
    #[must_use]
    pub fn at_peak(&self, row: &Row) -> Amount {
        row.at_peak(self.peak_number(row.key.device))
    }

    /// Every block that is handed out, with its address, in no order.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &TensorBlock)> {
        self.blocks.iter().map(|(address, block)| (*address, block))
    }

    /// Blocks that were ever handed out, on all devices: the clock of the rows' series.
    #[must_use]
    pub fn allocs(&self) -> u64 {
        self.allocs
    }

    /// Bytes that a device's cache has ever taken back.
    pub(crate) fn ended_bytes(&self, device: Option<u8>) -> u64 {
        let cache = device.and_then(|device| self.cache(device));
        cache.map_or(0, |cache| cache.ended_bytes)
    }

    fn peak_number(&self, device: Option<u8>) -> u64 {
        device
            .and_then(|device| self.caches.get(&device))
            .map_or(0, |cache| cache.allocated_peak.number)
    }

    /// A segment of the cache's has come, or was found to be one. What the cache holds it says with its next block.
    pub(crate) fn segment_came(&mut self, device: u8, bytes: u64) {
        self.cache_mut(device).segments += bytes;
    }

    /// A segment has gone. The cache says so with its next block only, which may never come; it holds less at once, if the
    /// driver's books of its segments agree with what it said.
    pub(crate) fn segment_went(&mut self, device: u8, bytes: u64) {
        let cache = self.cache_mut(device);
        if cache.segments == cache.reserved {
            cache.reserved = cache.reserved.saturating_sub(bytes);
        }
        cache.segments = cache.segments.saturating_sub(bytes);
    }

    /// A segment has not gone after all.
    pub(crate) fn segment_stays(&mut self, device: u8, bytes: u64) {
        let cache = self.cache_mut(device);
        if cache.segments == cache.reserved {
            cache.reserved += bytes;
        }
        cache.segments += bytes;
    }

    /// Takes in what a cache did, in this round of the phase; `window` is the number of the present window of time.
    pub(crate) fn apply(&mut self, tensor: &Tensor, key: RowKey, round: u64, window: u64) {
        match tensor.what {
            TensorWhat::Alloc { address, bytes } => {
                if let Some(old) = self.blocks.remove(&address) {
                    // It was taken back unseen.
                    self.drop_block(tensor.device, &old, tensor.time_ns, window);
                    self.cache_mut(tensor.device).unknown_frees += 1;
                }
                self.allocs += 1;
                let peak = self.peak_number(key.device);
                let row = self.rows.intern(key, peak);
                let block = TensorBlock {
                    bytes,
                    time_ns: tensor.time_ns,
                    number: self.allocs,
                    row,
                };
                self.blocks.insert(address, block);
                let amount = Amount::block(bytes, bytes);
                let now = self.instant(tensor.device, window);
                self.rows.change(row, now, |live| *live += amount);
                self.rows.count(row, bytes);
                let cache = self.cache_mut(tensor.device);
                cache.allocs += 1;
                cache.live += amount;
                cache.cumulative_bytes = cache.cumulative_bytes.saturating_add(bytes);
            }
            TensorWhat::Free { address, .. } => match self.blocks.remove(&address) {
                Some(block) => {
                    self.drop_block(tensor.device, &block, tensor.time_ns, window);
                    self.cache_mut(tensor.device).frees += 1;
                }
                None => {
                    let cache = self.cache_mut(tensor.device);
                    cache.frees += 1;
                    cache.unknown_frees += 1;
                }
            },
            TensorWhat::Failed { .. } => self.cache_mut(tensor.device).failures += 1,
            TensorWhat::Live {
                address,
                bytes,
                number,
            } => {
                let peak = self.peak_number(key.device);
                let row = self.rows.intern(key, peak);
                let block = TensorBlock {
                    bytes,
                    time_ns: tensor.time_ns,
                    number,
                    row,
                };
                self.blocks.insert(address, block);
                return;
            }
        }
        let event = self.allocs;
        let cache = self.cache_mut(tensor.device);
        cache.allocated = tensor.allocated;
        cache.reserved = tensor.reserved;
        let of = |bytes| Highest {
            bytes,
            time_ns: tensor.time_ns,
            event,
            number: 0,
            phase: key.phase,
            round,
        };
        cache.allocated_peak.see(of(tensor.allocated));
        cache.reserved_peak.see(of(tensor.reserved));
    }

    fn instant(&self, device: u8, window: u64) -> Instant {
        Instant {
            peak: self.peak_number(Some(device)),
            window,
            tick: self.allocs,
        }
    }

    fn cache_mut(&mut self, device: u8) -> &mut Cache {
        self.caches.entry(device).or_default()
    }

    fn drop_block(&mut self, device: u8, block: &TensorBlock, now_ns: u64, window: u64) {
        let amount = Amount::block(block.bytes, block.bytes);
        let now = self.instant(device, window);
        self.rows.change(block.row, now, |live| *live -= amount);
        let lived_ns = now_ns.saturating_sub(block.time_ns);
        self.rows.buried(block.row, lived_ns);
        let cache = self.cache_mut(device);
        cache.live -= amount;
        cache.ended_bytes = cache.ended_bytes.saturating_add(block.bytes);
    }

    pub(crate) fn save(&self) -> SavedTensors {
        SavedTensors {
            caches: self.caches.clone(),
            rows: self.rows.iter().map(|(_, row)| row.clone()).collect(),
            allocs: self.allocs,
        }
    }

    pub(crate) fn restore(saved: SavedTensors) -> Tensors {
        let mut tensors = Tensors {
            caches: saved.caches,
            allocs: saved.allocs,
            ..Tensors::default()
        };
        for row in saved.rows {
            tensors.rows.restore(row);
        }
        tensors
    }

    /// The phases of the living blocks, in the order of their records, each with how many follow each other.
    pub(crate) fn live_phases(&self) -> Runs {
        let phases = self.blocks.values().map(|block| {
            let row = self.rows.get(block.row);
            row.map_or(0, |row| row.key.phase)
        });
        Runs::of(phases)
    }

    /// The living blocks as records of a checkpoint.
    pub(crate) fn live_records(&self) -> impl Iterator<Item = Record> + '_ {
        self.blocks.iter().map(|(address, block)| {
            let key = self.rows.get(block.row).map(|row| row.key);
            let (thread, stack, device): (ThreadId, StackId, Option<u8>) =
                key.map_or((0, 0, None), |key| (key.thread, key.stack, key.device));
            Record::Tensor(Tensor {
                time_ns: block.time_ns,
                thread,
                device: device.unwrap_or(0),
                stack,
                what: TensorWhat::Live {
                    address: *address,
                    bytes: block.bytes,
                    number: block.number,
                },
                allocated: 0,
                reserved: 0,
            })
        })
    }
}

/// Blocks of a cache are device memory; the call that asked is the framework's own.
pub(crate) fn key_of(tensor: &Tensor, phase: PhaseId) -> RowKey {
    RowKey {
        stack: tensor.stack,
        thread: tensor.thread,
        call: 0,
        device: Some(tensor.device),
        space: Space::Device,
        phase,
    }
}
