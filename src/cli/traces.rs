//! Traces named on the command line: files, or directories of one run's traces.

use crate::cli::output;
use crate::symbols::Files;
use oomhook_ledger::{Ledger, replay};
use oomhook_report::{Facts, Report, Resolver, Suppressions, sentences};
use oomhook_trace::read::Ending;
use oomhook_trace::{Header, Reader};
use std::path::{Path, PathBuf};

/// A trace, read to its end.
pub struct Trace {
    /// Its file.
    pub path: PathBuf,
    /// Who was watched.
    pub header: Header,
    /// The books.
    pub ledger: Ledger,
    /// What a report depends on besides.
    pub facts: Facts,
}

/// Reads every trace that is named.
///
/// # Errors
/// In words, when a named file is no trace, or a directory has none.
pub fn load(named: &[PathBuf]) -> Result<Vec<Trace>, String> {
    let suppressions = suppressions()?;
    let mut traces = Vec::new();
    for path in named {
        if path.is_dir() {
            traces.extend(load_directory(path, &suppressions)?);
        } else {
            let trace = load_file(path, &suppressions);
            traces.push(trace.map_err(|error| format!("{} {error}", path.display()))?);
        }
    }
    Ok(traces)
}

fn load_directory(path: &Path, suppressions: &Suppressions) -> Result<Vec<Trace>, String> {
    let unreadable = |error| format!("{}: cannot be read: {error}", path.display());
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file
            .extension()
            .is_none_or(|extension| extension != "trace")
            || file.is_dir()
        {
            continue;
        }
        match load_file(&file, suppressions) {
            Ok(trace) => traces.push(trace),
            // One bad file must not hide the others.
            Err(error) => output::talk(&format!("oomhook: {} {error}\n", file.display())),
        }
    }
    if traces.is_empty() {
        return Err(format!(
            "{}: no readable trace in it (files that end in .trace)",
            path.display()
        ));
    }
    traces.sort_by(|a, b| {
        let key = |trace: &Trace| {
            let process = &trace.header.process;
            (process.rank, process.start_unix_ns, trace.path.clone())
        };
        key(a).cmp(&key(b))
    });
    Ok(traces)
}

fn load_file(path: &Path, suppressions: &Suppressions) -> Result<Trace, String> {
    let reader = Reader::open(path).map_err(|error| error.to_string())?;
    let replay = replay(reader);
    let complete = replay.ending == Ending::Complete;
    let running = !complete && is_running(&replay.header);
    let mut notes = Vec::new();
    if !complete && !running {
        notes.push(sentences::ends_early(replay.ledger.totals().allocs));
    }
    notes.extend(replay.damage.iter().map(|what| sentences::damaged(what)));
    if replay.first_segment > 0 {
        notes.push(sentences::starts_late(replay.first_segment));
    }
    Ok(Trace {
        path: path.to_owned(),
        header: replay.header,
        ledger: replay.ledger,
        facts: Facts {
            complete,
            running,
            notes,
            suppressions: suppressions.clone(),
            ..Facts::default()
        },
    })
}

/// True if the watched process still runs, on this machine.
fn is_running(header: &Header) -> bool {
    let process = &header.process;
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname");
    if here.is_ok_and(|host| host.trim_end() != process.host) || process.executable.is_empty() {
        return false;
    }
    // A number may be given again; the same program under the same number is taken for the same process.
    std::fs::read_link(format!("/proc/{}/exe", process.pid))
        .is_ok_and(|program| program == Path::new(&process.executable))
}

/// The suppressions that the environment names.
fn suppressions() -> Result<Suppressions, String> {
    let Some(path) = std::env::var_os("OOMHOOK_SUPPRESS").filter(|path| !path.is_empty()) else {
        return Ok(Suppressions::default());
    };
    let shown = Path::new(&path).display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| format!("OOMHOOK_SUPPRESS={shown} cannot be read: {error}"))?;
    Suppressions::parse(&text).map_err(|error| format!("OOMHOOK_SUPPRESS={shown}, {error}"))
}

impl Trace {
    /// A resolver of the trace's stacks.
    pub fn resolver<'a>(&'a self, symbols: &'a mut Files) -> Resolver<'a> {
        Resolver::new(self.ledger.definitions(), symbols, self.facts.depth)
    }

    /// The report of its process.
    pub fn report(&self, symbols: &mut Files) -> Report {
        Report::build(&self.header, &self.ledger, symbols, &self.facts)
    }
}
