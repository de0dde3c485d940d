//! The JSON's keys on frees and registrations that went wrong.

use super::Frame;
use super::site::frames;
use serde::Serialize;
use std::rc::Rc;

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
