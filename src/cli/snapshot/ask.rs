//! Finds the trace that a process writes, by its open files, and asks for the latest events.

use super::process::{self, Process};
use crate::cli::presence::{self, Request};
use oomhook_trace::header::MAGIC;
use oomhook_trace::{Reader, locks};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An answer takes longer only where the process stands still. (It looks every 50 ms; every second on a network.)
pub const PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks for it.
const NAP: Duration = Duration::from_millis(2);

/// A trace that a process writes.
pub struct Written {
    /// The file, open for reading.
    pub file: File,
    /// How it is reached.
    pub path: PathBuf,
}

/// What the open files of a process say.
pub enum Found {
    /// Its trace.
    Trace(Written),
    /// The trace of another process, whose fork it is.
    OfParent(Option<u32>),
    /// No trace.
    Nothing,
}

/// What came of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The file is up to date.
    UpToDate,
    /// No answer in time.
    None,
    /// The process has ended meanwhile.
    Ended,
}

/// Looks for the trace among the open files.
///
/// # Errors
/// In words, when they cannot be looked at.
pub fn find(process: &Process) -> Result<Found, String> {
    let pid = process.pid;
    let folder = process::path(pid, "fd");
    fs::read_dir(&folder).map_err(|error| process::denied(pid, &error))?;
    let mut found = Found::Nothing;
    for number in process::numbers(&folder) {
        let link = folder.join(number.to_string());
        let Some(file) = open_trace(&link) else {
            continue;
        };
        let owner = presence::owner(&file);
        let writer = owner.and_then(|owner| owner.pid);
        let is_its = match writer {
            Some(writer) => writer == pid,
            None => header_pid(&file) == Some(process.inner_pid),
        };
        if is_its {
            let path = reachable(process, &link, &file);
            return Ok(Found::Trace(Written { file, path }));
        }
        if owner.is_some() {
            found = Found::OfParent(writer);
        }
    }
    Ok(found)
}

/// Asks, and waits for the answer. What comes back is the file that has it: one that is kept within a bound may have been
/// replaced meanwhile.
pub fn ask(process: &Process, mut written: Written) -> (Written, Answer) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if wait(&written.file, deadline) {
            return (written, Answer::UpToDate);
        }
        if Instant::now() >= deadline {
            return (written, Answer::None);
        }
        match find(process) {
            Ok(Found::Trace(now)) => written = now,
            _ => return (written, Answer::Ended),
        }
        std::thread::sleep(NAP);
    }
}

/// True once the process has answered; false when it has not in time, or is not there to answer by this file.
fn wait(file: &File, deadline: Instant) -> bool {
    let _request = Request::make(file);
    let Some(seen) = presence::count(file) else {
        return false;
    };
    let wanted = locks::wanted_after(seen);
    while Instant::now() < deadline {
        match presence::count(file) {
            Some(now) if locks::has_reached(now, wanted) => return true,
            Some(_) => std::thread::sleep(NAP),
            None => return false,
        }
    }
    false
}

/// The file, if it is a trace. Nothing but a regular file is opened: others may act when they are.
fn open_trace(link: &Path) -> Option<File> {
    if !fs::metadata(link).ok()?.is_file() {
        return None;
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(link)
        .ok()?;
    let mut first = [0; MAGIC.len()];
    file.read_exact_at(&mut first, 0).ok()?;
    (first == MAGIC).then_some(file)
}

fn header_pid(file: &File) -> Option<u32> {
    let reader = Reader::new(file.try_clone().ok()?).ok()?;
    Some(reader.header().process.pid)
}

/// A path by which other commands can read the file, also when the process sees other files than we do.
fn reachable(process: &Process, link: &Path, file: &File) -> PathBuf {
    let same = |path: &Path| {
        let identity = |data: fs::Metadata| (data.dev(), data.ino());
        let (there, here) = (fs::metadata(path).ok()?, file.metadata().ok()?);
        Some(identity(there) == identity(here))
    };
    let Ok(named) = fs::read_link(link) else {
        return link.to_path_buf();
    };
    let below_root = named
        .strip_prefix("/")
        .map(|rest| process::path(process.pid, "root").join(rest));
    let ways = [Some(named.clone()), below_root.ok()];
    let mut ways = ways.into_iter().flatten();
    ways.find(|way| same(way) == Some(true))
        .unwrap_or_else(|| link.to_path_buf())
}
