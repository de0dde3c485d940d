//! The kinds that records distinguish, with their wire numbers and the words of the JSON report.

use serde::{Deserialize, Serialize};

/// Where memory lives; the words and their device bytes are fixed by the JSON report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Space {
    /// Linear and pitched device memory (`cuMemAlloc`, `cuMemAllocPitch`).
    Device = 1,
    /// CUDA arrays and mipmapped arrays.
    Array = 2,
    /// Stream-ordered memory from a device pool.
    Async = 3,
    /// Physical memory handles (`cuMemCreate` on a device); the address of such a block is its handle.
    Vmm = 4,
    /// Memory reserved by graph memory nodes.
    Graph = 5,
    /// `cuMemAllocManaged`.
    Managed = 6,
    /// Page-locked host memory made by the driver, and VMM or pools on the host.
    Pinned = 7,
    /// Host memory of the program, registered with the driver.
    Registered = 8,
    /// Memory that another process owns.
    Imported = 9,
    /// Reserved address ranges; they cost no memory.
    ReservedVa = 10,
}

impl Space {
    /// Every space, in the order in which reports list them.
    pub const ALL: [Space; 10] = [
        Space::Device,
        Space::Array,
        Space::Async,
        Space::Vmm,
        Space::Graph,
        Space::Managed,
        Space::Pinned,
        Space::Registered,
        Space::Imported,
        Space::ReservedVa,
    ];

    /// The space with this wire number.
    #[must_use]
    pub fn from_wire(value: u64) -> Option<Space> {
        Space::ALL.into_iter().find(|space| *space as u64 == value)
    }

    /// True for the spaces whose sum is "device bytes of the process".
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(
            self,
            Space::Device | Space::Array | Space::Async | Space::Vmm | Space::Graph
        )
    }

    /// True for the spaces whose successful calls count as allocations.
    #[must_use]
    pub fn is_allocation(self) -> bool {
        self.is_device() || matches!(self, Space::Managed | Space::Pinned)
    }

    /// The word used in JSON and in texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Space::Device => "device",
            Space::Array => "array",
            Space::Async => "async",
            Space::Vmm => "vmm",
            Space::Graph => "graph",
            Space::Managed => "managed",
            Space::Pinned => "pinned",
            Space::Registered => "registered",
            Space::Imported => "imported",
            Space::ReservedVa => "reserved_va",
        }
    }
}

/// What holds memory that no allocation call shows, and is counted for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Object {
    /// A loaded module (`cuModuleLoad…`).
    Module = 1,
    /// A loaded library of kernels (`cuLibraryLoad…`).
    Library = 2,
    /// An executable graph.
    GraphExec = 3,
    /// A graph.
    Graph = 4,
    /// A stream.
    Stream = 5,
    /// An event.
    Event = 6,
    /// A texture object.
    Texture = 7,
    /// A surface object.
    Surface = 8,
    /// A green context.
    GreenContext = 9,
    /// A memory pool made by the program.
    Pool = 10,
    /// A multicast object.
    Multicast = 11,
}

impl Object {
    /// Every kind, in the order of their wire numbers.
    pub const ALL: [Object; 11] = [
        Object::Module,
        Object::Library,
        Object::GraphExec,
        Object::Graph,
        Object::Stream,
        Object::Event,
        Object::Texture,
        Object::Surface,
        Object::GreenContext,
        Object::Pool,
        Object::Multicast,
    ];

    /// The kind with this wire number.
    #[must_use]
    pub fn from_wire(value: u64) -> Option<Object> {
        Object::ALL
            .into_iter()
            .find(|object| *object as u64 == value)
    }
}

/// How the watched process came to its end, as far as the library saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum EndKind {
    /// `exit` or a return from `main`.
    Exit = 1,
    /// `_exit` or `_Exit`.
    #[serde(rename = "_exit")]
    ImmediateExit = 2,
    /// A signal ended it.
    Signal = 3,
    /// `exec` replaced it.
    Exec = 4,
}

/// What takes device memory without an allocation call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum CostKind {
    /// A context.
    Context = 1,
    /// Code: modules, libraries, functions.
    Code = 2,
    /// The first launch of a function: its code, local memory, the device's heap.
    Launch = 3,
    /// A limit that was set (stack, heap, printf).
    Limit = 4,
    /// A stream.
    Stream = 5,
    /// Executable graphs, apart from the memory of their nodes.
    GraphExec = 6,
    /// Anything else that was seen to take memory.
    Other = 7,
}

impl CostKind {
    /// Every kind, in the order in which reports list them.
    pub const ALL: [CostKind; 7] = [
        CostKind::Context,
        CostKind::Code,
        CostKind::Launch,
        CostKind::Limit,
        CostKind::Stream,
        CostKind::GraphExec,
        CostKind::Other,
    ];

    /// The kind with this wire number.
    #[must_use]
    pub fn from_wire(value: u64) -> Option<CostKind> {
        CostKind::ALL.into_iter().find(|kind| *kind as u64 == value)
    }

    /// The word used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CostKind::Context => "contexts",
            CostKind::Code => "code",
            CostKind::Launch => "launches",
            CostKind::Limit => "limits",
            CostKind::Stream => "streams",
            CostKind::GraphExec => "graph_execs",
            CostKind::Other => "other_calls",
        }
    }
}

/// What was done with a pool, a graph or memory that processes share, and is no block that comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum DeedKind {
    /// `subject` is the device's default pool.
    DefaultPool = 1,
    /// `subject` is the pool from which the device's memory comes from now on.
    CurrentPool = 2,
    /// `subject` is a pool of another process.
    ImportedPool = 3,
    /// The release threshold of pool `subject` was set to `value`.
    Threshold = 4,
    /// Pool `subject` was trimmed to `value` bytes; `other` is what it gave back plus one, or 0 if that is not known.
    Trim = 5,
    /// `value` executable graphs were launched.
    Launches = 6,
    /// Memory at `subject` was offered to other processes, `value` bytes (0: not known); `other` is the print of the
    /// handle that they get (0: it has none that they could be told by).
    Export = 7,
    /// Another process's memory was opened at `subject`, `value` bytes; `other` is the print of its handle.
    Open = 8,
    /// What a call took could not be measured, since others moved memory meanwhile; `subject` is the kind of cost,
    /// `value` by how many bytes the device's use grew while it ran, whoever's they were.
    Unmeasured = 9,
    /// The object at `subject`, of kind `value`, was made in context `other`, which is not its device's primary one.
    MadeIn = 10,
    /// A limit of context `other`, which is not its device's primary one, was set: number `subject`, now `value`.
    LimitIn = 11,
    /// Context `subject` is gone, with its objects and limits; `value` is 0 for the device's primary one, `subject` then
    /// may be 0.
    ContextGone = 12,
}

impl DeedKind {
    /// Every kind.
    pub const ALL: [DeedKind; 12] = [
        DeedKind::DefaultPool,
        DeedKind::CurrentPool,
        DeedKind::ImportedPool,
        DeedKind::Threshold,
        DeedKind::Trim,
        DeedKind::Launches,
        DeedKind::Export,
        DeedKind::Open,
        DeedKind::Unmeasured,
        DeedKind::MadeIn,
        DeedKind::LimitIn,
        DeedKind::ContextGone,
    ];

    /// The kind with this wire number.
    #[must_use]
    pub fn from_wire(value: u64) -> Option<DeedKind> {
        DeedKind::ALL.into_iter().find(|kind| *kind as u64 == value)
    }
}
