//! Stacks by number: the same stack is stored once. Fixed, open-addressed, lock-free; nothing is ever removed, so what
//! was found stays valid and the writer may read it at any later time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Slots of the table: each holds the high half of a hash and a reference.
const SLOTS: usize = 1 << 17;
/// Words of the arena (32 MiB). Pages that were never written cost nothing.
const WORDS: usize = 4 << 20;
/// Beyond this many probes the stack counts as not to be found.
const PROBES: usize = 64;

/// A stack as stored: word 0 = generation << 32 | length, then the return addresses.
pub struct Interner {
    slots: &'static [AtomicU64],
    arena: &'static [AtomicU64],
    next: AtomicUsize,
}

/// A fast mix over the addresses; the table compares whole stacks, so only speed and spread count.
fn hash(generation: u32, addresses: &[u64]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = u64::from(generation) ^ addresses.len() as u64;
    for address in addresses {
        hash = (hash.rotate_left(23) ^ address).wrapping_mul(MULTIPLIER);
    }
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
        })
    }

    /// The reference of a stack, stored now if it is new; `None` when there is no room for it.
    pub fn intern(&self, generation: u32, addresses: &[u64]) -> Option<u32> {
        let hash = hash(generation, addresses);
        let tag = hash & 0xffff_ffff_0000_0000;
        let mut stored = None;
        for probe in 0..PROBES {
            let slot = &self.slots[(hash as usize).wrapping_add(probe) % SLOTS];
            let mut entry = slot.load(Ordering::Acquire);
            if entry == 0 {
                let reference = match stored {
                    Some(reference) => reference,
                    None => self.store(generation, addresses)?,
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

    fn store(&self, generation: u32, addresses: &[u64]) -> Option<u32> {
        let needed = addresses.len() + 1;
        let at = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (next + needed <= WORDS).then_some(next + needed)
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
        let first = interner.intern(1, &[10, 20, 30]).expect("room");
        let other = interner.intern(1, &[10, 20, 31]).expect("room");
        let later = interner.intern(2, &[10, 20, 30]).expect("room");
        assert_eq!(interner.intern(1, &[10, 20, 30]), Some(first));
        assert!(first != other && first != later && other != later);
        assert_eq!(read(&interner, first), (1, vec![10, 20, 30]));
        assert_eq!(read(&interner, later), (2, vec![10, 20, 30]));
        assert_eq!(
            read(&interner, interner.intern(0, &[]).expect("room")),
            (0, vec![])
        );
    }

    #[test]
    fn a_full_table_says_so_and_keeps_what_it_has() {
        let interner = Interner::new().expect("memory");
        let stack =
            |number: u64| -> [u64; 60] { std::array::from_fn(|frame| number << 8 | frame as u64) };
        let mut kept = Vec::new();
        let refused = (0..200_000).find(|number| match interner.intern(0, &stack(*number)) {
            Some(reference) => {
                kept.push(reference);
                false
            }
            None => true,
        });
        assert!(refused.is_some());
        assert!(kept.len() > 50_000, "{}", kept.len());
        for (number, reference) in kept.iter().enumerate().step_by(997) {
            assert_eq!(read(&interner, *reference).1, stack(number as u64));
        }
    }

    #[test]
    fn threads_agree_on_references() {
        let interner = Interner::new().expect("memory");
        let all: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..5000)
                            .map(|number| interner.intern(0, &[number, 1, 2]).expect("room"))
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
