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

/// How many there are.
#[must_use]
pub fn phases_of(number: usize) -> String {
    super::plural(number as u64, "name")
}

/// `1.2 GiB at most in step # (12 times), in step 7`.
#[must_use]
pub fn phase(phase: &Phase, height: u64) -> String {
    let mut text = format!("{:>10} at most in {}", bytes(height), phase.name);
    if phase.count > 1 {
        text.push_str(&format!(", {} times", count(phase.count)));
        let (round, name) = match phase.tensors_peak_bytes {
            Some(_) => (phase.tensors_peak_round, phase.tensors_peak_name.as_ref()),
            None => (Some(phase.peak_round), phase.peak_name.as_ref()),
        };
        match (name.filter(|name| **name != phase.name), round) {
            (Some(name), _) => text.push_str(&format!(", reached in {name}")),
            (None, Some(round)) if round > 0 => {
                text.push_str(&format!(", reached the {} time", ordinal(round)));
            }
            _ => {}
        }
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
