//! llama.cpp and others on ggml: a buffer that could not be had, and what it was for.

use super::{bytes, number, pattern, start};
use crate::explain::message::{Found, Kind, Numbers};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static BUFFER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"ggml_\w*alloc_buffer: allocating (?P<size>{size}) on device (?P<gpu>\d+): cudaMalloc failed: out of memory",
    )
});
static RANGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:alloc_tensor_range|ggml_gallocr_reserve_n\w*): failed to allocate (?P<where>\w+) buffer of size (?P<size>\d{1,19})",
    )
});
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"ggml_cuda\w*: .{0,80}out of memory|cudaMalloc failed: out of memory")
});

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    if let Some(found) = BUFFER.captures(text) {
        let mut message = Found::new(start(&found), Framework::LlamaCpp, Kind::Allocator);
        message.numbers.requested_bytes = bytes(&found, "size");
        message.numbers.device = number(&found, "gpu");
        return Some(message);
    }
    if let Some(found) = RANGE.captures(text) {
        let on_host = found["where"].starts_with("CPU") || found["where"].ends_with("_Host");
        let kind = match on_host {
            true => Kind::HostAllocator,
            false => Kind::Allocator,
        };
        let mut message = Found::new(start(&found), Framework::LlamaCpp, kind);
        message.numbers.requested_bytes = bytes(&found, "size");
        let digits = found["where"].strip_prefix("CUDA");
        message.numbers.device = digits.and_then(|digits| digits.parse().ok());
        return Some(message);
    }
    let found = BARE.find(text)?;
    Some(Found::new(
        found.start(),
        Framework::LlamaCpp,
        Kind::ErrorCode,
    ))
}

/// What the buffer was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The KV cache.
    Cache,
    /// The model's weights.
    Weights,
    /// What computing needs.
    Compute,
    /// The pool that kernels take their room from while they run.
    Pool,
}

static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"current device: (?P<gpu>\d+), in function (?P<function>\w+) at \S*ggml[\w-]*\.(?:cu|cpp|cuh):\d+",
    )
});

/// What ggml says in the line after a bare error of CUDA: nothing if it is not ggml's.
pub fn place(text: &str, numbers: &mut Numbers) -> Option<Option<Purpose>> {
    let found = PLACE.captures(text)?;
    numbers.device = number(&found, "gpu");
    Some((&found["function"] == "alloc").then_some(Purpose::Pool))
}

/// What a line after the complaint says about the purpose.
pub fn purpose(text: &str) -> Option<Purpose> {
    let says = |word: &str| text.contains(word);
    if says("failed to allocate buffer for kv cache") || says("failed to allocate kv cache") {
        Some(Purpose::Cache)
    } else if says("failed to allocate compute")
        || says("compute buffers")
        || says("failed to reserve")
    {
        Some(Purpose::Compute)
    } else if says("unable to allocate") && says("buffer") && !says("KV") {
        Some(Purpose::Weights)
    } else {
        None
    }
}
