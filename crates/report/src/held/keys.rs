//! Keys of the JSON about what is kept apart from blocks.

use crate::schema::ObjectSite;
use oomhook_ledger::pools::PoolKind;
use serde::Serialize;
use std::rc::Rc;

/// A place in the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spot {
    /// The site.
    pub site: Rc<str>,
    /// The same with file and line.
    pub label: Rc<str>,
    /// Its library.
    pub library: Rc<str>,
}

/// Who did something.
#[derive(Clone, Debug, Serialize)]
pub struct Doer {
    /// From where.
    #[serde(flatten)]
    pub spot: Spot,
    /// By which call.
    pub call: Rc<str>,
    /// When.
    pub time_ns: u64,
}

/// A memory pool.
#[derive(Clone, Debug, Serialize)]
pub struct Pool {
    /// Device.
    pub device: Option<u32>,
    /// `default`, `own`, `imported`, `unknown`.
    pub kind: PoolKind,
    /// The driver was asked for the figures that follow; otherwise they are 0.
    pub measured: bool,
    /// Bytes in use.
    pub used_bytes: u64,
    /// Most bytes in use.
    pub used_peak_bytes: u64,
    /// Bytes reserved.
    pub reserved_bytes: u64,
    /// Most bytes reserved.
    pub reserved_peak_bytes: u64,
    /// Release threshold.
    pub release_threshold_bytes: u64,
    /// Reserved and not in use.
    pub idle_bytes: u64,
    /// Of these, what goes back at the next synchronisation: freed but not yet given back. An estimate.
    pub pending_bytes: u64,
    /// Bytes that live, by the calls that were seen.
    pub live_bytes: u64,
    /// Blocks that live.
    pub live_blocks: u64,
    /// Most bytes that lived.
    pub live_peak_bytes: u64,
    /// Blocks that ever came.
    pub allocs: u64,
    /// How often it was trimmed.
    pub trims: u64,
    /// What the trims gave back.
    pub trimmed_bytes: u64,
    /// Trims of which that could not be measured.
    pub trims_unmeasured: u64,
    /// Blocks freed on another stream than the allocation's.
    pub other_stream_frees: u64,
    /// Who made it, if that was seen.
    pub made: Option<Doer>,
    /// Who set the threshold last.
    pub threshold_set: Option<Doer>,
    /// Who destroyed it.
    pub destroyed: Option<PoolEnd>,
}

/// The end of a pool.
#[derive(Clone, Debug, Serialize)]
pub struct PoolEnd {
    /// By whom.
    #[serde(flatten)]
    pub by: Doer,
    /// Bytes that lived then.
    pub left_bytes: u64,
    /// Blocks that lived then: the pool goes with the last of them.
    pub left_blocks: u64,
    /// Where most of that came from.
    pub left_from: Option<Spot>,
}

/// Stream-ordered frees on another stream than the allocation's: right if the streams are ordered otherwise.
#[derive(Clone, Debug, Default, Serialize)]
pub struct OtherStreamFrees {
    /// How many.
    pub frees: u64,
    /// The first pairs of sites.
    pub sites: Vec<OtherStreamSite>,
}

/// Blocks from one place that were freed by another on another stream.
#[derive(Clone, Debug, Serialize)]
pub struct OtherStreamSite {
    /// Where they came from.
    #[serde(flatten)]
    pub from: Spot,
    /// Who freed the first one.
    pub freed_by: Doer,
    /// How many.
    pub frees: u64,
}

/// CUDA graphs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Graphs {
    /// Allocation nodes.
    pub alloc_nodes: u64,
    /// Nodes that free.
    pub free_nodes: u64,
    /// Bytes that the allocation nodes ask for.
    pub requested_bytes: u64,
    /// Bytes in use for them.
    pub used_bytes: u64,
    /// Most bytes that a device used.
    pub used_peak_bytes: u64,
    /// Bytes reserved for them.
    pub reserved_bytes: u64,
    /// Most bytes that a device reserved.
    pub reserved_peak_bytes: u64,
    /// Captures that gave a graph.
    pub captures: u64,
    /// Captures that failed.
    pub failed_captures: u64,
    /// Launches of executable graphs.
    pub launches: u64,
    /// Executable graphs that live.
    pub execs_live: u64,
    /// Who made these, most first.
    pub execs: Vec<ObjectSite>,
    /// Who added or captured the allocation nodes, most bytes first.
    pub sites: Vec<NodeSite>,
}

/// Allocation nodes from one place.
#[derive(Clone, Debug, Serialize)]
pub struct NodeSite {
    /// The place.
    #[serde(flatten)]
    pub spot: Spot,
    /// By which call.
    pub call: Rc<str>,
    /// On which device.
    pub device: Option<u32>,
    /// How many.
    pub nodes: u64,
    /// Bytes that they ask for.
    pub bytes: u64,
}

/// Physical memory, and what keeps it alive: references and mappings.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Vmm {
    /// Handles whose memory lives.
    pub handles: u64,
    /// Bytes of them on devices.
    pub physical_bytes: u64,
    /// References to them.
    pub references: u64,
    /// Mappings of them.
    pub mappings: u64,
    /// Bytes of address space that the mappings cover.
    pub mapped_bytes: u64,
    /// Reserved addresses; they cost no memory.
    pub va_bytes: u64,
    /// Released and still mapped.
    pub only_mapped: Vec<VmmSite>,
    /// Not mapped (any more) and not released.
    pub only_referenced: Vec<VmmSite>,
}

/// Handles from one place.
#[derive(Clone, Debug, Serialize)]
pub struct VmmSite {
    /// The place.
    #[serde(flatten)]
    pub spot: Spot,
    /// On which device.
    pub device: Option<u32>,
    /// How many.
    pub handles: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Memory that processes share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ipc {
    /// Calls that offered memory to others.
    pub exported: u64,
    /// Calls that opened memory of others.
    pub opened: u64,
    /// Calls that closed it.
    pub closed: u64,
    /// What was offered.
    pub exports: Vec<Exported>,
    /// What was opened.
    pub imports: Vec<Imported>,
}

/// Memory that was offered.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// Tells handles apart; null where they have no bytes to tell them by (files).
    pub handle: Option<String>,
    /// Device.
    pub device: Option<u32>,
    /// Bytes; 0 if not known.
    pub bytes: u64,
    /// How often it was offered.
    pub times: u64,
    /// By whom first.
    pub by: Doer,
    /// Where the block came from, if that was seen.
    pub from: Option<Spot>,
    /// Who freed it.
    pub freed: Option<Doer>,
}

/// Memory that was opened.
#[derive(Clone, Debug, Serialize)]
pub struct Imported {
    /// As the owner's.
    pub handle: Option<String>,
    /// Device.
    pub device: Option<u32>,
    /// Bytes; 0 if not known.
    pub bytes: u64,
    /// How often it was opened.
    pub opens: u64,
    /// How often it was closed.
    pub closes: u64,
    /// When it was closed for good, also by the end of its context.
    pub closed_ns: Option<u64>,
    /// Who opened it first.
    pub by: Doer,
}

impl Imported {
    /// More opens than closes, and no context took it along.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closed_ns.is_none()
    }
}
