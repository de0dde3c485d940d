//! The pool that TensorFlow and XLA share: its complaint, and the figures that it writes with it.

use super::{bytes, number, pattern, start};
use crate::explain::message::{Found, Kind, Numbers};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static COMPLAINT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:Allocator \((?:GPU_(?P<gpu>\d+)|(?P<name>\w+?))(?:_bfc)?\) )?[Rr]an out of memory trying to allocate (?P<size>{size})(?: \(rounded to (?P<rounded>\d+)\))?",
    )
});
static FIGURE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:^|\s)(?P<name>Limit|InUse|LargestFreeBlock|Largest Free Block):\s+(?P<bytes>\d{1,19})\s*$",
    )
});

/// Says that nothing is wrong yet.
const NO_FAILURE: &str = "this is not a failure";

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    let found = COMPLAINT.captures(text)?;
    let is_pool = text.contains("bfc") || text.contains("Allocator");
    if !is_pool || text.contains(NO_FAILURE) {
        return None;
    }
    // Both write the same line; where its file lies tells whose it is.
    let framework = match text.contains("tensorflow/")
        || text.contains("local_tsl")
        || text.contains("local_xla")
    {
        true => Framework::TensorFlow,
        false => Framework::Jax,
    };
    let on_host = found
        .name("name")
        .is_some_and(|name| name.as_str().contains("cpu"));
    let kind = match on_host {
        true => Kind::HostAllocator,
        false => Kind::Allocator,
    };
    let mut message = Found::new(start(&found), framework, kind);
    message.numbers.device = number(&found, "gpu");
    message.numbers.requested_bytes = number(&found, "rounded").or_else(|| bytes(&found, "size"));
    Some(message)
}

/// A figure in the lines after the complaint; true if there is one.
pub fn figure(text: &str, numbers: &mut Numbers) -> bool {
    let Some(found) = FIGURE.captures(text) else {
        return false;
    };
    let Some(value) = number::<u64>(&found, "bytes") else {
        return false;
    };
    match &found["name"] {
        "Limit" => numbers.limit_bytes = Some(value),
        "InUse" => numbers.allocated_bytes = Some(value),
        // Zero where it is not kept.
        _ => numbers.largest_hole_bytes = Some(value).filter(|value| *value > 0),
    }
    if let Some((limit, used)) = numbers.limit_bytes.zip(numbers.allocated_bytes) {
        numbers.idle_bytes = Some(limit.saturating_sub(used));
    }
    true
}
