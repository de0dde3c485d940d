//! Every sentence a user reads, in one place. Plain words, no jargon of ours.

use crate::pretended::failed_by_order;
use crate::schema::{Oom, ProcessEnd, Report};
use crate::units::{bytes, count, duration};
use oomhook_ledger::Ledger;
use oomhook_ledger::oom::Class;
use oomhook_trace::record::Object;

mod account;
mod advice;
mod cache;
mod evidence;
mod failures;
mod gates;
mod held;
mod log;
mod names;
mod notes;
mod phases;
mod pretended;
mod tables;
pub use account::*;
pub use advice::*;
pub use cache::*;
pub use evidence::*;
pub use failures::*;
pub use gates::*;
pub use held::freed_while_open;
pub use log::*;
pub use names::*;
pub use notes::*;
pub use phases::*;
pub use pretended::*;
pub use tables::*;

/// `1 block`, `2 blocks`.
#[must_use]
pub fn blocks(number: u64) -> String {
    plural(number, "block")
}

/// `1 thing`, `2 things`.
#[must_use]
pub fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// `2.0 MiB`, `about 2.0 MiB`.
#[must_use]
pub fn or_about(size: u64, estimated: bool) -> String {
    let about = if estimated { "about " } else { "" };
    format!("{about}{}", bytes(size))
}

/// `GPU 0`.
#[must_use]
pub fn gpu(device: Option<u32>) -> String {
    match device {
        Some(number) => format!("GPU {number}"),
        None => "an unknown GPU".to_owned(),
    }
}

/// Headline of a leak, without its site.
#[must_use]
pub fn headline_leak(growing: bool, size: u64, number: u64) -> String {
    let kind = if growing { "growing leak" } else { "leak" };
    format!("{kind}: {} in {}", bytes(size), blocks(number))
}

/// Leads to the only site.
pub const FROM: &str = " from ";

/// Leads to the largest of several sites.
pub const MOST_FROM: &str = ", most from ";

/// `SIGTERM`; `signal 40` where it has no name.
#[must_use]
pub fn signal(number: u8) -> String {
    // The numbers of Linux on x86-64 and aarch64.
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::from(number)
        .checked_sub(1)
        .and_then(|at| NAMES.get(at));
    name.map_or_else(|| format!("signal {number}"), |name| format!("SIG{name}"))
}

/// The process has not ended.
const STILL_RUNNING: &str = "still running";

/// The process is gone, and has not said how.
const NO_END: &str = "ended without a closing record (killed?)";

/// Headline of a process that was cut short.
#[must_use]
pub fn headline_cut_short(end: ProcessEnd, by: Option<u8>, live: u64, number: u64) -> String {
    let how = match (end, by) {
        (ProcessEnd::Signal, Some(number)) => format!("ended by {}", signal(number)),
        (ProcessEnd::Signal, None) => "ended by a signal".to_owned(),
        (ProcessEnd::Running, _) => STILL_RUNNING.to_owned(),
        (ProcessEnd::Exec, _) => "replaced by exec".to_owned(),
        _ => NO_END.to_owned(),
    };
    format!("{how}, {} live in {}", bytes(live), blocks(number))
}

/// Headline of a process without a leak.
pub const NO_LEAK: &str = "no leak";

/// Nothing leaked, and what lives all the same.
#[must_use]
pub fn no_leak(caches: bool, at_exit: bool, graphs: bool) -> String {
    let live = [
        (caches, "caches"),
        (graphs, "what the driver keeps for graphs"),
        (at_exit, "what was made during exit"),
    ];
    let live: Vec<&str> = live
        .into_iter()
        .filter(|one| one.0)
        .map(|one| one.1)
        .collect();
    match live.as_slice() {
        [] => NO_LEAK.to_owned(),
        ["caches"] => format!("{NO_LEAK} (only caches are live)"),
        [one] => format!("{NO_LEAK} (only {one} is live)"),
        [first, others @ ..] => {
            format!(
                "{NO_LEAK} (only {first}, and {}, are live)",
                others.join(", and ")
            )
        }
    }
}

/// Headline of a process that allocated nothing.
#[must_use]
pub fn no_data(report: &Report) -> &'static str {
    match report.process.end {
        ProcessEnd::Running => "no CUDA memory was allocated so far",
        ProcessEnd::Unfinished if !report.complete => {
            "the process ended within moments of its first CUDA call: nothing is known"
        }
        _ => "no CUDA memory was allocated",
    }
}

/// `peak 277.7 MiB on GPU 0`.
#[must_use]
pub fn peak_of(peak: u64, device: Option<u32>) -> String {
    format!("peak {} on {}", bytes(peak), gpu(device))
}

/// `3 bad frees`.
#[must_use]
pub fn bad_frees(number: u64) -> String {
    plural(number, "bad free")
}

/// `once`, `3 times`.
#[must_use]
pub fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        _ => format!("{} times", count(number)),
    }
}

/// How the process ended.
#[must_use]
pub fn end(report: &Report) -> String {
    let process = &report.process;
    match process.end {
        ProcessEnd::Exit | ProcessEnd::ImmediateExit => match process.exit_code {
            Some(code) => format!("exit code {code}"),
            None => "ended".to_owned(),
        },
        ProcessEnd::Signal => match process.signal {
            Some(number) => signal(number),
            None => "a signal".to_owned(),
        },
        ProcessEnd::Exec => "exec".to_owned(),
        ProcessEnd::Unfinished => NO_END.to_owned(),
        ProcessEnd::Running => STILL_RUNNING.to_owned(),
    }
}

/// `pid 4242 on node7`.
#[must_use]
pub fn process(pid: u32, host: &str) -> String {
    if host.is_empty() {
        format!("pid {pid}")
    } else {
        format!("pid {pid} on {host}")
    }
}

/// `rank 3`.
#[must_use]
pub fn rank(rank: u32) -> String {
    format!("rank {rank}")
}

/// `14 allocs, 12 frees`.
#[must_use]
pub fn calls(report: &Report) -> String {
    let nodes = match report.graphs.alloc_nodes {
        0 => String::new(),
        number => format!(", {}", plural(number, "allocating graph node")),
    };
    format!(
        "{}, {}{nodes}",
        plural(report.totals.allocs, "alloc"),
        plural(report.totals.frees, "free")
    )
}

/// Why sites have no names.
#[must_use]
pub fn why_unknown(stacks: Option<&str>, depth: Option<&str>) -> Option<String> {
    if stacks.is_some_and(|stacks| !stacks.split(',').any(|word| word.trim() == "native")) {
        let stacks = stacks.unwrap_or_default();
        return Some(format!(
            "OOMHOOK_STACKS={stacks}: native frames were not taken, so sites are unknown where nothing else is there; unset it to see them"
        ));
    }
    let depth = depth.filter(|depth| depth.parse().is_ok_and(|frames: u32| frames < 16))?;
    Some(format!(
        "OOMHOOK_DEPTH={depth}: stacks end before the caller, so sites are unknown; unset it to see them"
    ))
}

/// Title of the peak's section.
#[must_use]
pub fn peak_title(peak: u64, device: Option<u32>, name: &str, total: u64) -> String {
    let mut text = format!("Peak {} on {}", bytes(peak), gpu(device));
    let total = (total > 0).then(|| bytes(total));
    match (name.is_empty(), total) {
        (true, None) => {}
        (true, Some(total)) => text.push_str(&format!(" ({total})")),
        (false, None) => text.push_str(&format!(" ({name})")),
        (false, Some(total)) => text.push_str(&format!(" ({name}, {total})")),
    }
    text
}

/// `at 3.2 s, allocation 1,234`.
#[must_use]
pub fn peak_when(time_ns: u64, event: u64) -> String {
    match event {
        // A launch of a graph.
        0 => format!("at {}", duration(time_ns)),
        _ => format!("at {}, allocation {}", duration(time_ns), count(event)),
    }
}

/// Column titles.
pub mod column {
    /// Bytes.
    pub const BYTES: &str = "bytes";
    /// Share.
    pub const SHARE: &str = "share";
    /// Blocks.
    pub const BLOCKS: &str = "blocks";
    /// Class of a leak.
    pub const CLASS: &str = "kind";
    /// Call.
    pub const CALL: &str = "call";
    /// Site.
    pub const WHERE: &str = "where";
}

/// What a table does not show.
#[must_use]
pub fn more_sites(sites: usize, size: Option<u64>) -> String {
    let sites = plural(sites as u64, "more site");
    match size {
        Some(size) => format!("{} in {sites}", bytes(size)),
        None => format!("and {sites}"),
    }
}

/// Title of what is left.
#[must_use]
pub fn live_title(end: ProcessEnd) -> &'static str {
    match end {
        ProcessEnd::Running => "Live now",
        ProcessEnd::Exit | ProcessEnd::ImmediateExit => "Live at exit",
        ProcessEnd::Signal | ProcessEnd::Exec | ProcessEnd::Unfinished => "Live at the end",
    }
}

/// `2.0 MiB in 2 blocks`.
#[must_use]
pub fn amount(size: u64, number: u64) -> String {
    format!("{} in {}", bytes(size), blocks(number))
}

/// Names of the lines that are not device memory.
#[must_use]
pub fn memory_line(space: &str) -> &'static str {
    match space {
        "managed" => "Managed memory",
        "pinned" => "Pinned host memory",
        "registered" => "Registered host memory",
        "imported" => "Imported memory",
        _ => "Reserved addresses",
    }
}

/// `0 B live, 32.0 GiB peak`.
#[must_use]
pub fn live_and_peak(live: u64, peak: u64) -> String {
    format!("{} live, {} peak", bytes(live), bytes(peak))
}

/// Title of what went without a free.
#[must_use]
pub fn released_title(by_reset: bool) -> &'static str {
    if by_reset {
        "Released by reset"
    } else {
        "Released with a context"
    }
}

/// Title of the section on frees.
pub const BAD_FREES: &str = "Bad frees";

/// Counter names of the anomalies.
pub mod anomaly {
    /// Never seen.
    pub const UNKNOWN: &str = "of an unknown address";
    /// Freed before.
    pub const DOUBLE: &str = "double free";
    /// Inside a block.
    pub const INTERIOR: &str = "inside a block";
    /// Refused.
    pub const FAILED: &str = "refused by the driver";
    /// Gone with a reset.
    pub const AFTER_RESET: &str = "after a reset or context destroy";
    /// Registered already.
    pub const REGISTER: &str = "registered twice";
}

/// One bad free in a line.
#[must_use]
pub fn bad_free(
    kind: oomhook_ledger::anomalies::Kind,
    call: &str,
    address: &str,
    site: &str,
) -> String {
    use oomhook_ledger::anomalies::Kind;
    let what = match kind {
        Kind::UnknownFree => "unknown address",
        Kind::DoubleFree => "double free",
        Kind::InteriorFree => "address inside a block",
        Kind::CrossApiFree => "freed by another API than allocated",
        Kind::FailedFree => "free refused",
        Kind::FreeAfterReset => "free after reset",
        Kind::FailedRegister => "registered twice",
    };
    format!("{what}: {call}({address}) by {site}")
}

/// Where the block of a bad free came from.
#[must_use]
pub fn allocated_by(size: u64, site: &str) -> String {
    format!("the block of {} is from {site}", bytes(size))
}

/// Who had freed it.
#[must_use]
pub fn freed_by(site: &str) -> String {
    format!("it was freed by {site}")
}

/// Mark before a note.
pub const NOTE: &str = "note: ";

/// Mark before the next command.
pub const NEXT: &str = "next: ";

/// More notes than are shown.
#[must_use]
pub fn more_notes(number: usize) -> String {
    format!("{} (--json has all)", plural(number as u64, "more note"))
}

/// The trace has no closing record.
#[must_use]
pub fn ends_early(event: u64) -> String {
    format!(
        "trace ends early at event {event}: the process was killed or the file was cut; what came later is unknown"
    )
}

/// A running process that was asked for its latest events, and has not brought its file up to date.
#[must_use]
pub fn no_answer(pid: u32, waited_ns: u64) -> String {
    format!(
        "process {pid} did not answer within {} (stopped, or its disk stands still?): this is what its trace held",
        duration(waited_ns)
    )
}

/// Part of the trace cannot be read.
#[must_use]
pub fn damaged(what: &str) -> String {
    format!("the trace is damaged: {what}")
}

/// Old events are gone, by design.
#[must_use]
pub fn starts_late(segments: u32) -> String {
    let which = match segments {
        1 => "first segment of the trace is".to_owned(),
        _ => format!("first {segments} segments of the trace are"),
    };
    format!("the {which} gone (OOMHOOK_KEEP); totals, peak and leaks are complete")
}

/// Leaks that were left out.
#[must_use]
pub fn suppressed(size: u64, number: u64) -> String {
    format!("{} suppressed", amount(size, number))
}

/// The next command, in a line.
#[must_use]
pub fn next_after(command: &str) -> String {
    format!("{NEXT}{command}\n")
}

/// A thread by name; several may have one.
#[must_use]
pub fn thread(name: &str, tid: u32) -> String {
    format!("{name} (tid {tid})")
}

/// Memory of several devices in one line.
#[must_use]
pub fn on_gpus(number: usize) -> String {
    format!("on {number} GPUs (peaks summed)")
}

/// Devices without a line of their own.
#[must_use]
pub fn more_devices(number: usize, highest: u64) -> String {
    format!(
        "{} with peaks up to {}",
        plural(number as u64, "more GPU"),
        bytes(highest)
    )
}

/// What a grouped table does not show.
#[must_use]
pub fn more_rows(rows: usize, size: u64) -> String {
    format!(
        "{} in {} (--top shows more)",
        bytes(size),
        plural(rows as u64, "more row")
    )
}

/// Frames that a table of stacks does not show.
#[must_use]
pub fn folded(frames: usize) -> String {
    format!(
        "{} of the interpreter folded (--all-frames shows them)",
        plural(frames as u64, "frame")
    )
}

/// Stands in a stack for Python frames that were left out.
#[must_use]
pub fn left_out(frames: u64) -> String {
    if frames == 0 {
        return "... outer frames left out (OOMHOOK_DEPTH) ...".to_owned();
    }
    format!("... {} left out ...", plural(frames, "Python frame"))
}
