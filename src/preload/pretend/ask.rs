//! What a call asks for, as far as it matters whether it fits.

use super::super::hooks::abi::{Pool, Stream};

/// A block that a call would make.
#[derive(Clone, Copy)]
pub struct Ask {
    /// Bytes of device memory that it would take at least.
    pub bytes: u64,
    /// From where.
    pub memory: Memory,
}

/// Where a block would come from.
#[derive(Clone, Copy)]
pub enum Memory {
    /// The current device.
    Current,
    /// This device, whichever is current.
    Device(u8),
    /// A pool of stream-ordered memory (NULL: the current one of the current device), unless the stream is being captured.
    Pool {
        /// The pool.
        pool: Pool,
        /// The stream.
        stream: Stream,
        /// Stream 0 is the thread's own.
        per_thread: bool,
    },
    /// Something that no device's size limits. Such a block only counts as an allocation.
    Unlimited,
}

impl Ask {
    /// A block of this size; `None` if that is 0: the driver answers such calls, and they are no allocations.
    pub fn new(bytes: u64, memory: Memory) -> Option<Ask> {
        (bytes != 0).then_some(Ask { bytes, memory })
    }

    /// A block that takes no device memory by itself.
    pub fn unlimited() -> Ask {
        Ask {
            bytes: 0,
            memory: Memory::Unlimited,
        }
    }
}
