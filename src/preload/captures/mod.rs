//! Stream captures in progress: while there are any, most CUDA calls of ours would spoil them, and stream-ordered
//! allocations make graph nodes instead of memory.

pub mod graphs;

use super::devices::driver_function;
use super::hooks::abi::{Code, SUCCESS, Stream};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

static ACTIVE: AtomicI64 = AtomicI64::new(0);

/// A capture began.
pub fn begun() {
    ACTIVE.fetch_add(1, Ordering::AcqRel);
}

/// A capture ended.
pub fn ended() {
    // A capture begun before we looked must not make the count negative.
    let _ = ACTIVE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |active| {
        (active > 0).then(|| active - 1)
    });
}

/// True while any stream of the process is being captured.
#[inline]
pub fn any() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// True if this stream is being captured. Asks the driver only if any capture is in progress (the question is legal in
/// all capture modes). `per_thread` picks the form of the question that matches the hooked call.
#[inline]
pub fn is_capturing(stream: Stream, per_thread: bool) -> bool {
    any() && ask(stream, per_thread)
}

#[cold]
fn ask(stream: Stream, per_thread: bool) -> bool {
    type IsCapturing = unsafe extern "C" fn(Stream, *mut c_int) -> Code;
    static LEGACY: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());
    static PER_THREAD: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());
    let found = if per_thread {
        driver_function(&PER_THREAD, c"cuStreamIsCapturing_ptsz")
    } else {
        driver_function(&LEGACY, c"cuStreamIsCapturing")
    };
    let Some(function) = found else { return false };
    // SAFETY: libcuda's own symbol, whose ABI this is.
    let function: IsCapturing =
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, IsCapturing>(function) };
    let mut status = 0;
    // SAFETY: the stream is the caller's own argument of a call that succeeded or is about to be made.
    let code = unsafe { function(stream, &mut status) };
    code == SUCCESS && status != 0
}
