//! One thread of ours wakes another. A futex and no channel's own waiting: that registers destructors for the thread, which
//! takes the loader's lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts how often it was rung.
#[derive(Default)]
pub struct Bell(AtomicU32);

impl Bell {
    /// Not rung yet.
    pub const fn new() -> Bell {
        Bell(AtomicU32::new(0))
    }

    /// Wakes the thread that waits, or keeps it from beginning to.
    pub fn ring(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the counter is a valid, aligned word for as long as `self` lives.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }

    /// To be asked before a last look at what there is to do.
    pub fn rung(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Waits until it is rung again after `rung`, or so long.
    pub fn wait(&self, rung: u32, at_most: Duration) {
        let time = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos() as _,
        };
        // SAFETY: as above; the time is valid for reads.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                rung,
                &raw const time,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn whoever_waits_is_woken_and_nothing_is_missed() {
        let bell = Bell::default();
        let (left, done) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 10_000 {
                    let rung = bell.rung();
                    let now = left.load(Ordering::Acquire);
                    if now == seen {
                        // Nobody rings for an hour if this one is missed.
                        bell.wait(rung, Duration::from_secs(3600));
                    }
                    seen = now;
                }
                done.store(true, Ordering::Release);
            });
            for _ in 0..10_000 {
                left.fetch_add(1, Ordering::AcqRel);
                bell.ring();
            }
        });
        assert!(done.load(Ordering::Acquire));
    }
}
