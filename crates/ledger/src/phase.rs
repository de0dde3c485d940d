//! One phase: its name, its instances, and how high memory stood in them.

use oomhook_trace::ThreadId;
use oomhook_trace::told::{PhaseName, PhaseNameId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What lived on one device over an instance: device bytes of the driver, and bytes handed out by a framework's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Height {
    /// The device; `None` for memory whose device is not known.
    pub device: Option<u8>,
    /// Device bytes when it began.
    pub begin: u64,
    /// Most device bytes.
    pub peak: u64,
    /// Device bytes when it ended.
    pub end: u64,
    /// Bytes that the cache had handed out when it began.
    pub tensors_begin: u64,
    /// Most bytes that it had handed out.
    pub tensors_peak: u64,
    /// Bytes that it had handed out when it ended.
    pub tensors_end: u64,
}

/// One range, or one round between two marks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its name; of a round the one of the mark that ended it.
    pub name: PhaseNameId,
    /// The thread that it was in; of a round the one that set the mark.
    pub thread: ThreadId,
    /// When it began.
    pub begun_ns: u64,
    /// When it ended; `None` while it lasts.
    pub ended_ns: Option<u64>,
    /// What lived, device by device.
    pub heights: Vec<Height>,
    /// Device bytes that calls took without saying so meanwhile.
    pub hidden: i64,
}

impl Instance {
    pub(crate) fn height(&mut self, device: Option<u8>) -> &mut Height {
        let at = match self.heights.iter().position(|one| one.device == device) {
            Some(at) => at,
            None => {
                self.heights.push(Height {
                    device,
                    ..Height::default()
                });
                self.heights.len() - 1
            }
        };
        &mut self.heights[at]
    }

    /// What was in it was in this one, too.
    pub(crate) fn contain(&mut self, inner: &Instance) {
        for height in &inner.heights {
            let own = self.height(height.device);
            own.peak = own.peak.max(height.peak);
            own.tensors_peak = own.tensors_peak.max(height.tensors_peak);
        }
        self.hidden += inner.hidden;
    }
}

/// A phase: all instances whose names differ in numbers only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PhaseUse {
    /// Its name with `#` for numbers, and its domain before it.
    pub folded: String,
    /// Its only name, as long as there is one only.
    pub only: Option<String>,
    /// It is a series of marks.
    pub is_mark: bool,
    /// Instances that ended.
    pub count: u64,
    /// The latest ones that ended, oldest first.
    pub instances: VecDeque<Instance>,
    /// The instance with the highest device bytes on one device, and its number among all (from 1).
    pub highest: Option<(u64, Instance)>,
    /// The same by what a cache had handed out.
    pub highest_tensors: Option<(u64, Instance)>,
    /// Device bytes that calls took without saying so, in all instances.
    pub hidden: i64,
}

impl PhaseUse {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.only.as_deref().unwrap_or(&self.folded)
    }
}

/// A name with its numbers left out.
pub(crate) fn fold(name: &PhaseName) -> String {
    let mut folded = String::with_capacity(name.name.len());
    if !name.domain.is_empty() {
        folded.push_str(&name.domain);
        folded.push_str(": ");
    }
    let mut in_number = false;
    for c in name.name.chars() {
        let digit = c.is_ascii_digit();
        if digit && !in_number {
            folded.push('#');
        } else if !digit {
            folded.push(c);
        }
        in_number = digit;
    }
    folded
}

pub(crate) fn whole(name: &PhaseName) -> String {
    if name.domain.is_empty() {
        name.name.clone()
    } else {
        format!("{}: {}", name.domain, name.name)
    }
}

pub(crate) fn end(instance: &mut Instance, time_ns: u64, now: &[Height]) {
    instance.ended_ns = Some(time_ns);
    stand_at(instance, now);
}

/// What lives now is what lived when it ended, or lives while it lasts.
pub(crate) fn stand_at(instance: &mut Instance, now: &[Height]) {
    for height in now {
        let own = instance.height(height.device);
        own.end = height.begin;
        own.tensors_end = height.tensors_begin;
    }
}
