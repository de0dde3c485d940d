//! Whether memory can be read, without reading it. By a system call that every sandbox allows: one that forbids
//! `process_vm_readv` and ends whoever tries it would end the program for our sake.

/// Bytes of a page; what is asked of one address holds for the whole page.
pub const PAGE: u64 = 4096;

/// Whether the page that holds an address can be read: the kernel reads a signal mask from there before it looks at the
/// (invalid) way to apply it. Sets `errno`.
pub fn is_readable(address: u64) -> bool {
    const NO_WAY: libc::c_long = 0x7fff;
    let page = address & !(PAGE - 1);
    // SAFETY: with an invalid first argument the call changes nothing, and an unreadable mask is an error code.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_WAY,
            page,
            std::ptr::null_mut::<libc::c_void>(),
            8usize,
        )
    };
    // SAFETY: the location of this thread's errno is always valid.
    result == -1 && unsafe { *libc::__errno_location() } == libc::EINVAL
}

#[cfg(test)]
mod tests {
    use super::{PAGE, is_readable};

    #[test]
    fn the_kernel_knows_what_can_be_read() {
        let local = 0u8;
        assert!(is_readable((&raw const local) as u64));
        assert!(is_readable(is_readable as fn(u64) -> bool as usize as u64));
        for nowhere in [0, 8, 1 << 47, u64::MAX, 0xffff_8000_0000_0000] {
            assert!(!is_readable(nowhere), "{nowhere:#x}");
        }
        // SAFETY: a fresh mapping that nobody else uses.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        } as u64;
        assert!(!is_readable(page + 100));
    }
}
