//! Cancellation: a thread of the program may be cancelled in its own calls, never in ours.

use std::ffi::c_int;
use std::time::Duration;

/// Keeps the calling thread from being cancelled until dropped: our own system calls are cancellation points that the
/// program does not have.
pub struct NoCancel {
    before: c_int,
}

// SAFETY: the signature of <pthread.h>.
unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE` of <pthread.h>.
const CANCEL_DISABLE: c_int = 1;

impl NoCancel {
    /// Until the value is dropped.
    pub fn begin() -> NoCancel {
        let mut before = 0;
        // SAFETY: `before` is valid for writes.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
        NoCancel { before }
    }
}

impl Drop for NoCancel {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: the state that was there before.
        unsafe { pthread_setcancelstate(self.before, &mut ours) };
    }
}

/// Sleeps, without being a cancellation point. (Whatever of ours waits is reached by calls that are none, with frames of ours and of
/// Rust's above it through which no thread may be unwound: that ends the process.)
pub fn sleep(duration: Duration) {
    let _whole = NoCancel::begin();
    std::thread::sleep(duration);
}
