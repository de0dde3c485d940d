//! The JSON's keys on phases.

use crate::schema::Place;
use serde::Serialize;

/// A phase of the program: all ranges, or all rounds between marks, whose names differ in numbers only.
#[derive(Clone, Debug, Serialize)]
pub struct Phase {
    /// Its name, with `#` for numbers if there are several.
    pub name: String,
    /// `range` (of NVTX, or pushed by the program) or `mark` (a round that ends with it).
    pub kind: &'static str,
    /// Instances that ended.
    pub count: u64,
    /// Instances that last. They count for the peaks, with the numbers after those that ended.
    pub lasting: u64,
    /// Most device bytes that lived during an instance.
    pub peak_bytes: u64,
    /// On which device.
    pub peak_device: Option<u32>,
    /// Which instance that was, from 1, and its name.
    pub peak_round: u64,
    /// Its name.
    pub peak_name: Option<String>,
    /// Most bytes that a framework's cache had handed out during an instance; null without a cache.
    pub tensors_peak_bytes: Option<u64>,
    /// Which instance that was, from 1.
    pub tensors_peak_round: Option<u64>,
    /// Its name.
    pub tensors_peak_name: Option<String>,
    /// Bytes by which what lives grew from the beginning of the first kept instance that ended to the end of the latest: of a
    /// cache what it handed out, else device bytes.
    pub live_growth_bytes: i64,
    /// Device bytes that calls took without saying so, in all instances.
    pub hidden_bytes: i64,
    /// What an instance leaves behind, most first.
    pub growth: Vec<PhaseGrowth>,
    /// The latest instances that ended, oldest first, and after them those that last.
    pub instances: Vec<PhaseInstance>,
}

/// What each instance of a phase leaves behind from one site.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseGrowth {
    /// Bytes that the middle one of the instances left behind.
    pub bytes_per_mark: u64,
    /// Of how many instances.
    pub instances: u64,
    /// Where they come from.
    #[serde(flatten)]
    pub of: Place,
}

/// One range, or one round between two marks.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseInstance {
    /// Its name; of a round the one of the mark that ended it, and none while it lasts.
    pub name: Option<String>,
    /// When it began.
    pub begun_ns: u64,
    /// When it ended; null while it lasts.
    pub ended_ns: Option<u64>,
    /// What lived, device by device.
    pub devices: Vec<PhaseHeight>,
    /// Device bytes that calls took without saying so meanwhile.
    pub hidden_bytes: i64,
}

/// What lived on a device during an instance.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PhaseHeight {
    /// The device.
    pub device: Option<u32>,
    /// Device bytes when it began.
    pub begin_bytes: u64,
    /// Most device bytes.
    pub peak_bytes: u64,
    /// Device bytes when it ended; now, while it lasts.
    pub end_bytes: u64,
    /// Bytes handed out by a framework's cache when it began.
    pub tensors_begin_bytes: u64,
    /// Most bytes handed out.
    pub tensors_peak_bytes: u64,
    /// Bytes handed out when it ended; now, while it lasts.
    pub tensors_end_bytes: u64,
}
