//! The trace's file: whole chunks, one write each. When the place is full or gone, writing stops, the ledger goes on,
//! and the reader is told.

use super::super::place::{self, Names};
use super::super::state::Recorder;
use super::super::{config, state};
use super::sink::Sink;
use oomhook_trace::Header;
use std::io;
use std::path::{Path, PathBuf};

/// Where chunks go.
pub struct Output {
    sink: Option<Sink>,
    path: Option<PathBuf>,
    written: u64,
    notes: Vec<String>,
}

impl Output {
    /// No file at all.
    pub fn none() -> Output {
        Output {
            sink: None,
            path: None,
            written: 0,
            notes: Vec::new(),
        }
    }

    /// Makes the file and writes the header; falls back to other places, then to none, and says so once.
    pub fn open(recorder: &Recorder, header: &Header) -> Output {
        let names = names(header);
        let wanted = PathBuf::from(place::expand(&recorder.config.output, &names));
        let mut output = Output::none();
        match place::create_somewhere(&wanted) {
            Ok(made) => {
                if let Some((wanted, error)) = made.instead_of {
                    state::say(&format!(
                        "cannot write {}: {}; the trace is {}",
                        wanted.display(),
                        plain(&error),
                        made.path.display()
                    ));
                }
                let path = absolute(&made.path);
                output.sink = Sink::new(made.file, path.clone()).ok();
                output.path = Some(path);
            }
            Err(error) => state::say(&format!(
                "cannot write {}: {}; no trace is kept, the report still comes (set OOMHOOK_OUTPUT)",
                wanted.display(),
                plain(&error)
            )),
        }
        match header.encode() {
            Ok(bytes) => output.append(&bytes),
            Err(_) => output.sink = None,
        }
        output
    }

    /// True while chunks are being kept.
    pub fn is_open(&self) -> bool {
        self.sink.is_some()
    }

    /// Bytes in the file.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The file's path, absolute.
    pub fn path(&self) -> Option<PathBuf> {
        self.path.clone()
    }

    /// What the reader should be told since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Appends bytes with one write (more only if the system takes less at once).
    pub fn append(&mut self, bytes: &[u8]) {
        let Some(sink) = &mut self.sink else { return };
        match sink.append(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(error) => {
                let path = sink.path().display();
                self.notes.push(format!(
                    "cannot write {path} any more: {}; the trace ends here, the totals go on",
                    plain(&error)
                ));
                self.sink = None;
            }
        }
    }
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

/// The system's words without the number behind them.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].into(),
        None => text,
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
