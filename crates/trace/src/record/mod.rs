//! What a trace can say: definitions (each made once, before its first use) and events.
//!
//! Sizes are bytes, times are nanoseconds since the recording began (the wall-clock anchor is in the header),
//! addresses and handles are the driver's own values.

mod kinds;

use crate::told::{LogLine, Phase, PhaseName, Tensor};
pub use kinds::{CostKind, DeedKind, EndKind, Object, Space};
use serde::{Deserialize, Serialize};

/// Number of a thread of the watched process, in order of its first event (from 0).
pub type ThreadId = u32;
/// Number of a defined stack; 0 means that no stack was taken.
pub type StackId = u32;
/// Number of a defined frame (from 1).
pub type FrameId = u32;
/// Number of a loaded library (from 1); 0 means that no library covered the address.
pub type LibraryId = u32;
/// Number of a defined code object of Python (from 1); 0 means unknown.
pub type CodeId = u32;
/// Number of a defined call name; 0 means unknown.
pub type CallId = u16;

/// A loaded shared object (or the program itself).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    /// Its number in this trace.
    pub id: LibraryId,
    /// Path as the loader knows it; the program's own path for the program.
    pub path: String,
    /// GNU build-id, empty if the file has none.
    pub build_id: Vec<u8>,
    /// Lowest mapped address.
    pub start: u64,
    /// One past the highest mapped address.
    pub end: u64,
    /// What to subtract from an address to get the file's own (ELF) address.
    pub bias: u64,
    /// When it was first seen.
    pub time_ns: u64,
}

/// A code object of Python: a function, a class body, a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Code {
    /// Its number in this trace.
    pub id: CodeId,
    /// The file it was compiled from, as Python knows it.
    pub file: String,
    /// Its qualified name; before CPython 3.11 its name.
    pub name: String,
    /// Its first line.
    pub first_line: u32,
}

/// One device, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The driver's ordinal in this process.
    pub ordinal: u32,
    /// 16 bytes, empty if the driver did not say.
    pub uuid: Vec<u8>,
    /// Marketing name.
    pub name: String,
    /// PCI address, empty if the driver did not say.
    pub pci_bus_id: String,
    /// Total memory in bytes.
    pub total_bytes: u64,
}

/// What the host had, and what the process was allowed of it, when a call ran out of memory. Bytes; `None` where it could not
/// be found out, or where there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// When.
    pub time_ns: u64,
    /// In which thread; its next failure is what this is about.
    pub thread: ThreadId,
    /// Memory of the machine (`MemTotal`).
    pub total: Option<u64>,
    /// What it could still give (`MemAvailable`).
    pub available: Option<u64>,
    /// Address space of the process (`VmSize`).
    pub address_space: Option<u64>,
    /// Its limit (`RLIMIT_AS`).
    pub address_space_limit: Option<u64>,
    /// Memory that the process has locked (`VmLck` and `VmPin`).
    pub locked: Option<u64>,
    /// Its limit (`RLIMIT_MEMLOCK`).
    pub locked_limit: Option<u64>,
    /// Memory of the control group.
    pub group: Option<u64>,
    /// Its limit.
    pub group_limit: Option<u64>,
}

/// Device memory that a call took (or gave back) without saying so, measured around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// When the call had returned.
    pub time_ns: u64,
    /// In which thread.
    pub thread: ThreadId,
    /// On which device.
    pub device: u8,
    /// By which call.
    pub call: CallId,
    /// From which stack.
    pub stack: StackId,
    /// What for.
    pub kind: CostKind,
    /// Bytes by which the device's use grew; negative where it shrank. [`Cost::ALL_BACK`]: the last context is gone, and
    /// with it all that had been taken on the device.
    pub bytes: i64,
    /// Other processes may have had a part in it.
    pub estimated: bool,
}

impl Cost {
    /// Instead of a number of bytes: all that had been taken on the device was given back.
    pub const ALL_BACK: i64 = i64::MIN;
}

/// Something that was done; the numbers mean what [`DeedKind`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deed {
    /// When.
    pub time_ns: u64,
    /// In which thread.
    pub thread: ThreadId,
    /// On which device, if known.
    pub device: Option<u8>,
    /// By which call.
    pub call: CallId,
    /// From which stack.
    pub stack: StackId,
    /// What was done; `None`: a kind of a later version.
    pub kind: Option<DeedKind>,
    /// To what.
    pub subject: u64,
    /// A number.
    pub value: u64,
    /// Another number.
    pub other: u64,
}

/// Another process on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Other {
    /// Its process id, as NVML knows it.
    pub pid: u32,
    /// Its name, empty if it cannot be known.
    pub name: String,
    /// Its bytes, if they can be known.
    pub bytes: Option<u64>,
}

/// A look at a whole device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub time_ns: u64,
    /// Which device.
    pub device: u8,
    /// Bytes in use, whoever uses them; without what the driver keeps from everybody.
    pub used: u64,
    /// Bytes of the device, likewise.
    pub total: u64,
    /// Bytes of this process, as NVML counts them; `None` where it does not.
    pub process: Option<u64>,
    /// Other processes.
    pub others: Vec<Other>,
    /// True if the list of other processes could be had.
    pub others_known: bool,
    /// No call of the process that may move memory was under way: the books say all that had happened.
    #[serde(default)]
    pub is_quiet: bool,
}

/// Something that happened in a thread at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since the recording began.
    pub time_ns: u64,
    /// In which thread.
    pub thread: ThreadId,
    /// On which device; `None` where there is none or it is not known.
    pub device: Option<u8>,
    /// By which call, named as the program made it.
    pub call: CallId,
    /// From which stack.
    pub stack: StackId,
    /// What happened.
    pub what: What,
}

/// What happened in an [`Event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A block came to be (after the real call succeeded).
    Alloc {
        /// Where.
        space: Space,
        /// Pointer or handle.
        address: u64,
        /// Bytes handed out.
        bytes: u64,
        /// Bytes asked for.
        requested: u64,
        /// Context that owns it; 0 if none.
        context: u64,
        /// Stream, or 0.
        stream: u64,
        /// Pool, or 0 for the device's current one.
        pool: u64,
    },
    /// A call that would have made a block failed.
    AllocFailed {
        /// Where it would have been, if the call says.
        space: Option<Space>,
        /// Bytes asked for, if the call says.
        requested: Option<u64>,
        /// The driver's code (2 = out of memory).
        code: u32,
        /// Free bytes of the device right after the failure, if they could be asked.
        free: Option<u64>,
        /// Total bytes of the device, likewise.
        total: Option<u64>,
        /// The range's address, where the call names one (a registration).
        address: Option<u64>,
    },
    /// A block is about to go (before the real call; [`What::Undo`] follows in the same thread if the call fails).
    ///
    /// `space` names the family of the call: `Device` for `cuMemFree`, `Async` for `cuMemFreeAsync`, `Pinned` for
    /// `cuMemFreeHost`, `Registered` for `cuMemHostUnregister`, `ReservedVa` for `cuMemAddressFree`, `Vmm` for
    /// `cuMemRelease` (one reference).
    Free {
        /// Family of the freeing call.
        space: Space,
        /// Pointer or handle.
        address: u64,
        /// Stream, or 0.
        stream: u64,
    },
    /// The thread's announced `Free`, `Unmap`, `ContextDestroy` or `Reset` of `address` did not happen.
    Undo {
        /// The address, handle, context or device number of the announcement.
        address: u64,
        /// The driver's code; 0 when the call succeeded without the effect (a context still in use).
        code: u32,
    },
    /// A free of NULL.
    NullFree,
    /// A successful call for zero bytes.
    ZeroSize,
    /// `cuMemRetainAllocationHandle`: one more reference to a physical handle.
    Retain {
        /// The handle.
        handle: u64,
    },
    /// `cuMemMap`.
    Map {
        /// Where in the address space.
        address: u64,
        /// How much.
        bytes: u64,
        /// The handle.
        handle: u64,
        /// From which offset of the handle.
        offset: u64,
    },
    /// `cuMemUnmap`, announced like a free.
    Unmap {
        /// Start of the range.
        address: u64,
        /// Length of the range.
        bytes: u64,
    },
    /// A context came to be (`explicit`: by `cuCtxCreate`; otherwise a device's primary context).
    ContextCreate {
        /// The context.
        context: u64,
        /// False for a primary context.
        explicit: bool,
    },
    /// A context is about to go, with the memory it owns.
    ContextDestroy {
        /// The context.
        context: u64,
    },
    /// The device's primary context is about to be reset, with the memory it owns.
    Reset,
    /// A pool's own figures.
    PoolState {
        /// The pool.
        pool: u64,
        /// Bytes in use.
        used: u64,
        /// Most bytes in use.
        used_high: u64,
        /// Bytes reserved.
        reserved: u64,
        /// Most bytes reserved.
        reserved_high: u64,
        /// Release threshold.
        threshold: u64,
    },
    /// An object came to be.
    Created {
        /// What it is.
        object: Object,
        /// Its handle.
        handle: u64,
        /// Bytes of the image it was loaded from, if known; 0 otherwise.
        bytes: u64,
    },
    /// An object is gone (after the real call succeeded).
    Destroyed {
        /// What it was.
        object: Object,
        /// Its handle.
        handle: u64,
    },
    /// A graph got a node that allocates; the memory comes with a launch.
    GraphAlloc {
        /// The address that the node will give.
        address: u64,
        /// Bytes asked for.
        bytes: u64,
        /// It was a stream-ordered call on a stream being captured.
        captured: bool,
    },
    /// A graph got a node that frees.
    GraphFree {
        /// What it will free.
        address: u64,
        /// It was a stream-ordered call on a stream being captured.
        captured: bool,
    },
    /// The device's memory of graphs, as the driver says.
    GraphMemory {
        /// Bytes in use.
        used: u64,
        /// Most bytes in use.
        used_high: u64,
        /// Bytes reserved.
        reserved: u64,
        /// Most bytes reserved.
        reserved_high: u64,
    },
    /// A stream capture ended.
    CaptureEnd {
        /// With a graph.
        ok: bool,
    },
    /// A limit of the current context was set (`cuCtxSetLimit`).
    Limit {
        /// The driver's number of the limit.
        limit: u32,
        /// The value asked for.
        value: u64,
    },
    /// The thread ended.
    ThreadExit {
        /// Its last name.
        name: String,
    },
    /// The process ends; nothing follows.
    End {
        /// In which way.
        kind: EndKind,
        /// Exit code, where known.
        code: Option<u8>,
        /// Signal, where one ended it.
        signal: Option<u8>,
    },
    /// In a checkpoint: a block that lives.
    Live(LiveBlock),
}

/// A living block inside a checkpoint. Its event's time, thread, device, call and stack are those of the allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Where.
    pub space: Space,
    /// Pointer or handle.
    pub address: u64,
    /// Bytes handed out.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// Context that owns it; 0 if none.
    pub context: u64,
    /// Stream of the allocation, or 0.
    pub stream: u64,
    /// Number of the allocation (0 for blocks that are no allocation).
    pub number: u64,
    /// References held (physical handles; 1 otherwise).
    pub references: u32,
}

/// One entry of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The name of a call, without version or stream suffix.
    Call {
        /// Its number.
        id: CallId,
        /// Its name.
        name: String,
    },
    /// A library came.
    Library(Library),
    /// A library went.
    LibraryGone {
        /// Which.
        id: LibraryId,
        /// When it was missed first.
        time_ns: u64,
    },
    /// A native frame: a return address, as an offset into the file of a library.
    Frame {
        /// Its number.
        id: FrameId,
        /// Its library; 0 if the address lay in none (JIT code).
        library: LibraryId,
        /// ELF address inside the library, or the raw address if `library` is 0.
        offset: u64,
    },
    /// A code object of Python.
    Code(Code),
    /// A Python frame.
    PythonFrame {
        /// Its number, among those of all frames.
        id: FrameId,
        /// What it runs; 0 if that is not known.
        code: CodeId,
        /// The line; 0 if it has none.
        line: u32,
    },
    /// Stands in a stack for Python frames that were left out.
    LeftOut {
        /// Its number, among those of all frames.
        id: FrameId,
        /// How many they are.
        frames: u64,
    },
    /// A stack, innermost frame first.
    Stack {
        /// Its number.
        id: StackId,
        /// Its frames.
        frames: Vec<FrameId>,
    },
    /// A thread appeared.
    Thread {
        /// Its number.
        id: ThreadId,
        /// The kernel's thread id.
        tid: u32,
        /// Its name at that time.
        name: String,
    },
    /// A device appeared.
    Device(Device),
    /// The host's memory, before a failure.
    HostMemory(HostMemory),
    /// Device memory that a call took without saying so.
    Cost(Cost),
    /// A look at a whole device.
    Sample(Sample),
    /// Something was done with a pool, a graph or shared memory.
    Deed(Deed),
    /// What a framework's cache did.
    Tensor(Tensor),
    /// The name of a phase.
    PhaseName(PhaseName),
    /// A border between phases.
    Phase(Phase),
    /// A line of the program's own output.
    LogLine(LogLine),
    /// Something the reader should be told, in plain words.
    Note {
        /// When.
        time_ns: u64,
        /// The words.
        text: String,
    },
    /// Something happened.
    Event(Event),
}
