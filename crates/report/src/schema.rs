//! The JSON, key by key. Keys may be added; these keep their meaning. What this version does not measure yet is
//! present and empty.

pub use crate::cache::keys::{CacheThen, RisingSite, Segments, TensorPeak, Tensors};
use crate::diagnosis::Diagnosis;
use crate::held::{Graphs, Ipc, OtherStreamFrees, Pool, Vmm};
pub use crate::log::keys::{Log, LogJump, LogLine, LogStep};
pub use crate::phases::keys::{Phase, PhaseGrowth, PhaseHeight, PhaseInstance};
use crate::roles::Role;
use oomhook_ledger::shapes::Shape;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::rc::Rc;

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

/// One device.
#[derive(Clone, Debug, Serialize)]
pub struct Device {
    /// Ordinal in the process; null for memory whose device is not known.
    pub device: Option<u32>,
    /// UUID as the driver's tools print it; empty if unknown.
    pub uuid: String,
    /// PCI address; empty if unknown.
    pub pci_bus_id: String,
    /// MIG instance.
    pub mig: Option<String>,
    /// Marketing name.
    pub name: String,
    /// Memory of the device, as the process was told.
    pub total_bytes: u64,
    /// Memory that it has; null unless another size was pretended (`OOMHOOK_CAPACITY`).
    pub real_total_bytes: Option<u64>,
    /// Live device bytes at the end.
    pub live_bytes: u64,
    /// Live blocks of device memory at the end.
    pub live_blocks: u64,
    /// Most live device bytes.
    pub peak_bytes: u64,
    /// Number of the allocation that reached them first.
    pub peak_event: u64,
    /// When, since the recording began.
    pub peak_time_ns: u64,
    /// Space by space.
    pub spaces: BTreeMap<&'static str, SpaceUse>,
    /// Blocks inside a framework's cache.
    pub tensors: Option<Tensors>,
    /// What the peak was made of.
    pub peak: Peak,
    /// All bytes of the device, line by line.
    pub ledger: BTreeMap<&'static str, Vec<LedgerLine>>,
    /// What calls took without saying so, by call and stack, the largest first.
    pub costs: Vec<CostSite>,
    /// Calls that took or gave back memory while others did, and of which no look at the device has told what.
    pub unmeasured_calls: u64,
    /// What the management library said last.
    pub latest: Option<DeviceLook>,
    /// The device's use over time.
    pub over_time: Vec<Point>,
    /// Growth beside allocations, where there is a steady one.
    pub untracked_growth: Option<UntrackedGrowth>,
}

/// Device memory that calls from one place took without saying so.
#[derive(Clone, Debug, Serialize)]
pub struct CostSite {
    /// For what, as the ledger's lines are named.
    pub name: &'static str,
    /// Call.
    pub call: Rc<str>,
    /// Bytes taken, less those given back.
    pub bytes: i64,
    /// How often.
    pub calls: u64,
    /// Other processes may have had a part in it.
    pub estimated: bool,
    /// The site of the call.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// Its stack, innermost first.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
}

/// A look at a device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceLook {
    /// When.
    pub time_ns: u64,
    /// Bytes in use, whoever uses them.
    pub used_bytes: u64,
    /// Bytes of the device.
    pub total_bytes: u64,
    /// Bytes of this process; null where they are not counted.
    pub process_bytes: Option<u64>,
    /// Other processes; null where they cannot be known.
    pub others: Option<Vec<oomhook_trace::record::Other>>,
}

/// How a space was used.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SpaceUse {
    /// Blocks that came.
    pub allocs: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// Live bytes.
    pub live_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Most live bytes.
    pub peak_bytes: u64,
    /// Bytes that ever came.
    pub cumulative_bytes: u64,
}

/// The peak of a device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// When.
    pub time_ns: u64,
    /// Number of the allocation.
    pub event: u64,
    /// Phase of the thread that reached them.
    pub phase: Option<String>,
    /// Which instance of the phase it was, from 1; 0 for none.
    pub round: u64,
    /// What it was made of, largest first.
    pub sites: Vec<Site>,
}

/// A line of the ledger.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerLine {
    /// Name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// It is a guess.
    pub estimated: bool,
}

/// Host memory.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Host {
    /// `pinned` and `registered`.
    pub spaces: BTreeMap<&'static str, SpaceUse>,
}

/// Reserved address space.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Va {
    /// Live bytes.
    pub live_bytes: u64,
    /// Most live bytes.
    pub peak_bytes: u64,
}

/// Blocks of one site, stack, space and device.
#[derive(Clone, Debug, Serialize)]
pub struct Site {
    /// The place a person can change: a function, else `file:line`, else `library+0xoffset`.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The serving allocator in between.
    pub via: Option<&'static str>,
    /// Space.
    pub space: &'static str,
    /// Device.
    pub device: Option<u32>,
    /// Bytes handed out.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// The bytes are computed, not told by the driver.
    pub estimated: bool,
    /// Blocks.
    pub blocks: u64,
    /// Blocks that ever came from here.
    pub allocs: u64,
    /// The thread that made most of it.
    pub thread: Option<Rc<str>>,
    /// Phase.
    pub phase: Option<String>,
    /// The call that made most of it.
    pub call: Rc<str>,
    /// Which frame of `stack` is the site.
    pub site_frame: Option<usize>,
    /// The innermost Python line of a person's own, else of an installed package: `train.py:88 step`.
    pub python_site: Option<Rc<str>>,
    /// The node of PyTorch's backward pass that asked: `AddmmBackward0`.
    pub autograd_node: Option<Rc<str>>,
    /// What it is for, of a framework's cache: an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// How its live bytes went over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Its stack's number in the trace.
    #[serde(skip)]
    pub stack_id: oomhook_trace::StackId,
    /// Its stack passes through the end of the process.
    #[serde(skip)]
    pub at_exit: bool,
    /// Which frame is the site was worked out without names: the runtime inside the program has none.
    pub site_estimated: bool,
    /// Innermost first.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
}

impl Site {
    /// What made the site ask, as far as it is told: a line of Python, or a node of the backward pass.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.python_site
            .as_deref()
            .or(self.autograd_node.as_deref())
    }
}

/// A leak.
#[derive(Clone, Debug, Serialize)]
pub struct Leak {
    /// Where it comes from.
    #[serde(flatten)]
    pub site: Site,
    /// What kind it is.
    pub class: LeakClass,
}

/// What kind of leak it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakClass {
    /// It grows as the process goes on.
    Growing,
    /// It came once.
    OneTime,
    /// A framework's cache holds it.
    Cached,
    /// It was made while the process was ending.
    DuringExit,
    /// The driver keeps it for graphs.
    Retained,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// Function.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
    /// File name of the library.
    pub library: String,
    /// Return address, as an ELF address of the library.
    pub offset: u64,
    /// Language.
    pub language: Language,
    /// Build-id of the library, if the frame has no name: what to look for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<Rc<str>>,
}

/// Language of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// Machine code.
    Native,
    /// Python.
    Python,
}

impl Frame {
    /// `leak.cpp:14 main`, `main`, or `libfoo.so+0x1234`: as much as is known, without parameters.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.place(), self.bare_function()) {
            (Some(place), Some(function)) => format!("{place} {function}"),
            (Some(place), None) => place,
            (None, Some(function)) => function.to_owned(),
            (None, None) if self.language == Language::Python => self.library.clone(),
            (None, None) => format!("{}+{:#x}", self.library, self.offset),
        }
    }

    /// The label with everything that belongs to the function's name: arguments of templates, parameters.
    #[must_use]
    pub fn full_label(&self) -> String {
        match (self.place(), self.function.as_deref()) {
            (Some(place), Some(function)) => format!("{place} {function}"),
            (None, Some(function)) => function.to_owned(),
            (_, None) => self.label(),
        }
    }

    /// The function, else the place, else library and offset.
    #[must_use]
    pub fn name(&self) -> String {
        match self.bare_function() {
            Some(function) => function.to_owned(),
            None => self.label(),
        }
    }

    /// The function without return type, parameters and arguments of a template, which Python's names have not.
    #[must_use]
    pub fn bare_function(&self) -> Option<&str> {
        let function = self.function.as_deref()?;
        Some(match self.language {
            // Names of code made at run time are in a language of their own; a gap is none.
            Language::Native if self.library != "[jit]" && !function.starts_with("... ") => {
                crate::attribution::bare_name(function)
            }
            Language::Native | Language::Python => function,
        })
    }

    /// `leak.cpp:14`.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        let file = crate::attribution::file_name(self.file.as_deref()?);
        Some(match self.line {
            Some(line) => format!("{file}:{line}"),
            None => file.to_owned(),
        })
    }
}

/// Bytes and blocks of a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gone {
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// What went without being freed.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Released {
    /// With the reset of a device.
    pub by_reset: BTreeMap<&'static str, Gone>,
    /// With a destroyed context.
    pub by_context_destroy: BTreeMap<&'static str, Gone>,
}

/// Failures of one request from one stack.
#[derive(Clone, Debug, Serialize)]
pub struct Oom {
    /// Call.
    pub call: Rc<str>,
    /// Bytes asked for, if the call says.
    pub requested_bytes: Option<u64>,
    /// Space, if the call says.
    pub space: Option<&'static str>,
    /// Device.
    pub device: Option<u32>,
    /// When it failed last.
    pub time_ns: u64,
    /// Bytes freed before it succeeded.
    pub freed_between_bytes: Option<u64>,
    /// What was missing.
    pub short_by_bytes: Option<u64>,
    /// What came of it.
    pub class: oomhook_ledger::oom::Class,
    /// How often it failed.
    pub attempts: u64,
    /// Allocations and frees of the driver's before.
    #[serde(skip)]
    pub calls_before: (u64, u64),
    /// Free bytes of the device.
    pub free_bytes: Option<u64>,
    /// Bytes of the device.
    pub total_bytes: Option<u64>,
    /// The site that asked.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// Which frame of `stack` is the site.
    pub site_frame: Option<usize>,
    /// The innermost Python line of a person's own, else of an installed package.
    pub python_site: Option<Rc<str>>,
    /// The node of PyTorch's backward pass that asked.
    pub autograd_node: Option<Rc<str>>,
    /// Who asked, innermost first.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
    /// The innermost phase, with the number of its instance if it had several.
    pub phase: Option<String>,
    /// That one and those around it, the outermost first, each by the name of its instance: `["step 17", "forward"]`.
    pub phases: Vec<String>,
    /// What each instance of a phase had left behind by then, most first.
    pub growth: Vec<PhaseGrowth>,
    /// The program's own last lines before, oldest first.
    pub log: Vec<LogLine>,
    /// The latest step before that needed much more memory than those before it, where a key of the program's lines had changed.
    pub jump: Option<LogJump>,
    /// What had been rising, the steepest first.
    pub rising: Vec<RisingSite>,
    /// What it was to be for, where a framework's cache asked: an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// What lived then, largest first.
    pub sites: Vec<Site>,
    /// Diagnosis.
    pub verdict: Option<Diagnosis>,
    /// The thread that asked.
    pub thread: Option<Rc<str>>,
    /// Of a series of halved requests: the last and smallest one that failed (`requested_bytes` is the first).
    pub requested_least_bytes: Option<u64>,
    /// All bytes of the device then, line by line; empty where the driver could not be asked.
    pub ledger: Vec<LedgerLine>,
    /// What had changed lately, the largest change first.
    pub changed: Vec<Change>,
    /// Since when.
    pub changed_since_ns: u64,
    /// The latest frees before, the latest first.
    pub last_frees: Vec<LastFree>,
    /// What the host had.
    pub host: Option<oomhook_trace::record::HostMemory>,
    /// Other processes on the device, as far as they can be known.
    pub others: Vec<oomhook_trace::record::Other>,
    /// These are all.
    pub others_known: bool,
    /// Memory came from pools of which the driver has not said what they reserve.
    #[serde(skip)]
    pub hidden_pools: bool,
    /// The framework's cache on the device, if it has one.
    pub cache: Option<CacheThen>,
}

/// Live bytes of a site that came or went lately.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Bytes that came, or went (negative).
    pub bytes: i64,
    /// Where they came from.
    #[serde(flatten)]
    pub of: Place,
}

/// A free before a failure.
#[derive(Clone, Debug, Serialize)]
pub struct LastFree {
    /// Bytes.
    pub bytes: u64,
    /// When.
    pub time_ns: u64,
    /// Where the block came from.
    #[serde(flatten)]
    pub of: Place,
    /// The site that freed it.
    pub freed_by: Rc<str>,
    /// The thread that freed it.
    pub thread: Option<Rc<str>>,
}

/// A site, as texts need it.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Name.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The line of Python, or the node of the backward pass, that led there.
    #[serde(skip)]
    pub origin: Option<Rc<str>>,
    /// Its stack.
    #[serde(skip)]
    pub stack: Rc<[Rc<Frame>]>,
    /// Which frame of `stack` is the site.
    #[serde(skip)]
    pub site_frame: Option<usize>,
}

impl Place {
    /// True for the same site, reached by the same line of a program.
    #[must_use]
    pub fn is_same(&self, other: &Place) -> bool {
        (&self.label, &self.library, &self.origin) == (&other.label, &other.library, &other.origin)
    }

    /// The line that a person can change, if it is known: one of Python's before one of a library.
    #[must_use]
    pub fn line(&self) -> &Rc<str> {
        self.origin.as_ref().unwrap_or(&self.label)
    }
}

/// What was wrong with frees and registrations.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Anomalies {
    /// Failing frees of addresses never seen.
    pub unknown_free: u64,
    /// Failing frees of addresses freed before.
    pub double_free: u64,
    /// Failing frees of addresses inside a block.
    pub interior_free: u64,
    /// Successful frees by a call of another family.
    pub cross_api_free: u64,
    /// Failing frees of a living block's own address.
    pub failed_free: u64,
    /// Failing frees of what went with a reset or a context.
    pub free_after_reset: u64,
    /// Failing registrations of what is registered already.
    pub failed_register: u64,
    /// Frees that the driver refused because it had shut down: the process was exiting. They are none of the above.
    pub after_shutdown: u64,
    /// Details of the first ones.
    pub events: Vec<AnomalyEvent>,
}

/// One anomaly.
#[derive(Clone, Debug, Serialize)]
pub struct AnomalyEvent {
    /// What was wrong.
    pub kind: oomhook_ledger::anomalies::Kind,
    /// When.
    pub time_ns: u64,
    /// Call.
    pub call: Rc<str>,
    /// Thread.
    pub thread: Option<Rc<str>>,
    /// The address, in hexadecimal.
    pub address: String,
    /// The driver's code.
    pub code: u32,
    /// The site of the call.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its stack.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
    /// The block that was meant.
    pub block: Option<AnomalyBlock>,
    /// Who had ended it.
    pub ended: Option<AnomalyEnd>,
}

/// The block of an anomaly.
#[derive(Clone, Debug, Serialize)]
pub struct AnomalyBlock {
    /// Its address, in hexadecimal.
    pub address: String,
    /// Its bytes.
    pub bytes: u64,
    /// Number of its allocation.
    pub event: u64,
    /// Space.
    pub space: &'static str,
    /// The site of its allocation.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// The stack of its allocation.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
}

/// How the block of an anomaly had ended.
#[derive(Clone, Debug, Serialize)]
pub struct AnomalyEnd {
    /// When.
    pub time_ns: u64,
    /// By which call.
    pub call: Rc<str>,
    /// In which thread.
    pub thread: Option<Rc<str>>,
    /// The site of that call.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its stack.
    #[serde(serialize_with = "frames")]
    pub stack: Rc<[Rc<Frame>]>,
}

/// A context.
#[derive(Clone, Debug, Serialize)]
pub struct Context {
    /// Device.
    pub device: Option<u32>,
    /// Made by `cuCtxCreate`, not a primary one.
    pub explicit: bool,
    /// `primary`, `explicit`, `green` (a part of the device, without memory of its own).
    pub kind: &'static str,
    /// When it was seen first.
    pub time_ns: u64,
    /// When it was destroyed.
    pub destroyed_ns: Option<u64>,
    /// The site that made it; null if its making was not seen.
    pub site: Option<Rc<str>>,
    /// The same with file and line.
    pub label: Option<Rc<str>>,
    /// Its library.
    pub library: Option<Rc<str>>,
    /// The stack that made it; empty if that was not seen.
    pub stack: Rc<[Rc<Frame>]>,
}

/// A point of a device's use over time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Point {
    /// When.
    pub time_ns: u64,
    /// Bytes in use, whoever uses them.
    pub used_bytes: u64,
    /// Bytes of this process; null where they are not counted.
    pub process_bytes: Option<u64>,
    /// Live device bytes of this process.
    pub tracked_bytes: u64,
    /// Bytes beside them and beside what pools keep idle: what calls took, and what nothing explains.
    pub untracked_bytes: i64,
    /// Of that, what nothing explains.
    pub rest_bytes: i64,
}

/// Growth of what is in use beside allocations.
#[derive(Clone, Debug, Serialize)]
pub struct UntrackedGrowth {
    /// Bytes by which it grew.
    pub bytes: i64,
    /// Since when.
    pub since_ns: u64,
    /// It is this process's; otherwise it may be another one's, since it is not known who has what.
    pub is_own: bool,
    /// The kind of object whose number grew along with it, if one did.
    pub with: Option<oomhook_trace::record::Object>,
    /// How many more of these there were.
    pub objects: u64,
    /// Bytes for each of them.
    pub bytes_each: u64,
}

/// Loaded device code.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Modules {
    /// Loaded and not unloaded.
    pub live: u64,
    /// Loaded.
    pub loaded: u64,
    /// Unloaded.
    pub unloaded: u64,
    /// Gone with their context.
    pub released: u64,
    /// Bytes of the images that the living ones were loaded from, where known; on the device they take another size.
    pub image_bytes: u64,
}

/// Objects of one kind that hold memory which no allocation call shows.
#[derive(Clone, Debug, Serialize)]
pub struct Objects {
    /// `module`, `library`, `graph_exec`, `graph`, `stream`, `event`, `texture`, `surface`, `green_context`, `pool`.
    pub kind: oomhook_trace::record::Object,
    /// Made and not destroyed.
    pub live: u64,
    /// Ever made.
    pub created: u64,
    /// Ever destroyed.
    pub destroyed: u64,
    /// Gone with their context.
    pub released: u64,
    /// Who made the living ones, most first.
    pub sites: Vec<ObjectSite>,
}

/// Living objects of one kind from one place.
#[derive(Clone, Debug, Serialize)]
pub struct ObjectSite {
    /// The place.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
    /// The call that made them.
    pub call: Rc<str>,
    /// On which device.
    pub device: Option<u32>,
    /// How many live.
    pub live: u64,
    /// How many were made.
    pub created: u64,
    /// Bytes of the images that the living ones were loaded from, where known.
    pub image_bytes: u64,
    /// The stack that made the first one.
    pub stack: Rc<[Rc<Frame>]>,
}

/// A limit that was set.
#[derive(Clone, Debug, Serialize)]
pub struct Limit {
    /// On which device.
    pub device: Option<u32>,
    /// Number of the context in `contexts`; absent for the device's primary one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// `stack_size`, `printf_fifo_size`, `malloc_heap_size`, or the driver's number.
    pub limit: String,
    /// The value asked for.
    pub value: u64,
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

fn frames<S: Serializer>(stack: &Rc<[Rc<Frame>]>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(stack.iter().map(|frame| &**frame))
}
