//! The JSON's keys on failures for lack of memory.

use super::site::frames;
use super::{CacheThen, Frame, LedgerLine, LogJump, LogLine, PhaseGrowth, Place, RisingSite, Site};
use crate::diagnosis::Diagnosis;
use crate::roles::Role;
use serde::Serialize;
use std::rc::Rc;

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
