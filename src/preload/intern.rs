//! Stacks by number: the same stack is stored once. Fixed, open-addressed, lock-free; nothing is ever removed, so what
//! was found stays valid and the writer may read it at any later time.
//!
//! The room is bounded. When it gets scarce, new stacks are shortened to their innermost frames, of which there are far
//! fewer different ones; the reader is told.

use super::stack::words;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Slots of the table: each holds the high half of a hash and a reference.
const SLOTS: usize = 1 << 17;
/// Words of the arena (10 MiB). Pages that were never written cost nothing.
const WORDS: usize = 5 << 18;
/// Beyond this many probes the stack counts as not to be found.
const PROBES: usize = 64;

/// Up to which word of the arena stacks are stored with how many frames.
const LEVELS: [(usize, usize); 3] = [
    (WORDS / 3 * 2, usize::MAX),
    (WORDS / 12 * 11, 12),
    (WORDS, 3),
];

/// A shortened stack keeps so many Python frames beyond its innermost frames: they name the line that a person knows.
const PYTHON_KEPT: usize = 2;

/// The innermost frames, and the innermost Python frames beyond them.
fn shortened<'a>(addresses: &[u64], frames: usize, to: &'a mut [u64]) -> &'a [u64] {
    let (inner, outer) = addresses.split_at(frames);
    let python = outer.iter().filter(|word| words::is_python(**word));
    let kept = inner.iter().chain(python.take(PYTHON_KEPT));
    let length = to
        .iter_mut()
        .zip(kept)
        .map(|(slot, word)| *slot = *word)
        .count();
    &to[..length]
}

/// A stack as stored: word 0 = generation << 32 | length, then the return addresses.
pub struct Interner {
    slots: &'static [AtomicU64],
    arena: &'static [AtomicU64],
    next: AtomicUsize,
    /// The level that the latest new stack needed.
    level: AtomicU8,
}

/// A fast mix over the addresses; the table compares whole stacks, so only speed and spread count.
fn hash(generation: u32, addresses: &[u64]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(23) ^ word).wrapping_mul(MULTIPLIER);
    // In four lanes: each step waits for the one before it, and a multiplication takes its time.
    let mut lanes = [1, 2, 3, 4];
    let groups = addresses.chunks_exact(lanes.len());
    let rest = groups.remainder();
    for group in groups {
        for (lane, word) in lanes.iter_mut().zip(group) {
            *lane = mix(*lane, *word);
        }
    }
    let first = u64::from(generation) ^ addresses.len() as u64;
    let mut hash = lanes
        .iter()
        .chain(rest)
        .fold(first, |hash, word| mix(hash, *word));
    hash ^= hash >> 29;
    hash.wrapping_mul(MULTIPLIER)
}

/// Zeroed memory straight from the kernel: not the program's allocator, and untouched pages stay unbacked.
fn reserve(words: usize) -> Option<&'static [AtomicU64]> {
    // SAFETY: a fresh private anonymous mapping, never unmapped: valid, zeroed and ours for the rest of the process.
    unsafe {
        let memory = libc::mmap(
            std::ptr::null_mut(),
            words * size_of::<AtomicU64>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return None;
        }
        Some(std::slice::from_raw_parts(
            memory.cast::<AtomicU64>(),
            words,
        ))
    }
}

impl Interner {
    /// An empty table; `None` if the kernel gives no memory.
    pub fn new() -> Option<Interner> {
        // Word 0 is left out, so that no stack has reference 0.
        Some(Interner {
            slots: reserve(SLOTS)?,
            arena: reserve(WORDS)?,
            next: AtomicUsize::new(1),
            level: AtomicU8::new(0),
        })
    }

    /// The reference of a stack, stored now if it is new, shortened if the room is scarce; 0 if there is none left.
    pub fn intern(&self, generation: u32, addresses: &[u64]) -> u32 {
        let mut short = [0; 12 + PYTHON_KEPT];
        for ((limit, frames), level) in LEVELS.into_iter().zip(1..) {
            let kept = match addresses.len() <= frames {
                true => addresses,
                false => shortened(addresses, frames, &mut short),
            };
            if let Some(reference) = self.find_or_store(generation, kept, limit) {
                return reference;
            }
            self.level.fetch_max(level, Ordering::Relaxed);
        }
        0
    }

    /// What the reader should be told, by how scarce the room is.
    pub fn shortage(&self) -> Option<&'static str> {
        match self.level.load(Ordering::Relaxed) {
            0 => None,
            1 => Some("very many different stacks: new ones keep their innermost 12 frames only"),
            2 => Some("far too many different stacks: new ones keep their innermost 3 frames only"),
            _ => Some("no room for more different stacks: new ones are unknown"),
        }
    }

    fn find_or_store(&self, generation: u32, addresses: &[u64], limit: usize) -> Option<u32> {
        let hash = hash(generation, addresses);
        let tag = hash & 0xffff_ffff_0000_0000;
        let mut stored = None;
        for probe in 0..PROBES {
            let slot = &self.slots[(hash as usize).wrapping_add(probe) % SLOTS];
            let mut entry = slot.load(Ordering::Acquire);
            if entry == 0 {
                let reference = match stored {
                    Some(reference) => reference,
                    None => self.store(generation, addresses, limit)?,
                };
                stored = Some(reference);
                match slot.compare_exchange(
                    0,
                    tag | u64::from(reference),
                    Ordering::AcqRel,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return Some(reference),
                    // Another thread took the slot, perhaps for the same stack; then our copy is wasted.
                    Err(holder) => entry = holder,
                }
            }
            if entry & 0xffff_ffff_0000_0000 == tag
                && self.equals(entry as u32, generation, addresses)
            {
                return Some(entry as u32);
            }
        }
        None
    }

    fn store(&self, generation: u32, addresses: &[u64], limit: usize) -> Option<u32> {
        let needed = addresses.len() + 1;
        let at = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next + needed <= limit).then_some(next + needed)
            })
            .ok()?;
        for (word, address) in self.arena[at + 1..].iter().zip(addresses) {
            word.store(*address, Ordering::Relaxed);
        }
        let head = u64::from(generation) << 32 | addresses.len() as u64;
        self.arena[at].store(head, Ordering::Release);
        u32::try_from(at).ok()
    }

    fn equals(&self, reference: u32, generation: u32, addresses: &[u64]) -> bool {
        let at = reference as usize;
        let head = self.arena[at].load(Ordering::Acquire);
        head == (u64::from(generation) << 32 | addresses.len() as u64)
            && self.arena[at + 1..]
                .iter()
                .zip(addresses)
                .all(|(word, address)| word.load(Ordering::Relaxed) == *address)
    }

    /// Generation and addresses of a stored stack, the latter appended to `to`.
    pub fn read(&self, reference: u32, to: &mut Vec<u64>) -> u32 {
        let at = reference as usize;
        let head = self.arena[at].load(Ordering::Acquire);
        let length = head as u32 as usize;
        to.extend(
            self.arena[at + 1..at + 1 + length]
                .iter()
                .map(|word| word.load(Ordering::Relaxed)),
        );
        (head >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(interner: &Interner, reference: u32) -> (u32, Vec<u64>) {
        let mut addresses = Vec::new();
        let generation = interner.read(reference, &mut addresses);
        (generation, addresses)
    }

    #[test]
    fn the_same_stack_has_the_same_reference() {
        let interner = Interner::new().expect("memory");
        let first = interner.intern(1, &[10, 20, 30]);
        let other = interner.intern(1, &[10, 20, 31]);
        let later = interner.intern(2, &[10, 20, 30]);
        assert_eq!(interner.intern(1, &[10, 20, 30]), first);
        assert!(first != other && first != later && other != later);
        assert_eq!(read(&interner, first), (1, vec![10, 20, 30]));
        assert_eq!(read(&interner, later), (2, vec![10, 20, 30]));
        assert_eq!(read(&interner, interner.intern(0, &[])), (0, vec![]));
    }

    #[test]
    fn scarce_room_shortens_new_stacks_and_keeps_the_old_ones() {
        let interner = Interner::new().expect("memory");
        // A million stacks that differ in their outer frames only, as recursion makes them.
        let stack = |number: u64| -> [u64; 40] {
            std::array::from_fn(|frame| {
                if frame < 20 {
                    frame as u64
                } else {
                    number << 8 | frame as u64
                }
            })
        };
        let references: Vec<u32> = (0..1_000_000)
            .map(|number| interner.intern(0, &stack(number)))
            .collect();
        assert!(references.iter().all(|reference| *reference != 0));
        let whole = references
            .iter()
            .position(|reference| read(&interner, *reference).1.len() < 40);
        let whole = whole.expect("the room is bounded");
        assert!(whole > 20_000, "{whole}");
        for number in (0..whole).step_by(997) {
            assert_eq!(read(&interner, references[number]).1, stack(number as u64));
            assert_eq!(
                interner.intern(0, &stack(number as u64)),
                references[number]
            );
        }
        for number in (whole..references.len()).step_by(9973) {
            assert_eq!(
                read(&interner, references[number]).1,
                stack(number as u64)[..12]
            );
        }
        assert!(
            interner
                .shortage()
                .expect("it is said")
                .contains("innermost 12")
        );
    }

    #[test]
    fn a_shortened_stack_keeps_its_innermost_python_lines() {
        let python = [
            words::frame(1, 10),
            words::frame(2, 20),
            words::frame(3, 30),
        ];
        let stack = [
            &[1, 2, 3, 4, 5, python[0], 6, python[1]][..],
            &[7; 8],
            &python[2..],
        ]
        .concat();
        let mut to = [0; 14];
        assert_eq!(
            shortened(&stack, 3, &mut to),
            [1, 2, 3, python[0], python[1]]
        );
        assert_eq!(
            shortened(&stack, 6, &mut to),
            [1, 2, 3, 4, 5, python[0], python[1], python[2]]
        );
        assert_eq!(shortened(&[1, 2, 3, 4], 3, &mut to), [1, 2, 3]);
    }

    #[test]
    fn without_any_room_left_stacks_are_unknown() {
        let interner = Interner::new().expect("memory");
        let stack =
            |number: u64| -> [u64; 40] { std::array::from_fn(|frame| number << 8 | frame as u64) };
        let last = (0..400_000)
            .map(|number| interner.intern(0, &stack(number)))
            .last();
        assert_eq!(last, Some(0));
        assert!(interner.shortage().expect("it is said").contains("unknown"));
        let first = interner.intern(0, &stack(0));
        assert_eq!(read(&interner, first).1, stack(0), "what was there stays");
    }

    #[test]
    fn threads_agree_on_references() {
        let interner = Interner::new().expect("memory");
        let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..5000)
                            .map(|number| interner.intern(0, &[number, 1, 2]))
                            .collect()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .collect()
        });
        for (number, reference) in all[0].iter().enumerate() {
            assert!(all.iter().all(|one| one[number] == *reference));
            assert_eq!(read(&interner, *reference).1, [number as u64, 1, 2]);
        }
    }
}
