//! Which memory around a stack pointer may be read: a walk that leaves it stops, whatever the rules say.
//!
//! The thread's own stack stays mapped as long as the thread lives, so its bounds are kept. Any other (a coroutine's, a
//! signal's alternate one) may be gone at the next look, and is looked at anew each time.

use super::super::readable::{PAGE, is_readable};
use std::cell::Cell;

/// One past the addresses that are a program's, with 47 and with 56 bits, less what is looked at beyond.
const USER_END: u64 = (1 << 56) - (1 << 32);
/// Pages asked for at once.
const PAGES: usize = 8;
/// Pages between the stack pointer and the thread's own end of the stack that are asked for (64 MiB): beyond, the stack
/// counts as a foreign one.
const MOST_PAGES: u64 = 16384;

/// Readable memory, from the page of a stack pointer upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    low: u64,
    high: u64,
}

thread_local! {
    static OWN: Cell<Bounds> = const { Cell::new(Bounds { low: 0, high: 0 }) };
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
    let own = OWN.get();
    if own.holds(stack, 1) {
        Some(own)
    } else {
        look(stack)
    }
}

#[cold]
fn look(stack: u64) -> Option<Bounds> {
    if stack >= USER_END {
        return None;
    }
    let low = stack & !(PAGE - 1);
    let mut high = low;
    // The end of a thread's own stack: there lies the thread's control block, or what the kernel gave the program.
    let end = own_ends()
        .into_iter()
        .filter(|end| *end > stack && (*end - stack) / PAGE < MOST_PAGES)
        .min();
    loop {
        let pages = match end {
            Some(end) if end > high => ((end - high).div_ceil(PAGE) as usize).min(PAGES),
            _ => PAGES,
        };
        let readable = readable_pages(high, pages) as u64;
        high += readable * PAGE;
        if let Some(end) = end.filter(|end| *end <= high) {
            let own = Bounds { low, high: end };
            OWN.set(own);
            return Some(own);
        }
        if readable < pages as u64 || end.is_none() {
            return (high > low).then_some(Bounds { low, high });
        }
    }
}

/// Addresses at the end of this thread's stack and of the main thread's.
fn own_ends() -> [u64; 2] {
    // SAFETY: both take nothing and read what the C library keeps.
    unsafe { [libc::pthread_self(), libc::getauxval(libc::AT_RANDOM)] }
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
            assert!(own_ends().contains(&bounds.high), "{bounds:x?}");
            assert!(bounds.holds(here, 8));
            assert!(!bounds.holds(bounds.high - 7, 8) && !bounds.holds(bounds.low - 1, 1));
            assert_eq!(OWN.get(), bounds);
        };
        check();
        std::thread::spawn(check).join().expect("no panic");
    }

    #[test]
    fn any_other_stack_ends_where_it_cannot_be_read_and_is_forgotten() {
        let stack = map(4);
        // SAFETY: the last page of our own mapping.
        let code = unsafe { libc::mprotect(stack.add(3 * 4096).cast(), 4096, libc::PROT_NONE) };
        assert_eq!(code, 0);
        let at = stack as u64 + 100;
        let before = OWN.get();
        let bounds = of(at).expect("readable");
        assert_eq!(bounds.high, stack as u64 + 3 * PAGE);
        assert_eq!(of(stack as u64 + 3 * PAGE), None);
        assert_eq!(OWN.get(), before);
        // SAFETY: our own mapping, whole.
        unsafe { libc::munmap(stack.cast(), 4 * 4096) };
        assert_eq!(of(at), None);
        assert_eq!(of(0), None);
        assert_eq!(of(u64::MAX), None);
    }
}
