//! What /proc says of a process.

use crate::cli::output;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Names of what lives in a watched process.
const LIBRARY: &[u8] = b"liboomhook.so";
const WRITER: &str = "oomhook-writer";

/// A process that is there.
pub struct Process {
    /// Its number here.
    pub pid: u32,
    /// Its number in its own namespace.
    pub inner_pid: u32,
}

/// A file of the process.
pub fn path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

impl Process {
    /// Looks it up.
    ///
    /// # Errors
    /// In words, when there is no such process.
    pub fn find(pid: u32) -> Result<Process, String> {
        let status = fs::read_to_string(path(pid, "status"));
        let status = status.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("there is no process {pid}; it has ended, or has another number here")
            }
            _ => denied(pid, &error),
        })?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim()
        };
        let leader = field("Tgid:").parse().unwrap_or(pid);
        if leader != pid {
            return Err(format!(
                "{pid} is a thread of process {leader}; try oomhook snapshot {leader}"
            ));
        }
        if field("State:").starts_with(['Z', 'X']) {
            return Err(format!(
                "process {pid} has ended; try oomhook report with its trace"
            ));
        }
        let inner = field("NSpid:").split_whitespace().next_back();
        Ok(Process {
            pid,
            inner_pid: inner.and_then(|pid| pid.parse().ok()).unwrap_or(pid),
        })
    }

    /// True if the library is loaded in it.
    ///
    /// # Errors
    /// In words, when that cannot be seen.
    pub fn has_library(&self) -> Result<bool, String> {
        let maps = fs::read(path(self.pid, "maps")).map_err(|error| denied(self.pid, &error))?;
        Ok(maps.windows(LIBRARY.len()).any(|part| part == LIBRARY))
    }

    /// A variable of the environment that it began with.
    pub fn variable(&self, name: &str) -> Option<String> {
        let all = fs::read(path(self.pid, "environ")).ok()?;
        let all = String::from_utf8_lossy(&all).into_owned();
        let value = |entry: &str| Some(entry.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        all.split('\0')
            .find_map(value)
            .filter(|value| !value.is_empty())
    }

    /// Its files as they are reached from here, if it sees others.
    pub fn root(&self) -> Option<PathBuf> {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let (its, ours) = (space(&self.pid.to_string())?, space("self")?);
        (its != ours).then(|| path(self.pid, "root"))
    }

    /// Processes below it that are being recorded.
    pub fn recorded_children(&self) -> Vec<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for pid in numbers(Path::new("/proc")) {
            if let Some(parent) = parent(pid) {
                children.entry(parent).or_default().push(pid);
            }
        }
        let mut found = Vec::new();
        let mut below = vec![self.pid];
        while let Some(pid) = below.pop() {
            let next = children.remove(&pid).unwrap_or_default();
            found.extend(next.iter().copied().filter(|pid| is_recorded(*pid)));
            below.extend(next);
        }
        found.sort_unstable();
        found
    }
}

/// True if the library records in this process.
pub fn is_recorded(pid: u32) -> bool {
    numbers(&path(pid, "task")).any(|thread| {
        let name = fs::read_to_string(path(pid, &format!("task/{thread}/comm")));
        name.is_ok_and(|name| name.trim_end() == WRITER)
    })
}

/// What stands in the way of looking.
pub fn denied(pid: u32, error: &io::Error) -> String {
    use std::os::unix::fs::MetadataExt;
    if error.kind() == io::ErrorKind::NotFound {
        return format!("process {pid} has ended");
    }
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid());
    let whose = owner.map_or(String::new(), |uid| format!(" of user {uid}"));
    format!(
        "process {pid}{whose} cannot be looked into: {}; ask as its user or as root",
        output::reason(error)
    )
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(path(pid, "stat")).ok()?;
    // `pid (name) state parent …`; the name may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Entries of a folder whose names are numbers.
pub fn numbers(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
