//! What speaks for a cause, in sentences. Each number stands in the report as well.

use super::{blocks, count, plural};
use crate::cache::keys::RisingSite;
use crate::diagnosis::Cause;
use crate::roles::Role;
use crate::units::{bytes, percent};
use oomhook_trace::record::Other;

/// Title of what would have become a failure.
pub const FOUND: &str = "Still growing at the end";
/// Before the cause.
pub const WHY: &str = "why      ";
/// Before what helps.
pub const DO: &str = "do       ";
/// Before other causes.
pub const ALSO: &str = "also     ";

/// `memory that stays referenced, at train.py:88 step`.
#[must_use]
pub fn cause_at(cause: Cause, place: Option<&str>) -> String {
    match place {
        // What cannot be told is nobody's.
        _ if cause == Cause::NotClear => cause.title().to_owned(),
        Some(place) => format!("{}: {place}", cause.title()),
        None => cause.title().to_owned(),
    }
}

/// What a role is called.
#[must_use]
pub fn role(role: Role) -> &'static str {
    match role {
        Role::Weights => "weights",
        Role::Gradients => "gradients",
        Role::OptimizerState => "optimizer state",
        Role::Activations => "activations",
        Role::Workspace => "workspace",
        Role::Other => "other",
    }
}

/// The host was asked.
#[must_use]
pub fn asks_the_host(asked: &str) -> String {
    format!("{asked}: that is memory of the host")
}

/// Others have it.
#[must_use]
pub fn others_have(others: u64, total: u64, who: &[Other], would_be_free: u64) -> String {
    format!(
        "other processes hold {} of {}{}; without them {} would have been free",
        bytes(others),
        bytes(total),
        super::account::names(who, others),
        bytes(would_be_free)
    )
}

/// One request is too large.
#[must_use]
pub fn more_than_there_is(asked: u64, total: u64) -> String {
    format!(
        "{} were asked for, {} is all there is",
        bytes(asked),
        bytes(total)
    )
}

/// Weights and what belongs to them.
#[must_use]
pub fn stays(sums: &[(Role, u64)], held: u64) -> String {
    let parts: Vec<String> = sums
        .iter()
        .filter(|(_, size)| *size > 0)
        .map(|(of, size)| format!("{} {}", role(*of), bytes(*size)))
        .collect();
    let sum = sums.iter().map(|(_, size)| *size).sum();
    format!(
        "{}: {} of {} handed out stay from step to step (estimated from stacks)",
        parts.join(", "),
        percent(sum, held),
        bytes(held)
    )
}

/// What would have been in use.
#[must_use]
pub fn wanted(wanted: u64, total: u64) -> String {
    format!(
        "with what was asked for {} of {}",
        bytes(wanted),
        bytes(total)
    )
}

/// PyTorch keeps to a limit that it was given.
#[must_use]
pub fn own_limit(limit: u64) -> String {
    format!(
        "the driver refused nothing: PyTorch's cache keeps to a limit of its own, and holds {}",
        bytes(limit)
    )
}

/// A program that takes little more than a few blocks.
#[must_use]
pub fn few_blocks(number: u64, sum: u64, place: &str, of_place: u64) -> String {
    format!(
        "{} in {} that were never freed, {} of it from {place}",
        bytes(sum),
        blocks(number),
        bytes(of_place)
    )
}

/// Still loading.
#[must_use]
pub fn nothing_went(allocs: u64, frees: u64, size: u64, held: u64, place: &str) -> String {
    let frees = match frees {
        0 => "none was freed".to_owned(),
        some => format!("{} were freed", count(some)),
    };
    format!(
        "{} came and {frees}: {} of {} from {place}",
        blocks(allocs),
        bytes(size),
        bytes(held)
    )
}

/// Idle, but in pieces.
#[must_use]
pub fn idle_in_pieces(asked: u64, idle: u64, segments: u64, hole: u64) -> String {
    format!(
        "asked {}; {} idle in {}, largest hole {}",
        bytes(asked),
        bytes(idle),
        plural(segments, "segment"),
        bytes(hole)
    )
}

/// Who keeps them.
#[must_use]
pub fn pinned(segments: u64, idle: u64, place: &str) -> String {
    format!(
        "blocks of {place} keep {} with {} idle from being given back",
        plural(segments, "segment"),
        bytes(idle)
    )
}

/// A library found nothing beside the cache.
#[must_use]
pub fn starved(reserved: u64, total: u64, idle: u64, asked: &str) -> String {
    format!(
        "PyTorch's cache holds {} of {}, {} of it idle; {asked} beside it",
        bytes(reserved),
        bytes(total),
        bytes(idle)
    )
}

/// A site that rises.
#[must_use]
pub fn rose(site: &RisingSite) -> String {
    let since = if site.late {
        "in the second half"
    } else {
        "after the first quarter"
    };
    let larger = if site.larger_blocks {
        ", in ever larger blocks"
    } else {
        ""
    };
    format!(
        "{} rose by {} {since} of the run, in {} of its {} parts{larger}",
        site.of.line(),
        bytes(site.rise_bytes),
        count(site.steps),
        count(site.of_slots)
    )
}

/// All that rises.
#[must_use]
pub fn rose_in_all(rise: u64, held: u64) -> String {
    format!(
        "with others that rise along with it {}: {} of what lives",
        bytes(rise),
        percent(rise, held)
    )
}

/// What a step leaves behind.
#[must_use]
pub fn left_behind(per_mark: u64, instances: u64, place: &str) -> String {
    format!(
        "each of {} phases left {} behind, most of it from {place}",
        count(instances),
        bytes(per_mark)
    )
}

/// A share taken up front.
#[must_use]
pub fn reserved(size: u64, number: u64, total: u64, place: &str, asked: u64) -> String {
    format!(
        "{place} took {} in {} and keeps it, {} of all there is; {} found no room beside it",
        bytes(size),
        blocks(number),
        percent(size, total),
        bytes(asked)
    )
}

/// What lives for a step.
#[must_use]
pub fn activations(sum: u64, wanted: u64, largest: u64, place: &str) -> String {
    format!(
        "activations are {} of {} with what was asked for (estimated from stacks), {} of them from {place}",
        bytes(sum),
        bytes(wanted),
        bytes(largest)
    )
}

/// More than ever before.
#[must_use]
pub fn jumped(before: u64, now: u64, place: &str) -> String {
    format!(
        "{place} held at most {} before, {} this time",
        bytes(before),
        bytes(now)
    )
}

/// What no allocation explains.
#[must_use]
pub fn beside_allocations(sum: u64, total: u64, parts: &[(&str, u64)]) -> String {
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, size)| format!("{} {}", super::ledger_name(name), bytes(*size)))
        .collect();
    format!(
        "{} of {} are no allocations: {}",
        bytes(sum),
        bytes(total),
        parts.join(", ")
    )
}

/// Few blocks, each larger than the one that it replaces.
#[must_use]
pub fn ever_larger(number: u64, place: &str) -> String {
    format!(
        "the {} of {place} become larger and larger, as a cache of keys and values or a list does that is copied into a larger one: \
         give it a bound, or its full size at once",
        blocks(number)
    )
}

/// All that can be said.
#[must_use]
pub fn largest_of(size: u64, held: u64, place: &str) -> String {
    format!(
        "most is held by {place}: {} of {}",
        bytes(size),
        bytes(held)
    )
}
