//! The list of loaded objects, read so that a fork cannot copy the list's lock while it is held: glibc does not release it in
//! the child, where the next `dl_iterate_phdr` (an exception's unwinding, say) would wait for ever.

use super::cancel;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that are reading the list.
static READING: AtomicUsize = AtomicUsize::new(0);
/// A fork is about to happen: nobody begins to read.
static FORKING: AtomicBool = AtomicBool::new(false);

/// A fork and a reader wait for each other no longer than this.
const PATIENCE: Duration = Duration::from_millis(200);

type Look = unsafe extern "C" fn(*mut libc::dl_phdr_info, libc::size_t, *mut c_void) -> c_int;

/// `dl_iterate_phdr`.
///
/// # Safety
/// `look` may be called with `data`, and allocates nothing.
pub unsafe fn iterate(look: Look, data: *mut c_void) {
    // SAFETY: by this function's contract.
    undisturbed(|| unsafe { libc::dl_iterate_phdr(Some(look), data) });
}

/// Does what may read the list, while no fork copies its lock.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    begin();
    let result = work();
    READING.fetch_sub(1, Ordering::AcqRel);
    result
}

#[inline]
fn begin() {
    READING.fetch_add(1, Ordering::AcqRel);
    if FORKING.load(Ordering::Acquire) {
        give_way();
    }
}

#[cold]
fn give_way() {
    let patience = Instant::now() + PATIENCE;
    while FORKING.load(Ordering::Acquire) && Instant::now() < patience {
        READING.fetch_sub(1, Ordering::AcqRel);
        cancel::sleep(Duration::from_micros(20));
        READING.fetch_add(1, Ordering::AcqRel);
    }
}

/// Before a fork: waits until nobody reads.
pub unsafe extern "C" fn before_fork() {
    FORKING.store(true, Ordering::Release);
    let patience = Instant::now() + PATIENCE;
    while READING.load(Ordering::Acquire) > 0 && Instant::now() < patience {
        std::thread::yield_now();
    }
}

/// After a fork, in the parent.
pub unsafe extern "C" fn after_fork() {
    FORKING.store(false, Ordering::Release);
}

/// After a fork, in the child: the readers are gone with their threads.
pub fn in_child() {
    READING.store(0, Ordering::Release);
    FORKING.store(false, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn count(
        _: *mut libc::dl_phdr_info,
        _: libc::size_t,
        to: *mut c_void,
    ) -> c_int {
        // SAFETY: `to` is the local of the test.
        unsafe { *to.cast::<usize>() += 1 };
        0
    }

    #[test]
    fn a_fork_waits_for_readers_and_readers_for_a_fork() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let mut objects = 0usize;
                        // SAFETY: the callback matches the data and allocates nothing.
                        unsafe { iterate(count, (&raw mut objects).cast()) };
                        assert!(objects > 2);
                    }
                });
            }
            for _ in 0..2000 {
                // SAFETY: as a fork would call them.
                unsafe {
                    before_fork();
                    let at_work = READING.load(Ordering::Acquire);
                    // A reader may be between announcing itself and giving way, but not at work for long.
                    assert!(at_work <= 3);
                    after_fork();
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(READING.load(Ordering::Acquire), 0);
    }
}
