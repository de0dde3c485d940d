//! Return addresses by libgcc's unwinder, through the `backtrace` crate's unsynchronised walk (the synchronised one
//! takes a process-wide lock).

use super::{Frame, Frames};
use crate::preload::libraries;

/// Fills `to` with frames, innermost first, without our own ones.
pub fn capture(to: &mut Frames) {
    let own = libraries::own_range();
    // SAFETY: the walk reads only the calling thread's own stack; "unsynchronised" concerns the Windows debug library.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            address != 0
                && (own.contains(&address)
                    || to.push(Frame {
                        address: address as u64,
                        stack: frame.sp() as u64,
                    }))
        });
    }
}
