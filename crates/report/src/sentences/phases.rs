//! What is said of the phases of a program.

use crate::phases::keys::Phase;
use crate::units::{bytes, count};
use oomhook_ledger::phases::MOST_PHASES;

/// Title of the section.
pub const PHASES: &str = "Phases";

/// Outside of all phases.
pub const NO_PHASE: &str = "outside of all phases";

/// In one of those that are not told apart any more.
#[must_use]
pub fn beyond_phases() -> String {
    format!("in phases beyond the first {}", count(MOST_PHASES as u64))
}

/// There are too many phases; so many ranges and rounds were of others than those that are told.
#[must_use]
pub fn too_many_phases(beyond: u64) -> String {
    format!(
        "{} of phases beyond the first {} are not told apart: names that differ in numbers only are one phase, others are not",
        super::plural(beyond, "instance"),
        count(MOST_PHASES as u64)
    )
}

/// How many there are, and which layer their figures are of.
#[must_use]
pub fn phases_of(number: usize, inside_cache: bool) -> String {
    let inside = if inside_cache {
        ", bytes inside PyTorch's cache"
    } else {
        ""
    };
    format!("{}{inside}", super::plural(number as u64, "name"))
}

/// Leads to the phases in which memory ran out.
pub const PHASE: &str = "phase    ";

/// `step 17, forward`: each lies in the one before it.
#[must_use]
pub fn in_phases(outermost_first: &[String]) -> String {
    let names = outermost_first.iter();
    let names: Vec<String> = names.map(|name| phase_name(name)).collect();
    names.join(", ")
}

/// A phase's name, as texts show it.
#[must_use]
pub fn phase_name(name: &str) -> String {
    // The name of a domain stands before that of its range.
    let is_unnamed = name.is_empty() || name.ends_with(": ");
    let unnamed = if is_unnamed { "(unnamed)" } else { "" };
    format!("{name}{unnamed}")
}

/// `1.2 GiB at most in step #, 12 times, reached in step 7`; of the layer inside a cache or of the driver's.
#[must_use]
pub fn phase(phase: &Phase, inside_cache: bool) -> String {
    let (height, round, name) = match (inside_cache, phase.tensors_peak_bytes) {
        (true, height) => (
            height.unwrap_or(0),
            phase.tensors_peak_round.unwrap_or(0),
            phase.tensors_peak_name.as_ref(),
        ),
        (false, _) => (phase.peak_bytes, phase.peak_round, phase.peak_name.as_ref()),
    };
    let mut text = format!(
        "{:>10} at most in {}",
        bytes(height),
        phase_name(&phase.name)
    );
    let lasts = round > phase.count;
    let is_mark = phase.kind == "mark";
    // A mark that has not come is none.
    let times = phase.count + if is_mark { 0 } else { phase.lasting };
    if times > 1 {
        text.push_str(&format!(", {} times", count(times)));
    }
    if is_mark && lasts {
        text.push_str(", reached after the last one");
    } else if times > 1 {
        match name.filter(|name| **name != phase.name) {
            Some(name) => text.push_str(&format!(", reached in {name}")),
            None if round > 0 => {
                text.push_str(&format!(", reached the {} time", ordinal(round)));
            }
            None => {}
        }
    }
    if lasts && !is_mark {
        text.push_str(", still open");
    }
    text
}

/// `1st`, `2nd`, `13th`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{}{ending}", count(number))
}

/// What each instance leaves behind.
#[must_use]
pub fn leaves_behind(per_mark: u64, place: &str) -> String {
    format!(
        "           each leaves {} behind, most of it from {place}",
        bytes(per_mark)
    )
    .trim_start()
    .to_owned()
}
