//! Return addresses by libgcc's unwinder, through the `backtrace` crate's unsynchronised walk (the synchronised one
//! takes a process-wide lock).

use super::super::libraries;

/// Fills `to` with return addresses, innermost first, without our own frames; the number of addresses.
pub fn capture(to: &mut [u64]) -> usize {
    let mut length = 0;
    // SAFETY: the walk reads only the calling thread's own stack; "unsynchronised" concerns the Windows debug library.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            if address == 0 || length == to.len() {
                return false;
            }
            if !libraries::is_own(address) {
                to[length] = address as u64;
                length += 1;
            }
            true
        });
    }
    length
}
