//! Return addresses by libgcc's unwinder, through the `backtrace` crate's unsynchronised walk (the synchronised one
//! takes a process-wide lock).

use super::Frame;
use crate::preload::libraries;

/// Fills `to` with frames, innermost first, without our own ones; their number.
pub fn capture(to: &mut [Frame]) -> usize {
    let own = libraries::own_range();
    let mut length = 0;
    // SAFETY: the walk reads only the calling thread's own stack; "unsynchronised" concerns the Windows debug library.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            if address == 0 || length == to.len() {
                return false;
            }
            if !own.contains(&address) {
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
