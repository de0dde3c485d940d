//! What is noted when the library is loaded, before the program can change it: the list of preloaded libraries, and which
//! file stderr was.

use super::{injection, log};
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The value of LD_PRELOAD, in the process's first environment (its strings are never freed).
static PRELOAD: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// Device and inode of stderr.
static STDERR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Called by the loader with what `main` gets. Does as little as can be: most processes never make a CUDA call.
unsafe extern "C" fn note(
    _argc: c_int,
    _argv: *const *const c_char,
    environment: *const *const c_char,
) {
    if let Some((device, inode)) = identity(libc::STDERR_FILENO) {
        STDERR[0].store(device, Ordering::Relaxed);
        STDERR[1].store(inode, Ordering::Relaxed);
    }
    let mut entry = environment;
    // SAFETY: the environment is a list of NUL-terminated strings that ends with NULL.
    unsafe {
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry);
            if text.to_bytes().starts_with(b"LD_PRELOAD=") {
                PRELOAD.store(
                    (*entry).add("LD_PRELOAD=".len()).cast_mut(),
                    Ordering::Release,
                );
                // Preloaded, we are here before any other thread can be.
                injection::offer(environment);
                break;
            }
            entry = entry.add(1);
        }
    }
    log::find();
}

#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = note;

#[cfg(test)]
const _: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = note;

fn status(descriptor: c_int) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `status` is valid for writes; zeroes are a valid value.
    unsafe { (libc::fstat(descriptor, status.as_mut_ptr()) == 0).then(|| status.assume_init()) }
}

fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    status(descriptor).map(|status| (status.st_dev, status.st_ino))
}

/// True if LD_PRELOAD names the library of this path.
pub fn is_preloaded(path: &CStr) -> bool {
    let list = PRELOAD.load(Ordering::Acquire);
    if list.is_null() {
        return false;
    }
    // SAFETY: set by `note` to a NUL-terminated string that is never freed.
    let list = unsafe { CStr::from_ptr(list) }.to_bytes();
    let name = path
        .to_bytes()
        .rsplit(|byte| *byte == b'/')
        .next()
        .unwrap_or_default();
    !name.is_empty()
        && list
            .split(|byte| matches!(byte, b':' | b' '))
            .any(|entry| entry.rsplit(|byte| *byte == b'/').next() == Some(name))
}

/// True if stderr may be written: it is what it was when the process began, or has been led elsewhere as programs do that
/// keep a log. A regular file that merely got the number after the program had closed stderr is the program's own.
pub fn stderr_is_stderr() -> bool {
    let Some(now) = status(libc::STDERR_FILENO) else {
        return false;
    };
    let began = (
        STDERR[0].load(Ordering::Relaxed),
        STDERR[1].load(Ordering::Relaxed),
    );
    if (now.st_dev, now.st_ino) == began || now.st_mode & libc::S_IFMT != libc::S_IFREG {
        return true;
    }
    // SAFETY: asks for flags of an open descriptor.
    let flags = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_GETFL) };
    flags & libc::O_APPEND != 0 || identity(libc::STDOUT_FILENO) == Some((now.st_dev, now.st_ino))
}
