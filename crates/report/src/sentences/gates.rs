//! What is said of gates and of baselines.

use super::*;

/// Nothing to gate on.
pub const GATE_NO_DATA: &str =
    "no data: no CUDA allocation was recorded, so there is nothing to judge (this never passes)";
/// Something could not be judged.
pub const GATE_UNJUDGED: &str = "cannot be judged (this never passes)";

/// The baseline is of something else.
pub const GATE_NOTHING_COMPARED: &str =
    "no process of this run has a counterpart in the baseline: write it anew with --write-baseline";
/// All gates passed.
pub const GATE_PASSED: &str = "passed";

/// A gate failed.
pub const GATE_FAILED: &str = "FAILED";

/// Metric of the gates.
pub const METRIC_DEVICE: &str = "device";

/// `peak of device bytes 300.0 MiB <= limit 306.0 MiB`.
#[must_use]
pub fn gate_limit(what: &str, value: u64, limit: u64, passed: bool) -> String {
    let sign = if passed { "<=" } else { ">" };
    let exact = if bytes(value) == bytes(limit) {
        format!(" ({} {sign} {} bytes)", count(value), count(limit))
    } else {
        String::new()
    };
    format!("{what} {} {sign} {}{exact}", bytes(value), bytes(limit))
}

/// Names of the gates.
pub mod gate {
    /// Peak against a limit.
    pub const MAX_PEAK: &str = "peak";
    /// What is live at exit.
    pub const MAX_LIVE: &str = "live at exit";
    /// Peak against the baseline.
    pub const BASELINE: &str = "peak against the baseline";
    /// Leaks.
    pub const LEAK: &str = "leaks";
}

/// Leak gate.
#[must_use]
pub fn gate_leaks(size: u64, passed: bool) -> String {
    if passed {
        "no leak".to_owned()
    } else {
        format!("leaked {}", bytes(size))
    }
}

/// The worst is not the only one.
#[must_use]
pub fn gate_failed_of(failed: usize) -> String {
    format!("the worst of {} that failed", count(failed as u64))
}

/// What grew since the baseline.
#[must_use]
pub fn gate_grew(before: u64, after: u64) -> String {
    if before == 0 {
        format!("+{} (new)", bytes(after))
    } else {
        format!(
            "+{} ({} -> {})",
            bytes(after - before),
            bytes(before),
            bytes(after)
        )
    }
}

/// The baseline has nothing on this process.
#[must_use]
pub fn gate_no_counterpart(pid: u32, of_rank: Option<u32>, program: &str) -> String {
    let who = of_rank.map_or_else(|| format!("pid {pid}"), rank);
    format!("the baseline has no process to compare {who} ({program}) with: it was not compared")
}

/// A process of the baseline is not there.
#[must_use]
pub fn gate_missing(program: &str, of_rank: Option<u32>) -> String {
    let of_rank = of_rank.map_or_else(String::new, |number| format!(", {}", rank(number)));
    format!("{program}{of_rank} is in the baseline and not in this run")
}

/// What is live at the exit of a process that has none is not known.
#[must_use]
pub fn gate_no_exit(report: &Report) -> String {
    format!(
        "{}: {}, so what is live at exit is not known",
        process(report.process.pid, &report.process.host),
        how_it_stands(report)
    )
}

/// What a process that has not ended by itself is judged by.
#[must_use]
pub fn gate_not_ended(report: &Report) -> String {
    format!(
        "{}: {}; it was judged by what was recorded until then (event {})",
        process(report.process.pid, &report.process.host),
        how_it_stands(report),
        count(report.totals.allocs)
    )
}

fn how_it_stands(report: &Report) -> String {
    match (report.process.end, report.process.signal) {
        (ProcessEnd::Running, _) => "still running".to_owned(),
        (ProcessEnd::Signal, Some(number)) => format!("ended by {}", signal(number)),
        (ProcessEnd::Signal, None) => "ended by a signal".to_owned(),
        (ProcessEnd::Exec, _) => "replaced by exec".to_owned(),
        _ => "its trace ends early (the process was killed or the file was cut)".to_owned(),
    }
}

/// A damaged trace proves nothing.
#[must_use]
pub fn gate_damaged(report: &Report) -> String {
    format!(
        "{}: its trace is damaged, and what is lost of it may have been above the limits",
        process(report.process.pid, &report.process.host)
    )
}

/// The baseline was made elsewhere.
#[must_use]
pub fn gate_other_machine(then: &str, now: &str) -> String {
    format!("the baseline was made on {then}, this is {now}: peaks may differ for that reason")
}

/// Some processes had nothing to judge.
#[must_use]
pub fn gate_without_data(number: usize) -> String {
    match number {
        1 => "1 process allocated no CUDA memory and was not judged".to_owned(),
        _ => format!(
            "{} processes allocated no CUDA memory and were not judged",
            count(number as u64)
        ),
    }
}

/// Nothing is known of a process.
#[must_use]
pub fn gate_lost(report: &Report) -> String {
    format!(
        "{}: it ended within moments of its first CUDA call, nothing is known of it and it was not judged",
        process(report.process.pid, &report.process.host)
    )
}

/// The baseline is on disk.
#[must_use]
pub fn baseline_written(path: &str) -> String {
    format!("baseline written to {path}: commit it, and check with --baseline {path}")
}
