//! What is said of allocations that ran out of memory.

use super::*;
use crate::schema::Process;
use oomhook_trace::record::HostMemory;

/// What failed: `cudaMalloc asked 8.0 GiB on GPU 0`.
#[must_use]
pub fn asked(oom: &Oom) -> String {
    let asked = oom
        .requested_bytes
        .map(|asked| format!(" asked {}", bytes(asked)));
    let on_host = matches!(oom.space, Some("pinned" | "registered"));
    let place = if on_host {
        " of host memory".to_owned()
    } else {
        format!(" on {}", gpu(oom.device))
    };
    match asked {
        Some(asked) => format!("{}{asked}{place}", oom.call),
        None => format!("{} failed{place}", oom.call),
    }
}

/// `, 6.0 GiB free (short by 2.0 GiB)`.
#[must_use]
pub fn free_then(oom: &Oom) -> String {
    match (oom.free_bytes, oom.short_by_bytes) {
        (Some(free), Some(short)) => {
            format!(", {} free (short by {})", bytes(free), bytes(short))
        }
        (Some(free), None) => format!(", {} free", bytes(free)),
        (None, _) => String::new(),
    }
}

/// Headlines of a process that died of it, the longest first.
#[must_use]
pub fn headline_oom(oom: &Oom) -> [String; 2] {
    let long = format!("OUT OF MEMORY: {}{}", asked(oom), free_then(oom));
    let short = match oom.short_by_bytes {
        Some(short) => format!("OUT OF MEMORY: {}, short by {}", asked(oom), bytes(short)),
        None => format!("OUT OF MEMORY: {}", asked(oom)),
    };
    [long, short]
}

/// `out of memory 3 times, survived`.
#[must_use]
pub fn survived(attempts: u64) -> String {
    format!("out of memory {}, survived", times(attempts))
}

/// Title of the section on failed allocations.
pub const OUT_OF_MEMORY: &str = "Out of memory";

/// What came of a failed allocation.
#[must_use]
pub fn class(oom: &Oom) -> String {
    match oom.class {
        Class::Fatal => "fatal".to_owned(),
        Class::Caught => "the program went on".to_owned(),
        Class::Probe => "a size probe".to_owned(),
        Class::Recovered => match oom.freed_between_bytes {
            Some(0) => "recovered, without a free".to_owned(),
            Some(freed) => format!("recovered after {} were freed", bytes(freed)),
            None => "recovered".to_owned(),
        },
    }
}

/// One line for a series of failing requests.
#[must_use]
pub fn probes(number: u64, first: u64, last: u64) -> String {
    format!(
        "size probe: {}, {} down to {}",
        plural(number, "failure"),
        bytes(first),
        bytes(last)
    )
}

/// Failures of one site for many sizes.
#[must_use]
pub fn search(call: &str, number: u64, least: u64, most: u64) -> String {
    format!(
        "{call} failed {} for {} to {}: the program went on, as in a search for a size that fits",
        times(number),
        bytes(least),
        bytes(most)
    )
}

/// More groups than are shown.
#[must_use]
pub fn more_failures(groups: usize) -> String {
    format!("and {} more (--json lists them)", count(groups as u64))
}

/// Leads to the site that asked.
pub const ASKED_BY: &str = "asked by ";

/// Leads to what was free.
pub const FREE: &str = "free     ";

/// Leads to what was in use.
pub const IN_USE: &str = "in use   ";

/// Leads to what had changed lately.
pub const LATELY: &str = "lately   ";

/// Leads to the latest free.
pub const FREED: &str = "freed    ";

/// Leads to what the host had.
pub const HOST: &str = "host     ";

/// Leads to the site in a line that is said at once.
pub const BY: &str = ", by ";

/// Title of the stack that asked.
pub const STACK: &str = "Asked from";

/// Said at once, the longest first.
#[must_use]
pub fn at_once(oom: &Oom) -> [String; 2] {
    let asked = asked(oom);
    [
        format!("out of memory: {asked}{}", free_then(oom)),
        format!("out of memory: {asked}"),
    ]
}

/// `pid 7 on node, 3.2 s after the first CUDA call, in thread worker, allocation 12`.
#[must_use]
pub fn moment(process: &Process, oom: &Oom) -> String {
    let mut parts = vec![super::process(process.pid, &process.host)];
    parts.extend(process.rank.map(super::rank));
    parts.push(format!("after {}", duration(oom.time_ns)));
    parts.extend(oom.thread.as_ref().map(|name| format!("in thread {name}")));
    if oom.attempts > 1 {
        parts.push(format!("failed {}", times(oom.attempts)));
    }
    parts.join(", ")
}

/// `+2.0 GiB cache (cache.c:12)`.
#[must_use]
pub fn changed(by: i64, site: &str) -> String {
    let sign = if by < 0 { '-' } else { '+' };
    format!("{sign}{} {site}", bytes(by.unsigned_abs()))
}

/// `within 7 s: `.
#[must_use]
pub fn within(ns: u64) -> String {
    format!("within {}: ", duration(ns))
}

/// `1.0 GiB of load (main.c:7) by drop (main.c:9), 40 ms before`.
#[must_use]
pub fn freed(size: u64, of: &str, by: &str, ago_ns: u64) -> String {
    format!(
        "{} of {of} by {by}, {} before",
        bytes(size),
        duration(ago_ns)
    )
}

/// Frames that are not shown.
#[must_use]
pub fn more_frames(number: usize) -> String {
    format!("and {} more", plural(number as u64, "frame"))
}

/// True if the host may be what ran out.
#[must_use]
pub fn is_about_the_host(oom: &Oom) -> bool {
    matches!(oom.space, Some("pinned" | "registered")) || is_free_far_above(oom)
}

fn is_free_far_above(oom: &Oom) -> bool {
    match (oom.free_bytes, oom.requested_bytes) {
        (Some(free), Some(asked)) => asked <= free,
        (Some(free), None) => free >= 1 << 30,
        (None, _) => false,
    }
}

/// `1.2 GiB of 23.4 GiB available, locked memory 64.0 KiB of 64.0 KiB (ulimit -l), …`.
#[must_use]
pub fn host(host: &HostMemory) -> String {
    let mut parts = Vec::new();
    match (host.available, host.total) {
        (Some(available), Some(total)) => parts.push(format!(
            "{} of {} available",
            bytes(available),
            bytes(total)
        )),
        (Some(available), None) => parts.push(format!("{} available", bytes(available))),
        _ => {}
    }
    let mut limit = |name: &str, used: Option<u64>, limit: Option<u64>| {
        if let Some(limit) = limit {
            let used = used.map_or_else(String::new, |used| format!("{} of ", bytes(used)));
            parts.push(format!("{name} {used}{} allowed", bytes(limit)));
        }
    };
    limit("control group", host.group, host.group_limit);
    limit(
        "address space (ulimit -v)",
        host.address_space,
        host.address_space_limit,
    );
    limit("locked memory (ulimit -l)", host.locked, host.locked_limit);
    if parts.is_empty() {
        return "nothing is known of its memory".to_owned();
    }
    parts.join(", ")
}

/// `11.0 GiB of 16.0 GiB, short by 5.0 GiB`.
#[must_use]
pub fn free_of_total(oom: &Oom) -> Option<String> {
    let mut text = bytes(oom.free_bytes?);
    if let Some(total) = oom.total_bytes {
        text.push_str(&format!(" of {}", bytes(total)));
    }
    if let Some(short) = oom.short_by_bytes {
        text.push_str(&format!(", short by {}", bytes(short)));
    }
    Some(text)
}

/// The same failure on other devices.
#[must_use]
pub fn and_on_gpus(number: usize) -> String {
    format!(" and on {}", plural(number as u64, "more GPU"))
}

/// Instead of a table that has been shown.
pub const MOSTLY_THE_SAME: &str = "mostly what it held when memory ran out";

/// Title of what lived when memory ran out.
#[must_use]
pub fn held_then(total: u64) -> String {
    format!("This process held {}:", bytes(total))
}

/// There was enough memory, and yet it failed.
#[must_use]
pub fn free_far_above(oom: &Oom) -> Option<String> {
    if matches!(oom.space, Some("pinned" | "registered")) {
        return Some(format!(
            "{} ran out of host memory, not of device memory: look at what the host has free, `ulimit -l` and the container's limit",
            oom.call
        ));
    }
    let free = oom.free_bytes?;
    is_free_far_above(oom).then(|| {
        format!(
            "{} said out of memory with {} free on the device: free far above requested, look at host memory, limits (ulimit, MIG, MPS) or fragmentation",
            oom.call,
            bytes(free)
        )
    })
}
