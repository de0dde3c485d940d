//! JAX and XLA: the exception. What the allocator writes before is in `bfc.rs`.

use super::{bytes, number, pattern, start};
use crate::explain::message::{Found, Kind, Numbers};
use crate::explain::words as say;
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static EXHAUSTED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"RESOURCE_EXHAUSTED: (?:Out of memory (?:while trying to allocate|allocating)|Failed to allocate request for)\s+(?P<size>{size})(?:\s\((?P<exact>\d+B)\))?(?: on device ordinal (?P<gpu>\d+))?",
    )
});
static PROGRAM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"executable_name='(?P<name>[\w.<>-]{1,120})'"));
/// The driver's own no to XLA's pool.
static DRIVER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"failed to (?:allocate|alloc) (?P<size>{size})(?: \(\d+ bytes\))?(?: bytes)? (?:from device|on host): ?(?:RESOURCE_EXHAUSTED: ?)?:? ?CUDA_ERROR_OUT_OF_MEMORY",
    )
});
static BARE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?:XlaRuntimeError|JaxRuntimeError): RESOURCE_EXHAUSTED"));
/// XLA's compiler says that a program cannot be made to fit.
static COMPILER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Can't reduce memory use below (?P<target>{size})(?: \(\d+ bytes\))? by rematerialization; only reduced to (?P<need>{size})",
    )
});

/// What the compiler planned, in lines after the exception.
static PLANNED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\s*(?P<name>parameter|maybe_live_out|preallocated temp) allocation:\s+(?P<size>{size})",
    )
});

/// Takes a figure of XLA's "BufferAssignment stats"; the first of each counts.
pub fn planned(text: &str, numbers: &mut Numbers) {
    let Some(found) = PLANNED.captures(text) else {
        return;
    };
    let figure = match &found["name"] {
        "parameter" => &mut numbers.parameter_bytes,
        "maybe_live_out" => &mut numbers.output_bytes,
        _ => &mut numbers.temporary_bytes,
    };
    *figure = figure.or_else(|| bytes(&found, "size"));
}

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    if let Some(found) = EXHAUSTED.captures(text) {
        let mut message = Found::new(start(&found), Framework::Jax, Kind::Allocator);
        message.numbers.requested_bytes = bytes(&found, "exact").or_else(|| bytes(&found, "size"));
        message.numbers.device = number(&found, "gpu");
        if let Some(program) = PROGRAM.captures(text) {
            message.facts.push(format!("by {}", &program["name"]));
        }
        return Some(message);
    }
    if let Some(found) = DRIVER.captures(text) {
        let on_host = found[0].contains("on host");
        let kind = match on_host {
            true => Kind::HostAllocator,
            false => Kind::Allocator,
        };
        let mut message = Found::new(start(&found), Framework::Jax, kind);
        message.numbers.requested_bytes = bytes(&found, "size");
        let fact = match on_host {
            true => "pinned host memory was refused",
            false => say::FACT_DRIVER,
        };
        message.facts.push(fact.to_owned());
        return Some(message);
    }
    if let Some(found) = COMPILER.captures(text) {
        let mut message = Found::new(start(&found), Framework::Jax, Kind::Allocator);
        message.numbers.requested_bytes = bytes(&found, "need");
        message.numbers.limit_bytes = bytes(&found, "target");
        message.facts.push(say::FACT_COMPILER.to_owned());
        return Some(message);
    }
    let found = BARE.find(text)?;
    Some(Found::new(found.start(), Framework::Jax, Kind::Allocator))
}
