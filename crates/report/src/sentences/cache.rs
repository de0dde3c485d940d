//! What is said of a framework's cache.

use super::{phase_name, role};
use crate::cache::keys::{RoleSum, Segments, Tensors};
use crate::units::{bytes, count, duration};

/// What a cache holds and nobody uses, in a table of roles.
pub const IDLE_IN_CACHE: &str = "idle in the framework's cache";
/// What a cache held at the device's peak beyond the blocks of its own peak, in a table of roles.
pub const BEYOND_BLOCKS: &str = "held by the cache beyond these blocks";
/// What is beside a cache, in a table of roles.
pub const BESIDE_CACHE: &str = "allocations beside the cache";
/// Under a table of roles.
pub const ROLES_ARE_ESTIMATES: &str = "roles are estimated from stacks and lifetimes; blocks are counted at the cache's own peak, the rest at the device's";
/// Before the cache's figures.
pub const CACHE: &str = "cache    ";
/// Before what lies beside the cache.
pub const BESIDE: &str = "beside   ";
/// Before what blocks are for.
pub const ROLES: &str = "for      ";

/// `9.8 GiB idle in 41 segments, largest hole 812.0 MiB`.
#[must_use]
pub fn idle(idle: u64, segments: &Segments) -> String {
    if idle == 0 {
        return "nothing idle".to_owned();
    }
    format!(
        "{} idle in {}, largest hole {}",
        bytes(idle),
        super::plural(segments.idle_in, "segment"),
        bytes(segments.largest_hole_bytes)
    )
}

/// `PyTorch held 270.0 MiB at most; at the end 184.0 MiB, 20.7 MiB idle in 3 segments, largest hole 8.0 MiB`.
#[must_use]
pub fn held_by_cache(tensors: &Tensors, is_running: bool) -> String {
    let held = format!(
        "PyTorch held {} at most",
        bytes(tensors.reserved_peak_bytes)
    );
    match &tensors.segments {
        Some(segments) if tensors.reserved_bytes > 0 => format!(
            "{held}; {} {}, {}",
            if is_running { "now" } else { "at the end" },
            bytes(tensors.reserved_bytes),
            idle(tensors.idle_bytes, segments)
        ),
        _ => held,
    }
}

/// `Allocated peak 228.8 MiB inside PyTorch's cache`.
#[must_use]
pub fn allocated_peak(tensors: &Tensors) -> String {
    format!(
        "Allocated {} at most inside PyTorch's cache",
        bytes(tensors.allocated_peak_bytes)
    )
}

/// `at 3.2 s, block 1,234`, `at 3.2 s in backward (7)`.
#[must_use]
pub fn allocated_when(tensors: &Tensors) -> String {
    let peak = &tensors.peak;
    let when = duration(peak.time_ns);
    match &peak.phase {
        Some(phase) if peak.round > 1 => {
            format!("at {when} in {} ({})", phase_name(phase), peak.round)
        }
        Some(phase) => format!("at {when} in {}", phase_name(phase)),
        None => format!("at {when}, block {}", count(peak.event)),
    }
}

/// `activations 233.0 MiB, optimizer state 144.3 MiB, weights 73.2 MiB (estimated)`.
#[must_use]
pub fn roles(sums: &[RoleSum]) -> Option<String> {
    let mut sums: Vec<&RoleSum> = sums.iter().filter(|sum| sum.bytes > 0).collect();
    if sums.len() < 2 {
        return None;
    }
    sums.sort_by_key(|sum| std::cmp::Reverse(sum.bytes));
    let parts: Vec<String> = sums
        .iter()
        .map(|sum| format!("{} {}", role(sum.role), bytes(sum.bytes)))
        .collect();
    Some(format!("{} (estimated)", parts.join(", ")))
}

/// What the cache held when memory ran out.
#[must_use]
pub fn cache_then(
    asked: Option<u64>,
    reserved: u64,
    allocated: u64,
    idle_bytes: u64,
    segments: &Segments,
) -> String {
    let asked = asked.map_or_else(String::new, |asked| format!("asked {}; ", bytes(asked)));
    format!(
        "{asked}PyTorch held {}, handed out {}, {}",
        bytes(reserved),
        bytes(allocated),
        idle(idle_bytes, segments)
    )
}

/// Title of what was handed out when memory ran out.
#[must_use]
pub fn handed_out_then(allocated: u64) -> String {
    format!("Handed out then {}", bytes(allocated))
}

/// What the cache holds at the end, in the table of what lives.
#[must_use]
pub fn cached_at_end(held: u64, number: u64) -> String {
    format!(
        "{} in {} that PyTorch keeps for later",
        bytes(held),
        super::blocks(number)
    )
}
