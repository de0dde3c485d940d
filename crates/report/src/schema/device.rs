//! The JSON's keys on devices: how their memory was used, line by line and over time.

use super::site::frames;
use super::{Frame, Site, Tensors};
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

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
