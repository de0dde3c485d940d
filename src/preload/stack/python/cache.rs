//! Which line of which code an instruction belongs to, once it is known: fixed, lock-free, nothing is allocated.
//!
//! Code objects come and go, and a new one may lie where another lay, with names and a table of lines where the other's
//! lay. So an entry holds what tells them apart, and is good for nothing once that differs.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Entries (1 MiB; pages that were never touched cost nothing).
const ENTRIES: usize = 1 << 14;

/// What an entry is found by, and what it must agree with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The code object.
    pub code: u64,
    /// The instruction.
    pub ip: u64,
    /// The objects of its file's name, its name, its table of lines.
    pub file: u64,
    pub name: u64,
    pub lines: u64,
    /// A digest of what else tells code objects apart.
    pub digest: u64,
}

/// One line of memory: a count that is odd while it is being written, the key, the word.
#[repr(align(64))]
struct Entry {
    count: AtomicU64,
    fields: [AtomicU64; 7],
}

/// The cache.
pub struct Cache {
    entries: [Entry; ENTRIES],
}

impl Entry {
    const fn new() -> Entry {
        Entry {
            count: AtomicU64::new(0),
            fields: [const { AtomicU64::new(0) }; 7],
        }
    }
}

impl Key {
    fn fields(&self, word: u64) -> [u64; 7] {
        [
            self.code,
            self.ip,
            self.file,
            self.name,
            self.lines,
            self.digest,
            word,
        ]
    }

    #[inline]
    fn place(&self) -> usize {
        const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = (self.code.rotate_left(17) ^ self.ip).wrapping_mul(MULTIPLIER);
        (hash >> 40) as usize % ENTRIES
    }
}

impl Cache {
    /// An empty one.
    pub const fn new() -> Cache {
        Cache {
            entries: [const { Entry::new() }; ENTRIES],
        }
    }

    /// The word kept for a key.
    #[inline(always)]
    pub fn get(&self, key: &Key) -> Option<u64> {
        let place = key.place();
        self.read(place, key).or_else(|| self.read(place ^ 1, key))
    }

    #[inline(always)]
    fn read(&self, place: usize, key: &Key) -> Option<u64> {
        let entry = &self.entries[place % ENTRIES];
        let before = entry.count.load(Ordering::Acquire);
        let [code, ip, file, name, lines, digest, word] = &entry.fields;
        // Loads that depend on nothing, and one branch.
        let mut differs = before & 1;
        for (field, wanted) in [
            (code, key.code),
            (ip, key.ip),
            (file, key.file),
            (name, key.name),
            (lines, key.lines),
            (digest, key.digest),
        ] {
            differs |= field.load(Ordering::Relaxed) ^ wanted;
        }
        let word = word.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        differs |= entry.count.load(Ordering::Relaxed) ^ before;
        (differs == 0 && before != 0).then_some(word)
    }

    /// Keeps a word. If another thread is writing there, it is not kept.
    pub fn put(&self, key: &Key, word: u64) {
        let place = key.place();
        let is_for = |place: usize| {
            let entry = &self.entries[place];
            let is_new = entry.count.load(Ordering::Relaxed) == 0;
            let same = entry.fields[0].load(Ordering::Relaxed) == key.code
                && entry.fields[1].load(Ordering::Relaxed) == key.ip;
            is_new || same
        };
        let place = match (is_for(place), is_for(place ^ 1)) {
            (true, _) => place,
            (_, true) => place ^ 1,
            // Now the one, now the other.
            _ => place ^ (key.digest as usize & 1),
        };
        let entry = &self.entries[place];
        let before = entry.count.load(Ordering::Relaxed);
        let taken = before & 1 == 0
            && entry
                .count
                .compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !taken {
            return;
        }
        fence(Ordering::Release);
        for (field, value) in entry.fields.iter().zip(key.fields(word)) {
            field.store(value, Ordering::Relaxed);
        }
        entry.count.store(before + 2, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static CACHE: Cache = Cache::new();
    static SHARED: Cache = Cache::new();

    #[test]
    fn an_entry_is_good_for_its_own_code_only() {
        let key = Key {
            code: 0x7000_0000,
            ip: 0x7000_0010,
            file: 1,
            name: 2,
            lines: 3,
            digest: 4,
        };
        assert_eq!(CACHE.get(&key), None);
        CACHE.put(&key, 77);
        assert_eq!(CACHE.get(&key), Some(77));
        for other in [
            Key { ip: 9, ..key },
            Key { file: 9, ..key },
            Key { name: 9, ..key },
            Key { lines: 9, ..key },
            Key { digest: 9, ..key },
        ] {
            assert_eq!(CACHE.get(&other), None, "{other:?}");
        }
        // What took its place is found instead.
        let later = Key { digest: 5, ..key };
        CACHE.put(&later, 78);
        assert_eq!((CACHE.get(&key), CACHE.get(&later)), (None, Some(78)));
        assert_eq!(CACHE.get(&Key::default()), None);
    }

    #[test]
    fn threads_never_see_half_of_an_entry() {
        // Few codes in two places, written and read by several threads: the word always belongs to the whole key.
        let key = |number: u64| Key {
            code: 64,
            ip: 64,
            file: number,
            name: number * 3,
            lines: number * 5,
            digest: number * 7,
        };
        // A writer that is put to sleep in the middle makes one thread miss all the time, but not all of them.
        let hits: u64 = std::thread::scope(|scope| {
            let work = |thread: u64| {
                move || {
                    let mut hits = 0;
                    for round in 0..200_000 {
                        let number = (round / 4 + thread) % 5 + 1;
                        match SHARED.get(&key(number)) {
                            Some(word) => {
                                assert_eq!(word, number * 11);
                                hits += 1;
                            }
                            None => SHARED.put(&key(number), number * 11),
                        }
                    }
                    hits
                }
            };
            let threads = [0, 1, 2].map(|thread| scope.spawn(work(thread)));
            let threads = threads.into_iter();
            threads.map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!(hits > 0);
    }
}
