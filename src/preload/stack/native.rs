//! Return addresses by libgcc's unwinder, through the `backtrace` crate's unsynchronised walk (the synchronised one
//! takes a process-wide lock).

use super::super::libraries;

/// A native frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Where it goes on when its callee returns.
    pub address: u64,
    /// Its stack pointer then: its own memory on the stack begins here, and ends at the next outer frame's.
    pub stack: u64,
}

/// Fills `to` with frames, innermost first, without our own ones; their number.
pub fn capture(to: &mut [Frame]) -> usize {
    let mut length = 0;
    // SAFETY: the walk reads only the calling thread's own stack; "unsynchronised" concerns the Windows debug library.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            if address == 0 || length == to.len() {
                return false;
            }
            if !libraries::is_own(address) {
                to[length] = Frame {
                    address: address as u64,
                    stack: frame.sp() as u64,
                };
                length += 1;
            }
            true
        });
    }
    length
}
