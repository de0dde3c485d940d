//! The JSON, key by key. Keys may be added; these keep their meaning. What this version does not measure yet is
//! present and empty.

mod anomaly;
mod device;
mod object;
mod oom;
mod site;

pub use crate::cache::keys::{CacheThen, RisingSite, Segments, TensorPeak, Tensors};
use crate::diagnosis::Diagnosis;
use crate::held::{Graphs, Ipc, OtherStreamFrees, Pool, Vmm};
pub use crate::log::keys::{Log, LogJump, LogLine, LogStep};
pub use crate::phases::keys::{Phase, PhaseGrowth, PhaseHeight, PhaseInstance};
pub use anomaly::{Anomalies, AnomalyBlock, AnomalyEnd, AnomalyEvent};
pub use device::{
    CostSite, Device, DeviceLook, Host, LedgerLine, Peak, Point, SpaceUse, UntrackedGrowth, Va,
};
pub use object::{Context, Limit, Modules, ObjectSite, Objects};
pub use oom::{Change, LastFree, Oom};
use serde::Serialize;
pub use site::{Frame, Gone, Language, Leak, LeakClass, Place, Released, Site};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// One process.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The reporting tool.
    pub tool: Tool,
    /// The watched process.
    pub process: Process,
    /// The closing record was written.
    pub complete: bool,
    /// Parts of the trace are lost.
    pub damaged: bool,
    /// Counts over the whole process.
    pub totals: Totals,
    /// Device by device.
    pub devices: Vec<Device>,
    /// Host memory that CUDA pins.
    pub host: Host,
    /// Reserved address space.
    pub va: Va,
    /// What is left at the end, largest first.
    pub leaks: Vec<Leak>,
    /// What went without being freed.
    pub released: Released,
    /// What ran out of memory, in order.
    pub oom: Vec<Oom>,
    /// What was wrong with frees and registrations.
    pub anomalies: Anomalies,
    /// Memory pools, as last seen.
    pub pools: Vec<Pool>,
    /// Stream-ordered frees on another stream than the allocation's.
    pub other_stream_frees: OtherStreamFrees,
    /// Physical memory apart from addresses: what keeps it.
    pub vmm: Vmm,
    /// Memory that processes share.
    pub ipc: Ipc,
    /// Contexts, in order of appearance.
    pub contexts: Vec<Context>,
    /// Loaded device code.
    pub cuda_modules: Modules,
    /// CUDA graphs.
    pub graphs: Graphs,
    /// Objects that hold memory which no allocation call shows, by kind.
    pub objects: Vec<Objects>,
    /// Limits that were set.
    pub limits: Vec<Limit>,
    /// Phases of the program.
    pub phases: Vec<Phase>,
    /// The program's own output lines.
    pub log: Log,
    /// What the process would have died of, had it gone on: where that is plain to see, and it did not die of it.
    pub findings: Vec<Diagnosis>,
    /// Threads that made a call.
    pub threads: Vec<Thread>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// The reporting tool.
#[derive(Clone, Debug, Serialize)]
pub struct Tool {
    /// `oomhook`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The watched process.
#[derive(Clone, Debug, Serialize)]
pub struct Process {
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Command line.
    pub command: Vec<String>,
    /// Rank in the job.
    pub rank: Option<u32>,
    /// Rank on the node.
    pub local_rank: Option<u32>,
    /// Job id.
    pub job: Option<String>,
    /// When recording began, RFC 3339 in UTC.
    pub start_time: String,
    /// The same in nanoseconds since 1970.
    #[serde(skip)]
    pub start_unix_ns: u64,
    /// From there to the last event.
    pub duration_ns: u64,
    /// How it ended.
    pub end: ProcessEnd,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Signal that ended it.
    pub signal: Option<u8>,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    /// `exit`, or a return from `main`.
    Exit,
    /// `_exit`.
    #[serde(rename = "_exit")]
    ImmediateExit,
    /// A signal.
    Signal,
    /// `exec` replaced it.
    Exec,
    /// Nobody saw it end.
    Unfinished,
    /// It has not ended.
    Running,
}

/// Counts over the whole process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Totals {
    /// Allocations.
    pub allocs: u64,
    /// Successful frees of something.
    pub frees: u64,
    /// Failed allocations.
    pub failed_allocs: u64,
    /// Failed frees.
    pub failed_frees: u64,
    /// Frees of NULL.
    pub null_frees: u64,
    /// Successful calls for zero bytes.
    pub zero_size: u64,
    /// Device bytes that ever came.
    pub cumulative_bytes: u64,
    /// Successful frees of blocks whose allocation was not seen.
    pub untracked_frees: u64,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct Thread {
    /// Latest name.
    pub name: String,
    /// It has ended.
    pub exited: bool,
    /// Allocations it made.
    pub allocs: u64,
    /// Frees it made.
    pub frees: u64,
    /// The kernel's thread id.
    pub tid: u32,
}
