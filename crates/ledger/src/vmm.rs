//! References and mappings of physical memory. It lives until neither is left, in whatever order they go.
//!
//! Mappings know the block, not the handle: the driver may give a handle's value to new memory while old mappings
//! still hold the old block.

use crate::blocks::Slot;
use crate::hash::Map;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Its length.
    pub bytes: u64,
    pub(crate) slot: Slot,
}

/// What keeps a block of physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// References to the handle.
    pub references: u32,
    /// Mappings.
    pub mappings: u32,
    /// Announcements about it that may still be taken back.
    pub open: u32,
}

impl Hold {
    /// Something keeps the block alive.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.references > 0 || self.mappings > 0
    }
}

impl Default for Hold {
    fn default() -> Hold {
        Hold {
            references: 1,
            mappings: 0,
            open: 0,
        }
    }
}

/// Holds and mappings; a block without an entry has one reference and no mapping.
#[derive(Clone, Default)]
pub struct Physical {
    holds: Map<Slot, Hold>,
    mappings: BTreeMap<u64, Mapping>,
}

impl Physical {
    /// What keeps this block.
    #[must_use]
    pub fn hold(&self, slot: Slot) -> Hold {
        self.holds.get(&slot).copied().unwrap_or_default()
    }

    /// True if the block was ever retained, mapped or released as physical memory is.
    #[must_use]
    pub fn knows(&self, slot: Slot) -> bool {
        self.holds.contains_key(&slot)
    }

    pub(crate) fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Hold)) -> Hold {
        let hold = self.holds.entry(slot).or_default();
        change(hold);
        *hold
    }

    /// Forgets a block whose end is final.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.holds.remove(&slot);
    }

    /// Adds a mapping, and returns one that it replaces (whose unmapping was not seen).
    pub(crate) fn map(&mut self, address: u64, mapping: Mapping) -> Option<Mapping> {
        self.mappings.insert(address, mapping)
    }

    /// Takes out the whole mappings inside a range.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> Vec<(u64, Mapping)> {
        let end = address.saturating_add(bytes.max(1));
        let starts: Vec<u64> = self
            .mappings
            .range(address..end)
            .map(|(at, _)| *at)
            .collect();
        let taken = starts.into_iter();
        taken
            .filter_map(|at| Some((at, self.mappings.remove(&at)?)))
            .collect()
    }

    /// Every mapping, by address.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, Mapping)> + '_ {
        self.mappings.iter().map(|(at, mapping)| (*at, *mapping))
    }

    pub(crate) fn holds(&self) -> impl Iterator<Item = (Slot, Hold)> + '_ {
        self.holds.iter().map(|(slot, hold)| (*slot, *hold))
    }

    pub(crate) fn restore_hold(&mut self, slot: Slot, hold: Hold) {
        self.holds.insert(slot, hold);
    }
}
