//! What the host has and what this process is allowed of it, for failures that the device's memory does not explain.

use oomhook_trace::record::HostMemory;
use std::fs;

/// All that can be found out now; time and thread are the caller's.
pub fn memory(time_ns: u64, thread: u32) -> HostMemory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let locked = [kibibytes(&status, "VmLck:"), kibibytes(&status, "VmPin:")];
    let (group, group_limit) = control_group();
    HostMemory {
        time_ns,
        thread,
        total: kibibytes(&machine, "MemTotal:"),
        available: kibibytes(&machine, "MemAvailable:"),
        address_space: kibibytes(&status, "VmSize:"),
        address_space_limit: limit(libc::RLIMIT_AS),
        locked: locked.into_iter().flatten().reduce(|sum, one| sum + one),
        locked_limit: limit(libc::RLIMIT_MEMLOCK),
        group,
        group_limit,
    }
}

/// The bytes in a line like `VmLck:      64 kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    number.checked_mul(1024)
}

fn limit(which: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    let code = unsafe { libc::getrlimit(which, &mut limit) };
    (code == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What the control group uses and may use: version 2, else version 1. In a container its own group is the root that it sees.
fn control_group() -> (Option<u64>, Option<u64>) {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = |wanted: &str| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let is_it = controllers.split(',').any(|one| one == wanted);
            parts.next().filter(|_| is_it).map(str::to_owned)
        })
    };
    let number = |path: String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let at = |root: &str, group: Option<String>, used: &str, most: &str| {
        let own = format!("{root}{}", group?.trim_end_matches('/'));
        for folder in [own.as_str(), root] {
            if let Some(bytes) = number(format!("{folder}/{used}")) {
                return Some((bytes, number(format!("{folder}/{most}"))));
            }
        }
        None
    };
    let second = || at("/sys/fs/cgroup", path(""), "memory.current", "memory.max");
    let first = || {
        at(
            "/sys/fs/cgroup/memory",
            path("memory"),
            "memory.usage_in_bytes",
            "memory.limit_in_bytes",
        )
    };
    match second().or_else(first) {
        // Version 1 writes "no limit" as a number near the largest one.
        Some((used, limit)) => (Some(used), limit.filter(|limit| *limit < 1 << 60)),
        None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_known() {
        let host = memory(7, 3);
        assert_eq!((host.time_ns, host.thread), (7, 3));
        let (total, available) = (host.total.expect("it"), host.available.expect("it"));
        assert!(available > 0 && available <= total, "{host:?}");
        assert!(host.address_space.is_some_and(|size| size > 1 << 20));
    }

    #[test]
    fn lines_are_read() {
        let text = "VmPeak:\t  10 kB\nVmLck:\t      64 kB\nVmPin:\t 0 kB\n";
        assert_eq!(kibibytes(text, "VmLck:"), Some(65_536));
        assert_eq!(kibibytes(text, "VmPin:"), Some(0));
        assert_eq!(kibibytes(text, "VmSwap:"), None);
    }
}
