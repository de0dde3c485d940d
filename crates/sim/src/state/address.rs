//! Ranges of addresses that are handed out and taken back; what was freed last comes back first.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct AddressSpace {
    bounds: std::ops::Range<u64>,
    /// Holes: start and length, neighbours joined.
    holes: BTreeMap<u64, u64>,
    /// The same holes by length.
    by_length: BTreeSet<(u64, u64)>,
    /// Starts of freed ranges for each length, last freed last; some may be taken since.
    freed: BTreeMap<u64, Vec<u64>>,
}

impl AddressSpace {
    pub fn new(start: u64, end: u64) -> AddressSpace {
        AddressSpace {
            bounds: start..end,
            holes: BTreeMap::from([(start, end - start)]),
            by_length: BTreeSet::from([(end - start, start)]),
            freed: BTreeMap::new(),
        }
    }

    /// Whether an address belongs to this space, taken or not.
    pub fn covers(&self, address: u64) -> bool {
        self.bounds.contains(&address)
    }

    /// Takes `length` bytes: where that length was freed last, else in the tightest hole.
    pub fn take(&mut self, length: u64, alignment: u64) -> Option<u64> {
        while let Some(start) = self.freed.get_mut(&length).and_then(Vec::pop) {
            if start.is_multiple_of(alignment) && self.take_at(start, length) {
                return Some(start);
            }
        }
        let start = self
            .by_length
            .range((length, 0)..)
            .find_map(|&(size, start)| {
                let aligned = start.next_multiple_of(alignment);
                (aligned - start + length <= size).then_some(aligned)
            })?;
        self.take_at(start, length).then_some(start)
    }

    /// Takes exactly this range, if all of it is free.
    pub fn take_at(&mut self, start: u64, length: u64) -> bool {
        let Some((&hole, &size)) = self.holes.range(..=start).next_back() else {
            return false;
        };
        let Some(end) = start.checked_add(length).filter(|&end| end <= hole + size) else {
            return false;
        };
        self.close(hole, size);
        if start > hole {
            self.open(hole, start - hole);
        }
        if end < hole + size {
            self.open(end, hole + size - end);
        }
        true
    }

    /// Takes a range back.
    pub fn give(&mut self, start: u64, length: u64) {
        self.freed.entry(length).or_default().push(start);
        let (mut from, mut to) = (start, start + length);
        if let Some((&hole, &size)) = self.holes.range(..start).next_back()
            && hole + size == start
        {
            self.close(hole, size);
            from = hole;
        }
        if let Some(&size) = self.holes.get(&to) {
            self.close(to, size);
            to += size;
        }
        self.open(from, to - from);
    }

    fn open(&mut self, start: u64, length: u64) {
        self.holes.insert(start, length);
        self.by_length.insert((length, start));
    }

    fn close(&mut self, start: u64, length: u64) {
        self.holes.remove(&start);
        self.by_length.remove(&(length, start));
    }
}

#[cfg(test)]
mod tests {
    use super::AddressSpace;

    #[test]
    fn the_last_freed_of_the_same_size_comes_back_first() {
        let mut space = AddressSpace::new(0, 1 << 20);
        let at: Vec<u64> = (0..4).map(|_| space.take(512, 512).unwrap()).collect();
        space.give(at[0], 512);
        space.give(at[2], 512);
        assert_eq!(space.take(512, 512), Some(at[2]));
        assert_eq!(space.take(512, 512), Some(at[0]));
    }

    #[test]
    fn a_larger_block_takes_the_address_of_a_smaller_one_that_ended_the_space() {
        let mut space = AddressSpace::new(0x1000, 1 << 30);
        let small = space.take(4 << 20, 512).unwrap();
        space.give(small, 4 << 20);
        assert_eq!(space.take(8 << 20, 512), Some(small));
    }

    #[test]
    fn a_freed_place_that_was_taken_since_is_not_handed_out_twice() {
        let mut space = AddressSpace::new(0, 4096);
        let a = space.take(1024, 512).unwrap();
        space.give(a, 1024);
        assert!(space.take_at(a, 512));
        assert_ne!(space.take(1024, 512), Some(a));
    }

    #[test]
    fn the_space_ends_and_joins_again() {
        let mut space = AddressSpace::new(0, 2048);
        let a = space.take(1024, 512).unwrap();
        let b = space.take(1024, 512).unwrap();
        assert_eq!(space.take(512, 512), None);
        space.give(a, 1024);
        space.give(b, 1024);
        assert_eq!(space.take(2048, 2048), Some(0));
        assert!(!space.take_at(0, 1));
    }
}
