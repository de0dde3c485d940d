//! The live bytes of a row over the life of the process, in a few numbers: their lowest and highest values in each of 32 slots
//! of equal length.
//!
//! The clock is the number of allocations, not the time: the same program gives the same series. When the clock passes the
//! last slot, neighbours are merged and a slot stands for twice as many allocations. A row that does not change costs nothing;
//! what it was meanwhile is filled in when it changes next.

use serde::{Deserialize, Serialize};

/// Slots of a series.
pub const SLOTS: usize = 32;

/// Lowest and highest live bytes, slot by slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// A slot stands for 2 to the power of this allocations.
    shift: u8,
    low: Vec<u64>,
    high: Vec<u64>,
    /// Allocations until its bytes fell last.
    #[serde(default)]
    fell: u64,
}

impl Series {
    /// A row that has had `live` bytes until now.
    #[must_use]
    pub fn new(tick: u64, live: u64) -> Series {
        let mut series = Series {
            shift: 0,
            low: Vec::with_capacity(SLOTS),
            high: Vec::with_capacity(SLOTS),
            fell: 0,
        };
        series.advance(tick, live);
        series
    }

    /// Opens the slot of this instant; in all slots since the last one `live` bytes lived.
    fn advance(&mut self, tick: u64, live: u64) {
        while tick >> self.shift >= SLOTS as u64 {
            self.halve();
        }
        let slots = (tick >> self.shift) as usize + 1;
        if slots > self.low.len() {
            self.low.resize(slots, live);
            self.high.resize(slots, live);
        }
    }

    fn halve(&mut self) {
        let merged = |values: &[u64], pick: fn(u64, u64) -> u64| -> Vec<u64> {
            let pairs = values.chunks(2);
            let mut merged = Vec::with_capacity(SLOTS);
            merged.extend(pairs.map(|pair| pick(pair[0], *pair.last().unwrap_or(&pair[0]))));
            merged
        };
        self.low = merged(&self.low, u64::min);
        self.high = merged(&self.high, u64::max);
        self.shift += 1;
    }

    /// The row changed.
    pub fn change(&mut self, tick: u64, before: u64, after: u64) {
        self.advance(tick, before);
        if after < before {
            self.fell = tick;
        }
        if let (Some(low), Some(high)) = (self.low.last_mut(), self.high.last_mut()) {
            *low = after.min(*low);
            *high = after.max(*high);
        }
    }

    /// How many allocations there had been when its bytes fell last.
    #[must_use]
    pub fn fell(&self) -> u64 {
        self.fell
    }

    /// Lowest and highest bytes of each slot up to now, where `live` bytes live.
    #[must_use]
    pub fn until(&self, tick: u64, live: u64) -> Vec<(u64, u64)> {
        let mut now = self.clone();
        now.advance(tick, live);
        now.low.into_iter().zip(now.high).collect()
    }

    /// Allocations that a slot stands for.
    #[must_use]
    pub fn slot_ticks(&self) -> u64 {
        1 << self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_fills_what_lay_between() {
        let mut series = Series::new(1, 0);
        series.change(1, 0, 10);
        series.change(4, 10, 30);
        series.change(4, 30, 5);
        assert_eq!(
            series.until(6, 5),
            [(0, 0), (0, 10), (10, 10), (10, 10), (5, 30), (5, 5), (5, 5)]
        );
    }

    #[test]
    fn slots_are_merged_when_they_run_out() {
        let mut series = Series::new(0, 0);
        for tick in 0..1000 {
            series.change(tick, tick, tick + 1);
        }
        let slots = series.until(1000, 1000);
        assert_eq!(series.slot_ticks(), 32);
        assert_eq!(slots.len(), 32);
        assert_eq!(slots[0], (0, 32));
        assert_eq!(slots[1], (32, 64));
        assert_eq!(slots[31], (992, 1000));
    }

    #[test]
    fn a_row_that_comes_late_was_empty_before() {
        let mut series = Series::new(100, 0);
        series.change(100, 0, 7);
        let slots = series.until(100, 7);
        assert!(slots[..slots.len() - 1].iter().all(|slot| *slot == (0, 0)));
        assert_eq!(slots.last(), Some(&(0, 7)));
    }
}
