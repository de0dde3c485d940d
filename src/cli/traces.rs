//! Traces named on the command line: files, or directories of one run's traces.

use crate::cli::output;
use crate::cli::presence::{self, Owner};
use crate::symbols::Files;
use oomhook_ledger::{Ledger, replay};
use oomhook_report::{Facts, Report, Resolver, Suppressions, sentences};
use oomhook_trace::read::{Ending, OpenError};
use oomhook_trace::{Header, Reader};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A trace, read to its end.
pub struct Trace {
    /// Its file.
    pub path: PathBuf,
    /// Who was watched.
    pub header: Header,
    /// The books.
    pub ledger: Ledger,
    /// Who records into it now.
    pub owner: Option<Owner>,
    /// What a report depends on besides.
    pub facts: Facts,
}

/// What was read.
#[derive(Default)]
pub struct Loaded {
    /// The traces, in the order of their names on the command line, those of a directory by rank and start.
    pub traces: Vec<Trace>,
    /// What could not be read, in words. One bad file must not hide the others.
    pub unreadable: Vec<String>,
}

/// Reads every trace that is named; says what cannot be read in a directory.
///
/// # Errors
/// In words, when a named file is no trace, or a directory has none.
pub fn load(named: &[PathBuf]) -> Result<Vec<Trace>, String> {
    let suppressions = suppressions()?;
    let mut traces = Vec::new();
    for path in named {
        let loaded = load_path(path, &suppressions);
        if loaded.traces.is_empty() || !path.is_dir() {
            if let Some(error) = loaded.unreadable.into_iter().next_back() {
                return Err(error);
            }
        } else {
            for error in &loaded.unreadable {
                output::talk(&format!("oomhook: {error}\n"));
            }
        }
        traces.extend(loaded.traces);
    }
    Ok(traces)
}

/// Reads what can be read of the traces that are named.
pub fn load_readable(named: &[PathBuf], suppressions: &Suppressions) -> Loaded {
    let mut all = Loaded::default();
    for path in named {
        let loaded = load_path(path, suppressions);
        all.traces.extend(loaded.traces);
        all.unreadable.extend(loaded.unreadable);
    }
    all
}

fn load_path(path: &Path, suppressions: &Suppressions) -> Loaded {
    if path.is_dir() {
        return load_directory(path, suppressions);
    }
    let mut loaded = Loaded::default();
    loaded.add(path, suppressions);
    loaded
}

impl Loaded {
    fn add(&mut self, path: &Path, suppressions: &Suppressions) {
        match load_file(path, suppressions) {
            Ok(trace) => self.traces.push(trace),
            Err(error) => self.unreadable.push(format!("{} {error}", path.display())),
        }
    }
}

fn load_directory(path: &Path, suppressions: &Suppressions) -> Loaded {
    let mut loaded = Loaded::default();
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            let error = unreadable(&error);
            loaded
                .unreadable
                .push(format!("{} {error}", path.display()));
            return loaded;
        }
    };
    for file in entries.flatten().map(|entry| entry.path()) {
        let is_trace = file.extension().is_some_and(|ending| ending == "trace");
        if is_trace && !file.is_dir() {
            loaded.add(&file, suppressions);
        }
    }
    if loaded.traces.is_empty() {
        loaded.unreadable.push(format!(
            "{}: no readable trace in it (files that end in .trace); name the folder that `oomhook run -o` was given",
            path.display()
        ));
    }
    loaded.traces.sort_by(|a, b| {
        let key = |trace: &Trace| {
            let process = &trace.header.process;
            (process.rank, process.start_unix_ns, trace.path.clone())
        };
        key(a).cmp(&key(b))
    });
    loaded
}

fn unreadable(error: &std::io::Error) -> String {
    let advice = match error.kind() {
        std::io::ErrorKind::NotFound => "; check the name",
        std::io::ErrorKind::PermissionDenied => "; a trace is readable by its owner alone",
        _ => "",
    };
    format!("cannot be read: {}{advice}", output::reason(error))
}

fn load_file(path: &Path, suppressions: &Suppressions) -> Result<Trace, String> {
    const MOST: u32 = 3;
    let mut tries = 1;
    loop {
        let file = open(path).map_err(|error| unreadable(&error))?;
        let again = file.try_clone().map_err(|error| unreadable(&error))?;
        let owner = presence::owner(&file);
        let trace = read(file, path, suppressions, owner)?;
        // Meanwhile the process may have ended, or another file may have taken the place of one that is kept in a bound.
        let is_settled = match owner {
            Some(_) => presence::owner(&again).is_some(),
            None => is_the_file(path, &again),
        };
        if trace.facts.complete || is_settled || tries == MOST {
            return Ok(trace);
        }
        tries += 1;
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

fn is_the_file(path: &Path, file: &File) -> bool {
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(here)) => identity(there) == identity(here),
        _ => true,
    }
}

/// Reads an open trace, into which `owner` was seen to record before.
///
/// # Errors
/// In words that go on after its name, when it is none.
pub fn read(
    file: File,
    path: &Path,
    suppressions: &Suppressions,
    owner: Option<Owner>,
) -> Result<Trace, String> {
    let reader = Reader::new(file).map_err(|error| match error {
        OpenError::Io(error) => unreadable(&error),
        other => other.to_string(),
    })?;
    let mut replay = replay(reader);
    let complete = replay.ending == Ending::Complete;
    let running = !complete && owner.is_some();
    let mut notes = Vec::new();
    if !complete && !running {
        notes.push(sentences::ends_early(replay.ledger.totals().allocs));
    }
    if running && replay.cut {
        // It was being written.
        replay.damage.pop();
    }
    let so_far = SystemTime::now()
        .duration_since(UNIX_EPOCH + Duration::from_nanos(replay.header.process.start_unix_ns));
    let so_far_ns = running.then(|| so_far.map_or(0, |so_far| so_far.as_nanos() as u64));
    notes.extend(replay.damage.iter().map(|what| sentences::damaged(what)));
    if replay.first_segment > 0 {
        notes.push(sentences::starts_late(replay.first_segment));
    }
    Ok(Trace {
        path: path.to_owned(),
        header: replay.header,
        ledger: replay.ledger,
        owner: owner.filter(|_| running),
        facts: Facts {
            complete,
            running,
            so_far_ns,
            damaged: !replay.damage.is_empty(),
            notes,
            suppressions: suppressions.clone(),
            ..Facts::default()
        },
    })
}

/// The suppressions that the environment names.
///
/// # Errors
/// In words, when they cannot be read.
pub fn suppressions() -> Result<Suppressions, String> {
    let Some(path) = std::env::var_os("OOMHOOK_SUPPRESS").filter(|path| !path.is_empty()) else {
        return Ok(Suppressions::default());
    };
    let shown = Path::new(&path).display();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        format!(
            "OOMHOOK_SUPPRESS={shown} cannot be read: {}; correct its path or unset it",
            output::reason(&error)
        )
    })?;
    Suppressions::parse(&text).map_err(|error| format!("OOMHOOK_SUPPRESS={shown}, {error}"))
}

impl Trace {
    /// A resolver of the trace's stacks.
    pub fn resolver<'a>(&'a self, symbols: &'a mut Files) -> Resolver<'a> {
        self.begin(symbols);
        Resolver::new(self.ledger.definitions(), symbols, self.facts.depth).of_process(&self.header)
    }

    /// The report of its process.
    pub fn report(&self, symbols: &mut Files) -> Report {
        self.begin(symbols);
        Report::build(&self.header, &self.ledger, symbols, &self.facts)
    }

    fn begin(&self, symbols: &mut Files) {
        let lasted = Duration::from_nanos(self.ledger.last_ns());
        symbols.begin(&self.header, self.facts.complete.then_some(lasted));
    }
}
