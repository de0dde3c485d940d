//! What the simulator asks of the system: mappings, the end of the process, forks.

use crate::ticket::Bytes;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Real memory, given back when dropped.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    length: usize,
}

impl Mapping {
    /// Maps `length` bytes that cost nothing until they are touched.
    pub fn new(length: usize) -> Option<Mapping> {
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        (address != libc::MAP_FAILED).then_some(Mapping {
            address: address as usize,
            length,
        })
    }

    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped, and only its owner unmaps it.
        unsafe { libc::munmap(self.address as *mut c_void, self.length) };
    }
}

/// A file descriptor that the program handed over, closed when dropped.
#[derive(Debug)]
pub struct File {
    _descriptor: OwnedFd,
}

impl File {
    /// Takes a descriptor over, if it is one.
    pub fn own(descriptor: c_int) -> Option<File> {
        // SAFETY: asks for flags and changes nothing, whatever the number is.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        (flags >= 0).then(|| File {
            // SAFETY: it is open, and the caller of the CUDA function gives it away for good.
            _descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) },
        })
    }
}

/// A new file in memory with these contents, as a descriptor that is the program's.
pub fn file_with(contents: &Bytes) -> Option<c_int> {
    // SAFETY: the name is terminated; the call makes something new.
    let descriptor = unsafe { libc::memfd_create(c"oomhook-sim".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    file.write_all(contents).ok()?;
    Some(file.into_raw_fd())
}

/// The contents of a file that [`file_with`] made; `None` for any other.
pub fn contents_of(descriptor: c_int) -> Option<Bytes> {
    let mut contents = [0; 64];
    // SAFETY: the buffer is writable for its length, and any descriptor may be tried.
    let read = unsafe { libc::pread(descriptor, contents.as_mut_ptr().cast(), contents.len(), 0) };
    (read == contents.len() as isize).then_some(contents)
}

/// Copies between two places of real memory, which may overlap.
///
/// # Safety
/// Both ranges are mapped for the whole length: the caller of a CUDA copy promises it for
/// host memory, and the simulator knows it of its own mappings.
pub unsafe fn copy(to: u64, from: u64, length: usize) {
    // SAFETY: the contract of this function.
    unsafe { libc::memmove(to as *mut c_void, from as *const c_void, length) };
}

/// Fills real memory with a pattern of 1, 2 or 4 bytes.
///
/// # Safety
/// The range is mapped for `count` elements of the pattern.
pub unsafe fn fill(to: u64, pattern: &[u8], count: usize) {
    for index in 0..count {
        let place = (to as usize + index * pattern.len()) as *mut u8;
        // SAFETY: element `index` lies in the range that the contract of this function names.
        unsafe { place.copy_from_nonoverlapping(pattern.as_ptr(), pattern.len()) };
    }
}

/// Has `ended` called when the process exits, and `forked` in every later child.
pub fn watch_process(ended: extern "C" fn(), forked: unsafe extern "C" fn()) {
    // SAFETY: both are functions of this library that only set atomics, and the C library
    // drops the registrations when this library is unloaded.
    unsafe {
        libc::atexit(ended);
        libc::pthread_atfork(None, None, Some(forked));
    }
}

/// A number of the calling thread that no other thread ever had.
pub fn thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static MINE: Cell<u64> = const { Cell::new(0) };
    }
    MINE.with(|mine| {
        if mine.get() == 0 {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}
