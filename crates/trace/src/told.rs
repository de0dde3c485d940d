//! What a program and its frameworks tell of themselves: blocks of a framework's cache, phases, lines of output.
//!
//! Sizes are bytes, times are nanoseconds since the recording began.

use crate::record::{StackId, ThreadId};

/// Number of a phase's name (from 1); 0 means a name that was not kept, as there were too many.
pub type PhaseNameId = u32;

/// Something that a framework's cache of device memory did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// When.
    pub time_ns: u64,
    /// In which thread.
    pub thread: ThreadId,
    /// On which device, as the framework counts them.
    pub device: u8,
    /// From which stack; 0 for frees, which take none.
    pub stack: StackId,
    /// What it did.
    pub what: TensorWhat,
    /// Bytes handed out to the program after that, as the cache says; 0 in [`TensorWhat::Live`].
    pub allocated: u64,
    /// Bytes that the cache holds after that, as it says; 0 in [`TensorWhat::Live`].
    pub reserved: u64,
}

/// What a framework's cache did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorWhat {
    /// It handed out a block.
    Alloc {
        /// Where.
        address: u64,
        /// Its size, as rounded by the cache.
        bytes: u64,
    },
    /// It took a block back.
    Free {
        /// Where.
        address: u64,
        /// Its size, as rounded by the cache.
        bytes: u64,
    },
    /// It gave up.
    Failed {
        /// Bytes that it was asked for.
        requested: u64,
    },
    /// In a checkpoint: a block that is handed out. Time, thread, device and stack are those of the handing out.
    Live {
        /// Where.
        address: u64,
        /// Its size, as rounded by the cache.
        bytes: u64,
        /// Its number among the blocks handed out, from 1.
        number: u64,
    },
}

/// The name of a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseName {
    /// Its number in this trace.
    pub id: PhaseNameId,
    /// The NVTX domain; empty for the default one.
    pub domain: String,
    /// The name.
    pub name: String,
}

/// A border between phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// When.
    pub time_ns: u64,
    /// In which thread.
    pub thread: ThreadId,
    /// What border.
    pub what: PhaseWhat,
}

/// A border between phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseWhat {
    /// A range begins in the thread, inside those that it is in.
    Push {
        /// Its name.
        name: PhaseNameId,
        /// A number of its domain: ranges of each domain are nested for themselves.
        domain: u32,
    },
    /// The thread's innermost range of the domain ends.
    Pop {
        /// The domain's number.
        domain: u32,
    },
    /// A range begins that any thread may end.
    Start {
        /// Its name.
        name: PhaseNameId,
        /// Its own number.
        range: u64,
    },
    /// Such a range ends.
    End {
        /// Its own number.
        range: u64,
    },
    /// A mark: what follows belongs to the next round.
    Mark {
        /// Its name.
        name: PhaseNameId,
    },
}

/// A line of the program's own output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written.
    pub time_ns: u64,
    /// By which thread.
    pub thread: ThreadId,
    /// 1 for stdout, 2 for stderr.
    pub stream: u8,
    /// It was written before, but came out of a buffer only now: it tells nothing of this moment.
    pub late: bool,
    /// The line, without its end; cut if it was long.
    pub text: String,
}
