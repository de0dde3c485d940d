//! PyTorch's caching allocator, from 0.4 on: the same facts in three shapes.

use super::{bytes, number, pattern, start};
use crate::explain::message::{Found, Kind, Numbers, Other};
use crate::explain::{size, words as say};
use oomhook_report::diagnosis::{Framework, Version};
use regex::{Captures, Regex};
use std::sync::LazyLock;

static BEGIN: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?:CUDA|HIP|XPU) out of memory\.?\s+Tried to allocate\s+(?P<size>{size})")
});
/// Broken after its first sentence.
static BROKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:CUDA|HIP|XPU) out of memory\.\s*$"));
/// Up to torch 2.0, in brackets.
static OLD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^[^(]{0,40}\(GPU (?P<gpu>\d+);\s+(?P<total>{size})\s+total\s+capacity;(?:\s+(?P<allocated>{size})\s+already\s+allocated;)?\s+(?P<free>{size})\s+free;(?:\s+(?P<allowed>{size})\s+allowed;)?\s+(?P<held>{size})\s+(?P<word>cached|reserved)",
    )
});
/// From 2.1 on, in sentences. (2.1 wrote "capacty".)
static TOTAL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"GPU\s+(?P<gpu>\d+)\s+has\s+a\s+total\s+capaci?ty\s+of\s+(?P<total>{size})")
});
static FREE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"of\s+which\s+(?P<free>{size})\s+is\s+free"));
static OWN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"this\s+process\s+has\s+(?P<bytes>{size})\s+memory\s+in\s+use"));
static OTHER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"Process\s+(?P<pid>\d+)\s+has\s+(?P<bytes>{size})\s+memory\s+in\s+use")
});
static ALLOWED: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?P<bytes>{size})\s+allowed;"));
static ALLOCATED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<bytes>{size})\s+is\s+allocated\s+by\s+PyTorch"));
static PRIVATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<bytes>{size})\s+allocated\s+in\s+private\s+pools"));
static IDLE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?P<bytes>{size})\s+is\s+reserved\s+by\s+PyTorch\s+but\s+unallocated")
});
/// From the backend cudaMallocAsync, over several lines.
static DRIVER_POOL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Allocation on device (?P<gpu>\d+) would exceed allowed memory\. \(out of memory\)(?:\s*(?:\\n)?\s*Currently allocated *: *(?P<allocated>{size}))?(?:\s*(?:\\n)?\s*Requested *: *(?P<asked>{size}))?(?:\s*(?:\\n)?\s*Device limit *: *(?P<total>{size}))?(?:\s*(?:\\n)?\s*Free \(according to CUDA\) *: *(?P<free>{size}))?(?:\s*(?:\\n)?\s*PyTorch limit \(set by user-supplied memory fraction\)\s*(?:\\n)?\s*: *(?P<limit>{size}))?",
    )
});
/// The exception without its text.
static SHORT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b(?:CUDA|HIP) out of memory\b|\btorch(?:\.cuda)?\.OutOfMemoryError\b|\bcuda runtime error \(2\) ?: out of memory",
    )
});

/// Where a message begins that goes on in the next lines, bytes.
pub fn goes_on(text: &str) -> Option<usize> {
    let begin = BEGIN.find(text).filter(|_| !is_whole(text));
    let begin = begin.or_else(|| BROKEN.find(text));
    let begin = begin.or_else(|| DRIVER_POOL.find(text).filter(|_| !is_whole(text)))?;
    Some(begin.start())
}

/// True if the end of a message is there.
pub fn is_whole(text: &str) -> bool {
    ["but unallocated", "by PyTorch)", "cached)", "ALLOC_CONF"]
        .iter()
        .any(|end| text.contains(end))
        || DRIVER_POOL
            .captures(text)
            .is_some_and(|found| found.name("limit").is_some())
}

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    let Some(begin) = BEGIN.captures(text) else {
        if let Some(found) = DRIVER_POOL.captures(text) {
            return Some(of_driver_pool(&found));
        }
        let short = SHORT.find(text)?;
        // vLLM words its own advice around it; a line of source text is no message.
        let is_source = text[..short.start()].contains("except ");
        if is_source || text[short.end()..].starts_with(" occurred when warming up") {
            return None;
        }
        let mut kind = Kind::Allocator;
        if !short.as_str().ends_with("Error") && !text.contains("OutOfMemory") {
            kind = Kind::ErrorCode;
        }
        return Some(Found::new(short.start(), Framework::PyTorch(None), kind));
    };
    let at = start(&begin);
    let end = begin.name("size").map_or(at, |size| size.end());
    // Another message may follow in a long line.
    let rest = &text[end..];
    let rest = &rest[..BEGIN.find(rest).map_or(rest.len(), |next| next.start())];
    let mut numbers = Numbers {
        // A shape that overflowed asks for any number.
        requested_bytes: size::any(&begin["size"]),
        ..Numbers::default()
    };
    let mut version = None;
    let mut own = None;
    if let Some(old) = OLD.captures(rest) {
        numbers.device = number(&old, "gpu");
        numbers.total_bytes = bytes(&old, "total");
        numbers.allocated_bytes = bytes(&old, "allocated");
        numbers.free_bytes = bytes(&old, "free");
        numbers.limit_bytes = bytes(&old, "allowed");
        let held = bytes(&old, "held");
        if &old["word"] == "reserved" {
            numbers.reserved_bytes = held;
            numbers.idle_bytes = held
                .zip(numbers.allocated_bytes)
                .map(|(held, used)| held.saturating_sub(used));
            // What a later version says has been seen beside it.
            version = Some(match rest.contains("max_split_size_mb") {
                true => Version(2, 0),
                false => Version(1, 9),
            });
        } else {
            // "cached" was what was idle up to 1.3; the sum of both since: the larger one tells.
            version = Some(Version(1, 3));
            match numbers.allocated_bytes.zip(held) {
                Some((used, held)) if held >= used => {
                    numbers.reserved_bytes = Some(held);
                    numbers.idle_bytes = Some(held - used);
                }
                _ => numbers.idle_bytes = held,
            }
        }
    } else {
        own = sentences(rest, &mut numbers);
        if rest.contains("PYTORCH_ALLOC_CONF") {
            version = Some(Version(2, 9));
        }
    }
    let mut found = Found::new(at, Framework::PyTorch(version), Kind::Allocator);
    found.facts.extend(own.map(say::taken_for_own));
    found.numbers = numbers;
    Some(found)
}

fn of_driver_pool(text: &Captures<'_>) -> Found {
    let mut found = Found::new(start(text), Framework::PyTorch(None), Kind::Allocator);
    found.numbers = Numbers {
        device: number(text, "gpu"),
        requested_bytes: bytes(text, "asked"),
        total_bytes: bytes(text, "total"),
        free_bytes: bytes(text, "free"),
        allocated_bytes: bytes(text, "allocated"),
        limit_bytes: bytes(text, "limit"),
        ..Numbers::default()
    };
    found.facts.push(say::FACT_DRIVER_POOL.to_owned());
    found
}

/// Reads them; the number of the listed process that is taken for this one.
fn sentences(text: &str, numbers: &mut Numbers) -> Option<u32> {
    let size = |pattern: &Regex| bytes(&pattern.captures(text)?, "bytes");
    if let Some(total) = TOTAL.captures(text) {
        numbers.device = number(&total, "gpu");
        numbers.total_bytes = bytes(&total, "total");
    }
    numbers.free_bytes = FREE.captures(text).and_then(|free| bytes(&free, "free"));
    numbers.limit_bytes = size(&ALLOWED);
    numbers.private_pool_bytes = size(&PRIVATE);
    numbers.idle_bytes = size(&IDLE);
    // The message adds what is idle in private pools to what is allocated.
    numbers.allocated_bytes = size(&ALLOCATED);
    numbers.reserved_bytes = numbers
        .allocated_bytes
        .zip(numbers.idle_bytes)
        .map(|(used, idle)| used.saturating_add(idle));
    numbers.others = OTHER
        .captures_iter(text)
        .filter_map(|other| {
            Some(Other {
                pid: number(&other, "pid")?,
                bytes: bytes(&other, "bytes")?,
            })
        })
        .collect();
    // Without a right to ask, NVML says nothing, and the message zero.
    let reserved = numbers.reserved_bytes.unwrap_or(0);
    numbers.process_bytes = size(&OWN).filter(|own| *own >= reserved);
    if OWN.is_match(text) {
        return None;
    }
    own_among_others(numbers)
}

/// In a container a process does not know itself by NVML's number, and is listed like the others: it is the smallest one that
/// has what the cache holds.
fn own_among_others(numbers: &mut Numbers) -> Option<u32> {
    let reserved = numbers.reserved_bytes.unwrap_or(0);
    let candidates = numbers.others.iter().enumerate();
    let own = candidates
        .filter(|(_, other)| other.bytes >= reserved && reserved > 0)
        .min_by_key(|(_, other)| other.bytes)
        .map(|(at, _)| at)?;
    let own = numbers.others.remove(own);
    numbers.process_bytes = Some(own.bytes);
    Some(own.pid)
}
