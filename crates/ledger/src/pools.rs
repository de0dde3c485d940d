//! Memory pools: the driver's figures, and beside them what the books say of the blocks from each.
//!
//! A block does not know its pool: it would no longer fit into a cache line. Blocks from the default pool are the rule, so
//! only the others are listed, by address.

use crate::amount::Amount;
use crate::announcements::Origin;
use crate::blocks::{Block, Class};
use crate::devices::{Devices, Peak};
use crate::hash::Map;
use crate::reserve::{AtPeak, Figures};
use crate::rows::RowId;
use oomhook_trace::record::{Deed, DeedKind};
use oomhook_trace::{Event, Space, What};
use serde::{Deserialize, Serialize};

/// Pools kept; of those beyond, only what lives is known, by space.
const MOST_POOLS: usize = 1024;
/// Pairs of sites kept that allocate on one stream and free on another.
const MOST_PAIRS: usize = 16;

/// Whose a pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolKind {
    /// Its making was not seen.
    #[default]
    Unknown,
    /// A device's default pool.
    Default,
    /// The program made it.
    Own,
    /// Another process made it.
    Imported,
}

/// A pool: the driver's figures as last seen, and the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolUse {
    /// The pool; 0 for a device's default pool whose handle was never told.
    pub pool: u64,
    /// Its device.
    pub device: Option<u8>,
    /// Bytes in use.
    pub used: u64,
    /// Most bytes in use.
    pub used_high: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Most bytes reserved.
    pub reserved_high: u64,
    /// Release threshold.
    pub threshold: u64,
    /// The driver was asked for the figures above.
    pub asked: bool,
    /// Whose it is.
    pub kind: PoolKind,
    /// What lives of it, by our own books.
    pub live: Amount,
    /// Most bytes that lived.
    pub live_peak: u64,
    /// Blocks that ever came from it.
    pub allocs: u64,
    /// How often it was trimmed.
    pub trims: u64,
    /// What the trims gave back that could be measured.
    pub trimmed: u64,
    /// How many trims could not be measured.
    pub trims_unmeasured: u64,
    /// Who made it.
    pub made: Option<Origin>,
    /// Who set its threshold last.
    pub threshold_set: Option<Origin>,
    /// Who destroyed it.
    pub destroyed: Option<Origin>,
    /// What lived of it then: it goes with the last of that.
    pub left: Amount,
    /// Where most of that came from.
    pub left_from: Option<RowId>,
    /// Blocks that were freed on another stream than the one they were allocated on.
    pub freed_elsewhere: u64,
    /// What the driver said last, by itself.
    pub(crate) latest: Option<Figures>,
    /// At its device's latest peak.
    pub(crate) at_peak: AtPeak,
}

impl PoolUse {
    /// Bytes that it keeps and nobody uses. What lives is known at any moment, the driver's own count of it is as old as the
    /// latest figures, so the two are told apart by the books; of a destroyed pool, which cannot be asked, by the figures.
    #[must_use]
    pub fn idle(&self) -> u64 {
        let in_use = match self.destroyed {
            Some(_) => self.used,
            None => self.live.bytes,
        };
        self.reserved.saturating_sub(in_use)
    }

    /// Call before anything of it changes, with the number of its device's latest peak.
    fn settle(&mut self, peak: u64) {
        self.at_peak = AtPeak::of(peak, self);
    }
}

/// Blocks of one site that were freed by another on another stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherStream {
    /// Where the blocks came from.
    pub row: RowId,
    /// Who freed the first one.
    pub by: Origin,
    /// How many.
    pub frees: u64,
}

/// All pools.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    pub(crate) books: Vec<PoolUse>,
    pub(crate) by_handle: Map<u64, u32>,
    defaults: Map<Option<u8>, u32>,
    /// What a device's memory comes from, where the program chose another pool than the default.
    pub(crate) current: Map<Option<u8>, u32>,
    of_block: Map<u64, u32>,
    other_streams: Vec<OtherStream>,
}

/// What a checkpoint keeps beside the pools themselves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedPools {
    current: Vec<(Option<u8>, u32)>,
    of_block: Vec<(u64, u32)>,
    other_streams: Vec<OtherStream>,
}

impl Pools {
    /// Every pool, in the order in which they were seen first.
    pub fn iter(&self) -> impl Iterator<Item = &PoolUse> {
        self.books.iter()
    }

    /// Frees on another stream than the allocation's, the first pairs of sites.
    #[must_use]
    pub fn other_streams(&self) -> &[OtherStream] {
        &self.other_streams
    }

    /// Bytes that the device's pools keep and nobody uses, as last seen.
    #[must_use]
    pub fn idle(&self, device: Option<u8>) -> u64 {
        let pools = self.books.iter().filter(|pool| pool.device == device);
        pools.map(PoolUse::idle).sum()
    }

    /// The same at the device's latest peak, which has this number and was at this time, and whether that is an estimate;
    /// `None` if the driver has not said what a pool reserves that had a part in it.
    #[must_use]
    pub(crate) fn idle_at_peak(&self, device: Option<u8>, peak: &Peak) -> Option<(u64, bool)> {
        let pools = self.books.iter().filter(|pool| pool.device == device);
        let mut sum = (0, false);
        for pool in pools {
            match AtPeak::of(peak.number, pool).idle(peak.time_ns) {
                Some((bytes, estimated)) => {
                    sum.0 += bytes;
                    sum.1 |= estimated && bytes > 0;
                }
                None => return None,
            }
        }
        Some(sum)
    }

    /// True if the driver has said what each of the device's pools reserves that memory came from.
    #[must_use]
    pub(crate) fn are_known(&self, device: Option<u8>) -> bool {
        let mut pools = self.books.iter().filter(|pool| pool.device == device);
        pools.all(|pool| pool.latest.is_some() || pool.allocs == 0)
    }

    fn add(&mut self, book: PoolUse) -> Option<u32> {
        let mut number = self.books.len();
        if number >= MOST_POOLS {
            // One that went without a trace makes room.
            let gone = |old: &PoolUse| {
                old.destroyed.is_some() && old.left.blocks == 0 && old.live.blocks == 0
            };
            number = self.books.iter().position(gone)?;
            self.books[number] = book;
        } else {
            self.books.push(book);
        }
        let number = number as u32;
        if book.pool != 0 {
            self.by_handle.insert(book.pool, number);
        }
        Some(number)
    }

    /// The pool with this handle, met perhaps for the first time.
    fn of_handle(&mut self, pool: u64, device: Option<u8>) -> Option<u32> {
        if let Some(number) = self.by_handle.get(&pool) {
            return Some(*number);
        }
        self.add(PoolUse {
            pool,
            device,
            ..PoolUse::default()
        })
    }

    fn default_of(&mut self, device: Option<u8>) -> Option<u32> {
        if let Some(number) = self.defaults.get(&device) {
            return Some(*number);
        }
        let number = self.add(PoolUse {
            device,
            kind: PoolKind::Default,
            ..PoolUse::default()
        })?;
        self.defaults.insert(device, number);
        Some(number)
    }

    fn is_default(&mut self, pool: u64, device: Option<u8>) {
        let known = self.by_handle.get(&pool).copied();
        let number = match (self.defaults.get(&device).copied(), known) {
            (Some(number), _) => {
                self.by_handle.insert(pool, number);
                Some(number)
            }
            (None, Some(number)) => Some(number),
            (None, None) => self.of_handle(pool, device),
        };
        let Some(number) = number else { return };
        self.defaults.insert(device, number);
        let book = &mut self.books[number as usize];
        book.pool = pool;
        book.device = device;
        book.kind = PoolKind::Default;
    }

    fn book(&mut self, pool: u64) -> Option<&mut PoolUse> {
        let number = *self.by_handle.get(&pool)?;
        self.books.get_mut(number as usize)
    }

    /// Any block is from another pool than a default one: the exception, so that all others cost nothing.
    pub(crate) fn lists_blocks(&self) -> bool {
        !self.of_block.is_empty()
    }

    /// A block is about to be charged: it is from this pool (0: from the device's).
    pub(crate) fn comes(&mut self, event: &Event, space: Space, address: u64, pool: u64) {
        if Class::of(space) != Class::Pointer {
            return;
        }
        if self.lists_blocks() {
            // Another block may have had the address.
            self.of_block.remove(&address);
        }
        if space != Space::Async && pool == 0 {
            return;
        }
        let number = match pool {
            0 => match self.current.get(&event.device) {
                Some(number) => Some(*number),
                None => self.default_of(event.device),
            },
            pool => self.of_handle(pool, event.device),
        };
        let Some(number) = number else { return };
        self.books[number as usize].allocs += 1;
        if space != Space::Async || self.defaults.get(&event.device) != Some(&number) {
            self.of_block.insert(address, number);
        }
    }

    /// The pool of a block on a device.
    pub(crate) fn of(&self, block: &Block, device: Option<u8>) -> Option<u32> {
        let listed = match block.space {
            Space::Async | Space::Pinned | Space::Managed => self.of_block.get(&block.address),
            _ => return None,
        };
        match (listed, block.space) {
            (Some(number), _) => Some(*number),
            (None, Space::Async) => self.defaults.get(&device).copied(),
            (None, _) => None,
        }
    }

    /// A block lives from now on; `peak` is the number of the device's latest peak so far.
    pub(crate) fn charge(&mut self, block: &Block, device: Option<u8>, peak: u64) {
        if let Some(number) = self.of(block, device) {
            let book = &mut self.books[number as usize];
            book.settle(peak);
            book.live += block.amount();
            book.live_peak = book.live_peak.max(book.live.bytes);
        }
    }

    /// A block lives no more.
    pub(crate) fn discharge(&mut self, block: &Block, device: Option<u8>, peak: u64) {
        if let Some(number) = self.of(block, device) {
            let book = &mut self.books[number as usize];
            book.settle(peak);
            book.live -= block.amount();
            if book.destroyed.is_some() && book.live.blocks == 0 {
                // It went with its last block.
                (book.used, book.reserved) = (0, 0);
            }
        }
    }

    /// The block at this address is gone for good, and nothing lives there.
    pub(crate) fn forget(&mut self, address: u64) {
        self.of_block.remove(&address);
    }

    pub(crate) fn made(&mut self, event: &Event, pool: u64) {
        self.by_handle.remove(&pool);
        self.add(PoolUse {
            pool,
            device: event.device,
            kind: PoolKind::Own,
            made: Some(event.into()),
            ..PoolUse::default()
        });
    }

    pub(crate) fn state(&mut self, event: &Event, devices: &Devices) {
        let What::PoolState {
            pool,
            used,
            used_high,
            reserved,
            reserved_high,
            threshold,
        } = event.what
        else {
            return;
        };
        let default = self.defaults.get(&event.device).copied();
        let nameless = default.filter(|number| self.books[*number as usize].pool == 0);
        if nameless.is_some() && !self.by_handle.contains_key(&pool) {
            // Traces of older versions do not tell which pool is the default one; it is the one whose making was not seen.
            self.is_default(pool, event.device);
        }
        let Some(number) = self.of_handle(pool, event.device) else {
            return;
        };
        let book = &mut self.books[number as usize];
        // The call that the figures come from may not say where its pool is.
        book.device = event.device.or(book.device);
        book.settle(devices.peak_number(book.device));
        let figures = Figures {
            time_ns: event.time_ns,
            reserved,
            high: reserved_high,
        };
        book.at_peak.learn(figures);
        book.latest = Some(figures);
        book.asked = true;
        book.used = used;
        book.reserved = reserved;
        book.threshold = threshold;
        // The program may set the driver's marks back.
        book.used_high = book.used_high.max(used_high);
        book.reserved_high = book.reserved_high.max(reserved_high);
    }

    pub(crate) fn deed(&mut self, deed: &Deed, kind: DeedKind) {
        let by = Origin {
            time_ns: deed.time_ns,
            stack: deed.stack,
            thread: deed.thread,
            call: deed.call,
        };
        match kind {
            DeedKind::DefaultPool => self.is_default(deed.subject, deed.device),
            DeedKind::CurrentPool => {
                let number = self.of_handle(deed.subject, deed.device);
                match number.filter(|number| self.defaults.get(&deed.device) != Some(number)) {
                    Some(number) => self.current.insert(deed.device, number),
                    None => self.current.remove(&deed.device),
                };
            }
            DeedKind::ImportedPool => {
                if let Some(book) = self.book(deed.subject) {
                    book.kind = PoolKind::Imported;
                }
            }
            DeedKind::Threshold => {
                self.of_handle(deed.subject, deed.device);
                if let Some(book) = self.book(deed.subject) {
                    book.threshold = deed.value;
                    book.threshold_set = Some(by);
                }
            }
            DeedKind::Trim => {
                self.of_handle(deed.subject, deed.device);
                if let Some(book) = self.book(deed.subject) {
                    book.trims += 1;
                    match deed.other.checked_sub(1) {
                        Some(bytes) => book.trimmed = book.trimmed.saturating_add(bytes),
                        None => book.trims_unmeasured += 1,
                    }
                }
            }
            DeedKind::Launches
            | DeedKind::Export
            | DeedKind::Open
            | DeedKind::Unmeasured
            | DeedKind::MadeIn
            | DeedKind::LimitIn
            | DeedKind::ContextGone => {}
        }
    }

    /// A block is freed on another stream.
    pub(crate) fn freed_elsewhere(&mut self, by: Origin, block: &Block, device: Option<u8>) {
        let Some(number) = self.of(block, device) else {
            return;
        };
        self.books[number as usize].freed_elsewhere += 1;
        let same = |pair: &OtherStream| pair.row == block.row && pair.by.stack == by.stack;
        match self.other_streams.iter().position(same) {
            Some(at) => self.other_streams[at].frees += 1,
            None if self.other_streams.len() < MOST_PAIRS => {
                self.other_streams.push(OtherStream {
                    row: block.row,
                    by,
                    frees: 1,
                });
            }
            None => {}
        }
    }

    pub(crate) fn not_freed_elsewhere(&mut self, by: Origin, block: &Block, device: Option<u8>) {
        if let Some(number) = self.of(block, device) {
            let frees = &mut self.books[number as usize].freed_elsewhere;
            *frees = frees.saturating_sub(1);
        }
        let mut known = self.other_streams.iter_mut();
        let pair = known.find(|pair| pair.row == block.row && pair.by.stack == by.stack);
        if let Some(pair) = pair {
            pair.frees = pair.frees.saturating_sub(1);
        }
        self.other_streams.retain(|pair| pair.frees > 0);
    }

    pub(crate) fn save(&self) -> (Vec<PoolUse>, SavedPools) {
        let saved = SavedPools {
            current: self.current.iter().map(|(at, of)| (*at, *of)).collect(),
            of_block: self.of_block.iter().map(|(at, of)| (*at, *of)).collect(),
            other_streams: self.other_streams.clone(),
        };
        (self.books.clone(), saved)
    }

    pub(crate) fn restore(books: Vec<PoolUse>, saved: SavedPools) -> Pools {
        let mut pools = Pools {
            current: saved.current.into_iter().collect(),
            of_block: saved.of_block.into_iter().collect(),
            other_streams: saved.other_streams,
            ..Pools::default()
        };
        for (book, number) in books.iter().zip(0..) {
            if book.destroyed.is_none() && book.pool != 0 {
                pools.by_handle.insert(book.pool, number);
            }
            if book.kind == PoolKind::Default {
                pools.defaults.insert(book.device, number);
            }
        }
        pools.books = books;
        pools
    }
}
