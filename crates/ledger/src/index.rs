//! Finds numbers by hash: open addressing with eight bytes an entry, so that a million blocks cost 16 MiB.
//!
//! A map from address to number would cost twice as much; the address stands in the block already.

const SMALLEST: usize = 64;

/// Each entry is the hash (high half) and the number plus one (low half); 0 is vacant.
#[derive(Clone, Default)]
pub struct Index {
    entries: Vec<u64>,
    used: usize,
}

fn entry(hash: u32, number: u32) -> u64 {
    u64::from(hash) << 32 | (u64::from(number) + 1)
}

impl Index {
    fn home(&self, hash: u32) -> usize {
        // The length is a power of two, so this takes the top bits of the hash.
        ((u64::from(hash) * self.entries.len() as u64) >> 32) as usize
    }

    fn position(&self, hash: u32, mut fits: impl FnMut(u32) -> bool) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let mask = self.entries.len() - 1;
        let mut at = self.home(hash);
        loop {
            let found = self.entries[at];
            if found == 0 {
                return None;
            }
            if (found >> 32) as u32 == hash && fits(found as u32 - 1) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    /// The number with this hash that `fits`.
    pub fn find(&self, hash: u32, fits: impl FnMut(u32) -> bool) -> Option<u32> {
        self.position(hash, fits)
            .map(|at| self.entries[at] as u32 - 1)
    }

    /// Adds a number.
    pub fn insert(&mut self, hash: u32, number: u32) {
        if (self.used + 1) * 8 > self.entries.len() * 7 {
            self.grow();
        }
        self.used += 1;
        self.place(entry(hash, number));
    }

    /// Takes a number out; false if it is not there.
    pub fn remove(&mut self, hash: u32, number: u32) -> bool {
        let Some(mut hole) = self.position(hash, |found| found == number) else {
            return false;
        };
        self.used -= 1;
        let mask = self.entries.len() - 1;
        let mut at = hole;
        // Entries behind the hole move up as long as that brings them no further than their home.
        loop {
            at = (at + 1) & mask;
            let found = self.entries[at];
            if found == 0 {
                break;
            }
            let home = self.home((found >> 32) as u32);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = found;
                hole = at;
            }
        }
        self.entries[hole] = 0;
        true
    }

    fn place(&mut self, new: u64) {
        let mask = self.entries.len() - 1;
        let mut at = self.home((new >> 32) as u32);
        while self.entries[at] != 0 {
            at = (at + 1) & mask;
        }
        self.entries[at] = new;
    }

    fn grow(&mut self) {
        let length = (self.entries.len() * 2).max(SMALLEST);
        let old = std::mem::replace(&mut self.entries, vec![0; length]);
        for found in old.into_iter().filter(|found| *found != 0) {
            self.place(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn numbers_are_found_after_others_with_the_same_home_were_removed() {
        let mut index = Index::default();
        let hash = |number: u32| hash::of_address(0, u64::from(number / 4));
        for number in 0..2000 {
            index.insert(hash(number), number);
        }
        for number in (0..2000).step_by(3) {
            assert!(index.remove(hash(number), number));
            assert!(!index.remove(hash(number), number));
        }
        for number in 0..2000 {
            let found = index.find(hash(number), |other| other == number);
            assert_eq!(found, (number % 3 != 0).then_some(number));
        }
    }
}
