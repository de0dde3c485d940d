//! The rules of addresses seen before: fixed, lock-free, shared by all threads. An entry is two words that are written
//! without a lock; the first is combined with the second, so that halves of two writers never pass for an entry.
//!
//! An entry holds for one count of unloads: nothing else can change what code lies at an address that is on a stack.

use super::rule::{Rule, SPARE_BITS};
use std::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: usize = 4096;
/// Entries of a bucket: one line of the processor's cache.
const WAYS: usize = 4;

#[repr(align(64))]
struct Bucket([[AtomicU64; 2]; WAYS]);

/// Rules by address.
pub struct Cache([Bucket; BUCKETS]);

/// The process's one cache. 256 KiB, of which only the pages in use take memory.
pub static RULES: Cache = Cache::new();

/// Bits of an address in user space.
const ADDRESS_BITS: u32 = 48;

impl Cache {
    const fn new() -> Cache {
        Cache([const { Bucket([const { [AtomicU64::new(0), AtomicU64::new(0)] }; WAYS]) }; BUCKETS])
    }

    fn bucket(&self, address: u64) -> &Bucket {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.0[hash as usize % BUCKETS]
    }

    /// The rule of an address.
    #[inline]
    pub fn get(&self, address: u64, unloads: u32) -> Option<Rule> {
        let key = address ^ u64::from(unloads) << ADDRESS_BITS;
        let spare = u64::from(unloads >> (64 - ADDRESS_BITS));
        for [first, second] in &self.bucket(address).0 {
            let word = second.load(Ordering::Relaxed);
            if first.load(Ordering::Relaxed) ^ word == key {
                let (rule, found) = Rule::from_word(word);
                // An empty entry is all zeroes, which is no key: there is no code at address 0.
                return (found == spare).then_some(rule);
            }
        }
        None
    }

    /// Keeps a rule, in the place of an old one if need be.
    pub fn put(&self, address: u64, unloads: u32, rule: Rule) {
        const { assert!(SPARE_BITS + (64 - ADDRESS_BITS) >= 32) };
        let key = address ^ u64::from(unloads) << ADDRESS_BITS;
        let word = rule.with_spare(u64::from(unloads >> (64 - ADDRESS_BITS)));
        let ways = &self.bucket(address).0;
        let is_free = |way: &&[AtomicU64; 2]| {
            let (first, second) = (
                way[0].load(Ordering::Relaxed),
                way[1].load(Ordering::Relaxed),
            );
            // Free, or this very address at another time.
            first == 0 && second == 0 || (first ^ second ^ key).trailing_zeros() >= ADDRESS_BITS
        };
        // Bits that did not choose the bucket choose the victim.
        let victim = &ways[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % WAYS];
        let way = ways.iter().find(is_free).unwrap_or(victim);
        way[1].store(word, Ordering::Relaxed);
        way[0].store(key ^ word, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Kind, Saved};
    use super::*;

    fn rule_of(address: u64) -> Rule {
        Rule::new(Kind::Stack, (address % 4096) as i64 * 8, Saved::Same, 0)
    }

    #[test]
    fn a_rule_holds_for_one_count_of_unloads() {
        static CACHE: Cache = Cache::new();
        let address = 0x7fff_1234_5678;
        assert_eq!(CACHE.get(address, 0), None);
        for unloads in [0, 1, 0xffff, 0x1_0000, 0x1_0001, u32::MAX] {
            CACHE.put(address, unloads, rule_of(u64::from(unloads)));
            assert_eq!(
                CACHE.get(address, unloads),
                Some(rule_of(u64::from(unloads)))
            );
            for other in [2, 0x2_0000, u32::MAX - 1, unloads ^ 0x1_0000, unloads ^ 1] {
                assert_eq!(CACHE.get(address, other), None, "{unloads} {other}");
            }
        }
    }

    #[test]
    fn threads_never_see_halves() {
        static CACHE: Cache = Cache::new();
        // Far more addresses than places, so that all threads replace each other's entries all the time.
        let addresses = |thread: u64| {
            // Each twice, so that some are found.
            (0..400_000u64).map(move |n| 0x5555_0000_0000 + (n / 2 * 7 + thread) % 100_000)
        };
        let found: u64 = std::thread::scope(|scope| {
            let work = |thread| {
                move || {
                    let mut found = 0;
                    for address in addresses(thread) {
                        match CACHE.get(address, 5) {
                            Some(rule) => {
                                assert_eq!(rule, rule_of(address));
                                found += 1;
                            }
                            None => CACHE.put(address, 5, rule_of(address)),
                        }
                    }
                    found
                }
            };
            let threads = [0, 1, 2, 3].map(|thread| scope.spawn(work(thread)));
            let threads = threads.into_iter();
            threads.map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!(found > 0);
    }
}
