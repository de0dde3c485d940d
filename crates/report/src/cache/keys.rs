//! The JSON's keys on what is inside a framework's cache.

use crate::roles::Role;
use crate::schema::{Change, Place, Site};
use serde::Serialize;

/// Blocks inside a framework's cache on one device. They lie in the device's own blocks and are never added to them.
#[derive(Clone, Debug, Serialize)]
pub struct Tensors {
    /// Bytes handed out at the end.
    pub allocated_bytes: u64,
    /// Most bytes handed out.
    pub allocated_peak_bytes: u64,
    /// Bytes that the cache holds at the end.
    pub reserved_bytes: u64,
    /// Most bytes that it held.
    pub reserved_peak_bytes: u64,
    /// Blocks that were handed out.
    pub allocs: u64,
    /// Blocks that were taken back.
    pub frees: u64,
    /// Bytes that the cache holds and nobody uses, at the end.
    pub idle_bytes: u64,
    /// Bytes ever handed out.
    pub cumulative_bytes: u64,
    /// Times that the cache gave up.
    pub failures: u64,
    /// Blocks taken back whose handing out was not seen.
    pub unknown_frees: u64,
    /// What was handed out when most was.
    pub peak: TensorPeak,
    /// What is handed out at the end, largest first.
    pub live_sites: Vec<Site>,
    /// The cache's segments at the end.
    pub segments: Option<Segments>,
}

/// The instant at which most bytes were handed out.
#[derive(Clone, Debug, Serialize)]
pub struct TensorPeak {
    /// Bytes.
    pub bytes: u64,
    /// When.
    pub time_ns: u64,
    /// Number of the block that reached them, among those handed out.
    pub event: u64,
    /// Phase of the thread that reached them.
    pub phase: Option<String>,
    /// Which instance of the phase it was, from 1; 0 for none.
    pub round: u64,
    /// What they were, largest first.
    pub sites: Vec<Site>,
    /// What they were for: an estimate.
    pub roles: Vec<RoleSum>,
}

/// What blocks of one role came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RoleSum {
    /// The role.
    pub role: Role,
    /// Bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// What the cache holds of the driver, and the room in it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Segments {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes in them that are not handed out.
    pub idle_bytes: u64,
    /// Segments with such bytes.
    pub idle_in: u64,
    /// Segments of which nothing is handed out.
    pub empty: u64,
    /// Their bytes.
    pub empty_bytes: u64,
    /// Gaps between blocks that are handed out.
    pub holes: u64,
    /// The largest gap: no request above it fits without new memory.
    pub largest_hole_bytes: u64,
    /// How many segments there are of each size, the largest first.
    pub sizes: Vec<SegmentSize>,
    /// Bytes handed out that lie in no known segment: the rest is not to be trusted if this is much.
    pub outside_bytes: u64,
    /// Segments are mappings of physical memory, which can grow (PyTorch's `expandable_segments`).
    pub expandable: bool,
}

/// A site whose live bytes had been rising again and again.
#[derive(Clone, Debug, Serialize)]
pub struct RisingSite {
    /// By how much its lowest bytes rose.
    pub rise_bytes: u64,
    /// It began in the second half of the run.
    pub late: bool,
    /// In how many slots of time they rose.
    pub steps: u64,
    /// Of so many.
    pub of_slots: u64,
    /// Its blocks become larger and larger.
    pub larger_blocks: bool,
    /// Its blocks.
    pub blocks: u64,
    /// Blocks that ever came from there.
    pub allocs: u64,
    /// How often other sites' bytes came and went meanwhile.
    pub rounds: u64,
    /// How often the blocks of other sites were all replaced, in the whole run.
    pub turnover: u64,
    /// The serving allocator in between.
    pub via: Option<&'static str>,
    /// What they are for, of a framework's cache: an estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// Where its blocks come from.
    #[serde(flatten)]
    pub of: Place,
}

/// A site that held far more than ever before.
#[derive(Clone, Debug, Serialize)]
pub struct JumpedSite {
    /// The most bytes that it had held before.
    pub before_bytes: u64,
    /// What it held then.
    pub bytes: u64,
    /// Where its blocks come from.
    #[serde(flatten)]
    pub of: Place,
}

/// A site whose blocks keep segments that are partly idle from being given back.
#[derive(Clone, Debug, Serialize)]
pub struct PinnedSite {
    /// In how many segments it has most of the blocks.
    pub segments: u64,
    /// Bytes in them that are not handed out.
    pub idle_bytes: u64,
    /// Bytes in them that are.
    pub used_bytes: u64,
    /// Where its blocks come from.
    #[serde(flatten)]
    pub of: Place,
}

/// Segments of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentSize {
    /// The size.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// A framework's cache when memory ran out.
#[derive(Clone, Debug, Serialize)]
pub struct CacheThen {
    /// Bytes that the cache was asked for, if it said that it gave up.
    pub asked_bytes: Option<u64>,
    /// Blocks handed out before.
    pub allocs: u64,
    /// Blocks taken back before.
    pub frees: u64,
    /// Bytes handed out.
    pub allocated_bytes: u64,
    /// Bytes that it held.
    pub reserved_bytes: u64,
    /// Bytes that it held and nobody used.
    pub idle_bytes: u64,
    /// Its segments.
    pub segments: Segments,
    /// What was handed out, largest first.
    pub sites: Vec<Site>,
    /// What had changed lately, the largest change first.
    pub changed: Vec<Change>,
    /// What had been rising, the steepest first.
    pub rising: Vec<RisingSite>,
    /// What held far more than ever before, the largest first.
    pub jumped: Vec<JumpedSite>,
    /// Whose blocks kept partly idle segments from being given back, the most idle bytes first.
    pub pinned: Vec<PinnedSite>,
    /// No call of the driver failed: the cache keeps to a limit of its own.
    pub by_own_limit: bool,
}
