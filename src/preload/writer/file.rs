//! The trace's place: which file, how much of it is kept, and what happens when it cannot be written. When the place is
//! full, gone or standing still, the file ends, the ledger goes on, and the reader is told.

use super::super::config::{self, Keep};
use super::super::place::{self, Names};
use super::super::state::{self, Recorder};
use super::disk::{Disk, plain};
use super::keep::Keeper;
use super::presence::Presence;
use super::sink::Sink;
use oomhook_trace::Header;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Bytes of a file that keeps states and no events, as long as the latest state has room in it.
const MOST_STATES: u64 = 16 << 20;

/// Where chunks go.
pub struct Output {
    disk: Option<Disk>,
    path: Option<PathBuf>,
    on_network: bool,
    notes: Vec<String>,
}

impl Output {
    /// No file at all.
    pub fn none() -> Output {
        Output {
            disk: None,
            path: None,
            on_network: false,
            notes: Vec::new(),
        }
    }

    /// Makes the file and writes the header; falls back to other places, then to none, and says so once.
    pub fn open(recorder: &Recorder, header: &Header, flushed: &'static AtomicU64) -> Output {
        let mut output = Output::none();
        if recorder.config.keep == Keep::None {
            return output;
        }
        let names = names(header);
        let wanted = PathBuf::from(place::expand(&recorder.config.output, &names));
        let made = match place::create_somewhere(&wanted) {
            Ok(made) => made,
            Err(error) => {
                state::say(&format!(
                    "cannot write {}: {}; no trace is kept, the report still comes (set OOMHOOK_OUTPUT)",
                    wanted.display(),
                    plain(&error)
                ));
                return output;
            }
        };
        if let Some((wanted, error)) = made.instead_of {
            state::say(&format!(
                "cannot write {}: {}; the trace is {}",
                wanted.display(),
                plain(&error),
                made.path.display()
            ));
        }
        let path = absolute(&made.path);
        output.path = Some(path.clone());
        output.on_network = is_on_network(&made.file);
        let bound = match recorder.config.keep {
            Keep::Bytes(bytes) => Some(bytes),
            // Each state that someone asked for adds to the file.
            Keep::Summary => Some(MOST_STATES),
            Keep::All | Keep::None => None,
        };
        let presence = Presence::new(output.on_network);
        presence.show(&made.file);
        let started = header
            .encode()
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                let mut sink = Sink::new(made.file, path).map_err(|error| plain(&error))?;
                sink.append(&bytes).map_err(|error| plain(&error))?;
                let length = bytes.len() as u64;
                Disk::start(sink, Keeper::new(bound, bytes), presence, length, flushed)
                    .map_err(|error| plain(&error))
            });
        match started {
            Ok(disk) => output.disk = Some(disk),
            Err(reason) => output.fail(&reason),
        }
        output
    }

    /// True while chunks are being kept.
    pub fn is_open(&self) -> bool {
        self.disk.is_some()
    }

    /// The file lies on another machine: many small writes would be heard by all its users.
    pub fn is_on_network(&self) -> bool {
        self.on_network
    }

    /// The file's path, absolute.
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// What the reader should be told since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        if let Some(reason) = self.disk.as_ref().and_then(Disk::failure) {
            self.fail(&reason);
        }
        std::mem::take(&mut self.notes)
    }

    /// Hands whole chunks over; the first may open a segment.
    pub fn append(&mut self, bytes: &mut Vec<u8>, opens_segment: bool) {
        let bytes = std::mem::take(bytes);
        if bytes.is_empty() {
            return;
        }
        if let Some(disk) = &self.disk
            && let Err(reason) = disk.append(bytes, opens_segment)
        {
            self.fail(&reason);
        }
    }

    /// Has the ticket served when everything is in the file; false if there is no file to wait for.
    pub fn flush(&self, ticket: u64) -> bool {
        let Some(disk) = &self.disk else { return false };
        disk.flush(ticket);
        true
    }

    /// Waits until everything is in the file, or `patience` is over.
    pub fn drain(&mut self, patience: Duration) {
        if self.disk.as_ref().is_some_and(|disk| !disk.drain(patience)) {
            self.fail("the place stands still");
        }
    }

    fn fail(&mut self, reason: &str) {
        let path = self.path.as_deref().unwrap_or(Path::new("")).display();
        self.notes.push(format!(
            "cannot write {path} any more: {reason}; the trace ends here, the totals go on"
        ));
        self.disk = None;
    }
}

/// Kinds of file systems that are reached over a network, as <linux/magic.h> and their own sources have them.
const NETWORKS: [u64; 12] = [
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x517b,      // SMB
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x00c3_6400, // Ceph
    0x6573_5546, // FUSE
    0x1983_0326, // BeeGFS
    0x5346_414f, // AFS
    0x7375_7245, // Coda
    0x0102_1997, // 9p
];

fn is_on_network(file: &std::fs::File) -> bool {
    let mut about = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: `about` is valid for writes; zeroes are a valid value.
    let (code, about) = unsafe {
        let code = libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr());
        (code, about.assume_init())
    };
    code == 0 && NETWORKS.contains(&(about.f_type as u64 & 0xffff_ffff))
}

/// What the patterns stand for in this process.
pub fn names(header: &Header) -> Names {
    let process = &header.process;
    Names {
        pid: process.pid,
        host: process.host.clone(),
        rank: process.rank,
        job: process.job.clone(),
        command: config::command_name(),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
