//! What the program was told differently: it wanted to be tested.

use super::gpu;
use crate::capacity::settings::{CAPACITY, FAIL_NTH};
use crate::units::bytes;

/// A device was made to look smaller.
#[must_use]
pub fn pretended(device: u32, pretended: u64, real: u64) -> String {
    format!(
        "{CAPACITY}: {} was pretended to have {} (it has {})",
        gpu(Some(device)),
        bytes(pretended),
        bytes(real)
    )
}

/// A device is smaller than it was to look.
#[must_use]
pub fn nothing_pretended(device: u32, wanted: u64, real: u64) -> String {
    format!(
        "{CAPACITY}: nothing was pretended of {}, which has {}, no more than {}",
        gpu(Some(device)),
        bytes(real),
        bytes(wanted)
    )
}

/// An allocation failed by order. (If the one that was ordered was made past all doors, the next one failed.)
#[must_use]
pub fn made_to_fail(ordered: u64, number: u64) -> String {
    format!("{FAIL_NTH}={ordered}: allocation {number} was made to fail")
}

/// True for the note that [`made_to_fail`] makes.
#[must_use]
pub fn says_made_to_fail(note: &str) -> bool {
    note.strip_prefix(FAIL_NTH)
        .is_some_and(|rest| rest.starts_with('='))
}

/// The order was not reached.
#[must_use]
pub fn none_made_to_fail(ordered: &str) -> String {
    format!("{FAIL_NTH}={ordered}: no allocation was made to fail, since there were fewer")
}
