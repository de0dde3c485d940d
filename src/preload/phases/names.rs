//! Names of phases by number: the same name has the same number, and is told once. Fixed, open-addressed, lock-free.
//!
//! A program may name each step ("step 17"). When three quarters of the room are used, numbers in names are left out, of which
//! there are far fewer different ones.

use super::super::raw::Raw;
use super::super::state::Recorder;
use super::super::{channel, guard};
use oomhook_trace::Record;
use oomhook_trace::told::PhaseName;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Number of a name, from 1; 0 for one that found no room.
pub type NameId = u32;

const SLOTS: usize = 8192;
const PROBES: usize = 64;
/// Longer names are cut.
const LONGEST: usize = 200;

/// Hashes of the names; a name's number is its place plus one. The lowest bit: it is with those to be told.
static HASHES: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Names that the trace does not know yet, the latest first.
static UNTOLD: AtomicPtr<Untold> = AtomicPtr::new(std::ptr::null_mut());

struct Untold {
    name: PhaseName,
    next: *mut Untold,
}

/// A name and its domain, as UTF-8 or nearly so.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    /// The domain's name; empty for the default one.
    pub domain: &'a [u8],
    /// The name.
    pub name: &'a [u8],
}

fn hash(domain: &[u8], name: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = domain.len() as u64 ^ FACTOR;
    for byte in domain.iter().chain(name) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(FACTOR);
    // Neither empty nor told.
    (mixed | 2) & !1
}

/// The number of a name; a new one is kept to be told.
pub fn number(name: Name<'_>) -> NameId {
    let domain = &name.domain[..name.domain.len().min(LONGEST)];
    let text = &name.name[..name.name.len().min(LONGEST)];
    if USED.load(Ordering::Relaxed) < SLOTS / 4 * 3 {
        let id = look_up(domain, text);
        if id != 0 {
            return id;
        }
    } else if let Some(known) = find(hash(domain, text)) {
        return known;
    }
    let mut folded = [0; LONGEST];
    look_up(domain, fold(text, &mut folded))
}

/// Each number in the name becomes `#`.
fn fold<'a>(name: &[u8], to: &'a mut [u8; LONGEST]) -> &'a [u8] {
    let mut length = 0;
    let mut in_number = false;
    for byte in name {
        let digit = byte.is_ascii_digit();
        if !(digit && in_number) {
            to[length] = if digit { b'#' } else { *byte };
            length += 1;
        }
        in_number = digit;
    }
    &to[..length]
}

fn places(hash: u64) -> impl Iterator<Item = usize> {
    let first = (hash >> 20) as usize;
    (0..PROBES).map(move |probe| (first + probe) % SLOTS)
}

fn find(hash: u64) -> Option<NameId> {
    for place in places(hash) {
        match HASHES[place].load(Ordering::Acquire) {
            0 => return None,
            known if known & !1 == hash => return Some(place as NameId + 1),
            _ => {}
        }
    }
    None
}

fn look_up(domain: &[u8], name: &[u8]) -> NameId {
    let hash = hash(domain, name);
    for place in places(hash) {
        let slot = &HASHES[place];
        let mut known = slot.load(Ordering::Acquire);
        if known == 0 {
            match slot.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    USED.fetch_add(1, Ordering::Relaxed);
                    known = hash;
                }
                Err(other) => known = other,
            }
        }
        if known & !1 != hash {
            continue;
        }
        let id = place as NameId + 1;
        if known & 1 == 0 {
            // Whoever uses the number must find the name told or to be told; twice is no harm.
            keep(id, domain, name);
            slot.fetch_or(1, Ordering::AcqRel);
        }
        return id;
    }
    0
}

/// Keeps a name to be told. It is our own work: what it allocates is not the program's.
fn keep(id: NameId, domain: &[u8], name: &[u8]) {
    let _busy = guard::Busy::enter();
    let name = PhaseName {
        id,
        domain: String::from_utf8_lossy(domain).into_owned(),
        name: String::from_utf8_lossy(name).into_owned(),
    };
    let new = Box::into_raw(Box::new(Untold {
        name,
        next: std::ptr::null_mut(),
    }));
    let mut head = UNTOLD.load(Ordering::Acquire);
    loop {
        // SAFETY: ours until it is published.
        unsafe { (*new).next = head };
        match UNTOLD.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Tells all names that are to be told.
pub fn tell(recorder: &'static Recorder) {
    if UNTOLD.load(Ordering::Relaxed).is_null() {
        return;
    }
    let mut head = UNTOLD.swap(std::ptr::null_mut(), Ordering::AcqRel);
    while !head.is_null() {
        // SAFETY: leaked by `keep`; the swap made the whole list ours.
        let untold = unsafe { Box::from_raw(head) };
        head = untold.next;
        channel::send(&recorder.sender, Raw::boxed(Record::PhaseName(untold.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let name = |domain: &'static str, name: &'static str| Name {
            domain: domain.as_bytes(),
            name: name.as_bytes(),
        };
        let step = number(name("", "a step of this test"));
        assert_ne!(step, 0);
        assert_eq!(number(name("", "a step of this test")), step);
        assert_ne!(number(name("other", "a step of this test")), step);
    }

    #[test]
    fn numbers_are_folded() {
        let mut to = [0; LONGEST];
        assert_eq!(fold(b"step 1234 of 5x6", &mut to), b"step # of #x#");
        assert_eq!(fold(b"forward", &mut to), b"forward");
        assert_eq!(fold(b"", &mut to), b"");
    }
}
