//! TensorFlow's exception. What its allocator writes before is in `bfc.rs`.

use super::{number, pattern, start};
use crate::explain::message::{Found, Kind};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static TENSOR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"OOM when allocating tensor with shape\s?\[(?P<shape>[\d, ]*)\](?: and type (?P<type>\w+))?(?: on (?:\S*/)?device:(?P<kind>[A-Z]+):(?P<gpu>\d+))?(?: by allocator (?P<allocator>\w+))?",
    )
});
static EXHAUSTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\bResourceExhaustedError\b.{0,40}failed to allocate memory|\bfailed to allocate memory\b.{0,20}\[Op:",
    )
});

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    let Some(found) = TENSOR.captures(text) else {
        let found = EXHAUSTED.find(text)?;
        return Some(Found::new(
            found.start(),
            Framework::TensorFlow,
            Kind::Allocator,
        ));
    };
    let allocator = found.name("allocator").map_or("", |name| name.as_str());
    let on_host = found
        .name("kind")
        .is_some_and(|kind| kind.as_str() == "CPU")
        || allocator.contains("cpu");
    let kind = match on_host {
        true => Kind::HostAllocator,
        false => Kind::Allocator,
    };
    let mut message = Found::new(start(&found), Framework::TensorFlow, kind);
    if !on_host {
        message.numbers.device = number(&found, "gpu");
    }
    let shape = &found["shape"];
    let width = found.name("type").and_then(|name| width(name.as_str()));
    message.numbers.requested_bytes = width.and_then(|width| size(shape, width));
    let of = found.name("type").map_or("", |name| name.as_str());
    message.facts.push(
        format!("a tensor of shape [{shape}] {of}")
            .trim_end()
            .to_owned(),
    );
    Some(message)
}

/// Bytes of a tensor, as its shape says.
fn size(shape: &str, width: u64) -> Option<u64> {
    shape
        .split(',')
        .map(str::trim)
        .filter(|side| !side.is_empty())
        .try_fold(width, |size, side| size.checked_mul(side.parse().ok()?))
}

/// Bytes of one element.
fn width(name: &str) -> Option<u64> {
    Some(match name {
        "bool" | "int8" | "uint8" | "qint8" | "quint8" => 1,
        "half" | "float16" | "bfloat16" | "int16" | "uint16" => 2,
        "float" | "float32" | "int32" | "uint32" => 4,
        "double" | "float64" | "int64" | "uint64" | "complex64" => 8,
        "complex128" => 16,
        _ => return None,
    })
}
