//! What is said of the program's own output.

use super::*;
use crate::log::keys::{LogJump, LogLine};

/// Leads to a line of the program's.
pub const SAID: &str = "said     ";

/// Leads to the step at which memory jumped.
pub const JUMP: &str = "jump     ";

/// A line of the program's, as it is quoted.
#[must_use]
pub fn said(line: &LogLine) -> String {
    let text = line.text.trim_start();
    if line.late {
        format!("(some time before) {text}")
    } else {
        text.to_owned()
    }
}

/// `peak rose from 9.1 GiB to 17.8 GiB where seq_len went 1024 → 2048 (step 1282)`.
#[must_use]
pub fn jump(jump: &LogJump) -> String {
    let (from, to) = (bytes(jump.from_bytes), bytes(jump.to_bytes));
    let rose = if jump.out_of_memory {
        format!("what was needed rose from {from} to {to}")
    } else {
        format!("peak rose from {from} to {to}")
    };
    let keys: Vec<String> = jump
        .keys
        .iter()
        .map(|key| format!("{} went {} \u{2192} {}", key.key, key.before, key.after))
        .collect();
    let step = jump
        .step
        .as_ref()
        .map(|step| format!("{} {}", step.key, step.number));
    match (keys.is_empty(), step) {
        (false, Some(step)) => format!("{rose} where {} ({step})", keys.join(" and ")),
        (false, None) => format!("{rose} where {}", keys.join(" and ")),
        (true, Some(step)) => format!("{rose} at {step}"),
        (true, None) => rose,
    }
}
