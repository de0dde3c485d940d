//! Pages from the kernel, by system calls of our own: `mmap` may be another interposer's.

use std::ffi::c_long;

/// Size of the smallest page; all mappings begin at one.
pub const PAGE: usize = 4096;

fn address(code: c_long) -> *mut u8 {
    if code == -1 {
        std::ptr::null_mut()
    } else {
        std::ptr::with_exposed_provenance_mut(code as usize)
    }
}

/// A new mapping, all zeros; null when there is none.
pub fn map(size: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping anywhere disturbs nobody.
    address(unsafe { libc::syscall(libc::SYS_mmap, 0usize, size, access, kind, -1, 0usize) })
}

/// The mapping in another size, perhaps elsewhere; null (and all as it was) when that cannot be.
///
/// # Safety
/// `start` was mapped by [`map`] with this size, and nobody else uses it.
pub unsafe fn remap(start: *mut u8, size: usize, wanted: usize, may_move: bool) -> *mut u8 {
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: by this function's contract.
    address(unsafe { libc::syscall(libc::SYS_mremap, start, size, wanted, flags) })
}

/// Gives a mapping back, or a part of one.
///
/// # Safety
/// The range lies in mappings made by [`map`], and nobody uses it any more.
pub unsafe fn unmap(start: *mut u8, size: usize) -> bool {
    // SAFETY: by this function's contract.
    unsafe { libc::syscall(libc::SYS_munmap, start, size) == 0 }
}
