//! Which memory around a stack pointer may be read: a walk that leaves it stops, whatever the rules say.
//!
//! The thread's own stack stays mapped as long as the thread lives, so its bounds are kept. Any other (a coroutine's, a
//! signal's alternate one) may be gone at the next look, and another one of another size lie there: it is looked at anew
//! each time.

use super::super::readable::{PAGE, is_readable};
use std::cell::Cell;

/// One past the addresses that are a program's, with 47 and with 56 bits, less what is looked at beyond.
const USER_END: u64 = (1 << 56) - (1 << 32);
/// Pages of a stack that is not the thread's own which are asked for at once.
const PAGES: usize = 8;
/// The main thread's stack is looked through up to its end, but not further than this (64 MiB).
const MOST_PAGES: u64 = 16384;

/// Readable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low: u64,
    high: u64,
}

/// Nothing.
const NONE: Bounds = Bounds { low: 0, high: 0 };

/// What is known of the thread's own stack.
#[derive(Clone, Copy)]
struct Own {
    /// Where it may be read.
    bounds: Bounds,
    /// Where it ends downwards; it may grow to there.
    limit: u64,
    /// It was looked for.
    is_known: bool,
}

thread_local! {
    static OWN: Cell<Own> = const {
        Cell::new(Own {
            bounds: NONE,
            limit: 0,
            is_known: false,
        })
    };
}

impl Bounds {
    /// True if these bytes may be read.
    #[inline]
    pub fn holds(self, at: u64, bytes: u64) -> bool {
        at >= self.low && at < self.high && self.high - at >= bytes
    }

    /// The same memory and more.
    pub fn joined(self, other: Bounds) -> Bounds {
        match other.low <= self.high && self.low <= other.high {
            true => Bounds {
                low: self.low.min(other.low),
                high: self.high.max(other.high),
            },
            false => other,
        }
    }
}

/// The bounds of the stack that this stack pointer is in; `None` if it points nowhere, or the kernel does not say.
#[inline]
pub fn of(stack: u64) -> Option<Bounds> {
    let own = OWN.get().bounds;
    if own.holds(stack, 1) {
        Some(own)
    } else {
        look(stack)
    }
}

/// True if this stack pointer, which has bounds, is in the thread's own stack.
#[inline]
pub fn is_own(stack: u64) -> bool {
    OWN.get().bounds.holds(stack, 1)
}

/// True if the stack has so many bytes left below the caller's frame.
#[inline]
pub fn has_room(bytes: u64) -> bool {
    let here = 0u8;
    let stack = (&raw const here).expose_provenance() as u64;
    let own = OWN.get();
    if own.bounds.holds(stack, 1) {
        stack - own.limit > bytes
    } else {
        has_room_after_a_look(stack, bytes)
    }
}

#[cold]
fn has_room_after_a_look(stack: u64, bytes: u64) -> bool {
    if look(stack).is_none() {
        return false;
    }
    let own = OWN.get();
    if own.bounds.holds(stack, 1) {
        return stack - own.limit > bytes;
    }
    let pages = bytes.div_ceil(PAGE) as usize;
    readable_pages((stack & !(PAGE - 1)).saturating_sub(bytes), pages) == pages
}

#[cold]
fn look(stack: u64) -> Option<Bounds> {
    if stack >= USER_END {
        return None;
    }
    let own = own_stack(stack, OWN.get());
    OWN.set(own);
    if own.bounds.holds(stack, 1) {
        return Some(own.bounds);
    }
    let low = stack & !(PAGE - 1);
    let pages = readable_pages(low, PAGES) as u64;
    (pages > 0).then(|| Bounds {
        low,
        high: low + pages * PAGE,
    })
}

fn is_main() -> bool {
    // SAFETY: both take nothing.
    unsafe { libc::gettid() == libc::getpid() }
}

/// The thread's own stack, as the C library knows it. The main thread's reaches from a stack pointer on it to what the
/// kernel put at its end, and grows.
fn own_stack(stack: u64, known: Own) -> Own {
    if is_main() {
        return up_to_the_end(stack).map_or(known, |bounds| Own {
            bounds,
            limit: bounds.high.saturating_sub(growth()),
            is_known: true,
        });
    }
    if known.is_known {
        return known;
    }
    let bounds = of_this_thread().unwrap_or(NONE);
    Own {
        bounds,
        limit: bounds.low,
        is_known: true,
    }
}

fn of_this_thread() -> Option<Bounds> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut start = std::ptr::null_mut();
    let mut size = 0;
    // SAFETY: the attributes are filled by the first call, read by the second and given back by the third.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let code = libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if code != 0 {
            return None;
        }
    }
    let low = start.expose_provenance() as u64;
    Some(Bounds {
        low,
        high: low.checked_add(size as u64)?,
    })
}

/// From a stack pointer to the end of the main thread's stack, if it is on that. (Whatever else lies below that stack, the
/// kernel keeps a gap between.)
fn up_to_the_end(stack: u64) -> Option<Bounds> {
    // SAFETY: reads what the kernel told the process at its start.
    let end = unsafe { libc::getauxval(libc::AT_RANDOM) };
    let low = stack & !(PAGE - 1);
    let pages = end.checked_sub(low)?.div_ceil(PAGE);
    let is_whole = pages < MOST_PAGES && readable_pages(low, pages as usize) as u64 == pages;
    is_whole.then_some(Bounds { low, high: end })
}

/// How far the main thread's stack may grow.
fn growth() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    let code = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) };
    if code == 0 { limit.rlim_cur } else { 0 }
}

/// How many pages in a row can be read.
fn readable_pages(start: u64, pages: usize) -> usize {
    let pages = (0..pages as u64).take_while(|page| is_readable(start.wrapping_add(page * PAGE)));
    pages.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pages: usize) -> *mut u8 {
        // SAFETY: a fresh private mapping.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                pages * PAGE as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(memory != libc::MAP_FAILED);
        memory.cast()
    }

    #[test]
    fn a_threads_own_stack_reaches_to_its_end_and_is_kept() {
        let check = || {
            let local = 0u64;
            let here = &raw const local as u64;
            let bounds = of(here).expect("the stack");
            assert!(bounds.holds(here, 8) && bounds.holds(bounds.high - 8, 8));
            assert!(!bounds.holds(bounds.high - 7, 8) && !bounds.holds(bounds.low - 1, 1));
            assert_eq!(OWN.get().bounds, bounds);
            assert!(has_room(4096) && !has_room(1 << 40));
            bounds
        };
        check();
        let size = 256 << 10;
        let thread = std::thread::Builder::new().stack_size(size);
        let thread = thread.spawn(check).expect("a thread");
        let bounds = thread.join().expect("no panic");
        let found = (bounds.high - bounds.low) as usize;
        assert!((size..size + (64 << 10)).contains(&found), "{found}");
    }

    #[test]
    fn any_other_stack_ends_where_it_cannot_be_read_and_is_forgotten() {
        let stack = map(4);
        // SAFETY: the last page of our own mapping.
        let code = unsafe { libc::mprotect(stack.add(3 * 4096).cast(), 4096, libc::PROT_NONE) };
        assert_eq!(code, 0);
        let local = 0u8;
        of((&raw const local) as u64).expect("the thread's own");
        let at = stack as u64 + 100;
        let before = OWN.get().bounds;
        let bounds = of(at).expect("readable");
        assert_eq!(bounds.high, stack as u64 + 3 * PAGE);
        assert_eq!(of(stack as u64 + 3 * PAGE), None);
        assert_eq!(OWN.get().bounds, before);
        // SAFETY: our own mapping, whole.
        unsafe { libc::munmap(stack.cast(), 4 * 4096) };
        assert_eq!(of(at), None);
        assert_eq!(of(0), None);
        assert_eq!(of(u64::MAX), None);
    }
}
