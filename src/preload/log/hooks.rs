//! `write` and `writev`, exported: what a program writes to stdout and stderr once it is recorded.
//!
//! Both are cancellation points and may be called anywhere, in signal handlers and between `vfork` and `exec` as well. The
//! real function is called first, with the caller's own arguments, and what it answers is answered: nothing is altered,
//! delayed or repeated. Other descriptors cost one comparison.
//!
//! What the C library's own stdio writes does not come here (it calls an inner function); of that only the file tells
//! (`tail.rs`).

use super::{is_heard, pieces};
use crate::preload::doors;
use crate::preload::guard;
use crate::preload::state;
use std::ffi::{c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicPtr, Ordering};

// A thread may be cancelled in the real functions, and is then unwound through ours.
type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, usize) -> isize;
type WriteV = unsafe extern "C-unwind" fn(c_int, *const libc::iovec, c_int) -> isize;

// SAFETY: glibc's own name for its `write`.
unsafe extern "C-unwind" {
    fn __write(fd: c_int, buffer: *const c_void, count: usize) -> isize;
}

/// The functions behind us, as found when the library was loaded. Before that, glibc's own.
static WRITE: AtomicPtr<c_void> = AtomicPtr::new(__write as *const () as *mut c_void);
static WRITEV: AtomicPtr<c_void> = AtomicPtr::new(gather as *const () as *mut c_void);

/// Stands in for `writev`, of which glibc has no other name.
unsafe extern "C-unwind" fn gather(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: the caller's own arguments; the system call checks them.
    unsafe { libc::syscall(libc::SYS_writev, fd, parts, count) as isize }
}

/// Finds the functions behind us: another preloaded library's, else glibc's. While no other thread is there and no signal
/// handler; later the loader's list would have to be waited for.
pub fn find() {
    for (place, name) in [(&WRITE, c"write"), (&WRITEV, c"writev")] {
        let found = doors::behind_us(name);
        if !found.is_null() {
            place.store(found, Ordering::Release);
        }
    }
}

/// `write`.
#[inline]
#[cfg_attr(test, allow(dead_code))]
unsafe fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize {
    // SAFETY: the next function of this name has its signature.
    let real = unsafe { std::mem::transmute::<*mut c_void, Write>(WRITE.load(Ordering::Relaxed)) };
    if !is_heard(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { real(fd, buffer, count) };
    }
    // SAFETY: as above.
    let written = unsafe { real(fd, buffer, count) };
    if written > 0 {
        let part = libc::iovec {
            iov_base: buffer.cast_mut(),
            iov_len: count,
        };
        // SAFETY: the kernel has just read so many bytes of the caller's buffer.
        unsafe { heard(fd, &[part], written as usize) };
    }
    written
}

/// `writev`.
#[inline]
#[cfg_attr(test, allow(dead_code))]
unsafe fn writev(fd: c_int, parts: *const libc::iovec, count: c_int) -> isize {
    // SAFETY: as in `write`.
    let real =
        unsafe { std::mem::transmute::<*mut c_void, WriteV>(WRITEV.load(Ordering::Relaxed)) };
    if !is_heard(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { real(fd, parts, count) };
    }
    // SAFETY: as above.
    let written = unsafe { real(fd, parts, count) };
    if written > 0 {
        // SAFETY: the kernel has just read so many parts, and so many bytes of them.
        unsafe {
            let parts = std::slice::from_raw_parts(parts, count as usize);
            heard(fd, parts, written as usize);
        }
    }
    written
}

/// Passes on what was written.
///
/// # Safety
/// The first `written` bytes of the parts are readable.
#[cold]
#[inline(never)]
unsafe fn heard(fd: c_int, parts: &[libc::iovec], written: usize) {
    // SAFETY: the location of this thread's errno is always valid.
    let errno = unsafe { *libc::__errno_location() };
    let work = AssertUnwindSafe(|| {
        // A child of `vfork` has its parent's memory, and streams of its own. (The one system call here, and only
        // behind one of the program's.)
        let recorder = state::recorder_at_once().filter(|one| one.pid == std::process::id());
        if let Some(recorder) = recorder {
            let thread = guard::with(|thread| thread.id.get());
            // SAFETY: the caller's promise.
            unsafe { pieces::send(recorder, fd as u8, thread, parts, written) };
        }
    });
    if std::panic::catch_unwind(work).is_err() {
        super::stop();
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(not(test))]
mod export {
    use std::ffi::{c_int, c_void};

    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, count: usize) -> isize {
        // SAFETY: the caller's own arguments.
        unsafe { super::write(fd, buffer, count) }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C-unwind" fn writev(
        fd: c_int,
        parts: *const libc::iovec,
        count: c_int,
    ) -> isize {
        // SAFETY: the caller's own arguments.
        unsafe { super::writev(fd, parts, count) }
    }
}
