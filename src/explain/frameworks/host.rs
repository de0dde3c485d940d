//! The host's memory: its allocator, its shared memory, the kernel's killer, Slurm's word about it.

use super::{bytes, number, pattern, start};
use crate::explain::message::{Found, Kind};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static ALLOCATOR: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)(?:: you tried to allocate (?P<size>\d[\d,]* bytes))?|\bnumpy\S*MemoryError: Unable to allocate (?P<numpy>{size})|\bstd::bad_alloc\b|\bMemoryError: Unable to allocate (?P<array>{size})",
    )
});
static KILL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i:out of memory): Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]{1,32})\)(?:.{0,80}anon-rss:(?P<rss>\d+)kB)?|\boom-kill:|\boom_reaper: reaped process|invoked oom-killer|Detected \d+ oom[-_]kill events?|\b(?:task|step)\b.{0,40}: Out Of Memory|Some of (?:your|the) (?:step )?(?:processes|tasks) (?:may )?have been (?:OOM Killed|killed by the cgroup out-of-memory handler)|\bOOMKilled\b|\bState=OUT_OF_MEMORY\b",
    )
});
/// Tensors that processes hand each other lie in files of /dev/shm. (Too many open files are another matter.)
static SHARED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\b[Uu]nable to (?:mmap (?P<size>\d+ bytes) from|allocate shared memory\(shm\) for|write to|resize|open) (?:the )?(?:shared memory (?:object|file)|file) <[^>]{0,80}torch_[^>]{0,80}>[^:]{0,60}: [^(]{0,60}\((?:12|28|11|0)\)|DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: Bus error|No space left on device: '/dev/shm/",
    )
});
static KILLED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: Killed|exited unexpectedly)|[Ee]xited with exit code 137|exit(?:ed|s)?(?: with)? (?:code|status):? 137\b|exitcode *: *-9\b|line \d+: +\d+ Killed\b|returned non-zero exit status 137|died with <Signals\.SIGKILL",
    )
});

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    if let Some(found) = ALLOCATOR.captures(text) {
        let framework = match found[0].starts_with("Default") {
            true => Framework::PyTorch(None),
            false => Framework::Unknown,
        };
        let mut message = Found::new(start(&found), framework, Kind::HostAllocator);
        let sizes = ["size", "numpy", "array"];
        message.numbers.requested_bytes = sizes.iter().find_map(|group| bytes(&found, group));
        return Some(message);
    }
    if let Some(found) = KILL.captures(text) {
        let mut message = Found::new(start(&found), Framework::Unknown, Kind::HostKill);
        if let Some(pid) = number::<u32>(&found, "pid") {
            message.facts.push(format!(
                "the kernel killed process {pid} ({})",
                &found["name"]
            ));
        }
        let rss = number::<u64>(&found, "rss").and_then(|kib| kib.checked_mul(1024));
        message.numbers.process_bytes = rss;
        return Some(message);
    }
    if let Some(found) = SHARED.captures(text) {
        let mut message = Found::new(start(&found), Framework::Unknown, Kind::SharedMemory);
        message.numbers.requested_bytes = bytes(&found, "size");
        return Some(message);
    }
    let found = KILLED.find(text)?;
    Some(Found::new(found.start(), Framework::Unknown, Kind::Killed))
}
