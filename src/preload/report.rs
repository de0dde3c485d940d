//! The text report that the process prints about itself at its end.

use super::config::{Config, ReportTo};
use super::names::InProcess;
use super::place;
use super::state::{self, Recorder};
use super::talk;
use super::writer::{names, plain};
use oomhook_ledger::Ledger;
use oomhook_report::text::{self, Style};
use oomhook_report::{Depth, Facts, Report, Suppressions};
use oomhook_trace::Header;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What a report is made of.
pub struct Books<'a> {
    /// The header as it was written.
    pub header: &'a Header,
    /// The whole story.
    pub ledger: &'a Ledger,
    /// Where the trace is; `None` if there is no file.
    pub path: Option<PathBuf>,
}

/// Prints the report where the settings want it.
pub fn print(recorder: &Recorder, books: &Books<'_>) {
    match &recorder.config.report {
        ReportTo::Off => {}
        ReportTo::Stderr => {
            let (width, colour) = terminal();
            talk::write(&make(recorder, books, width, colour, false));
        }
        ReportTo::Path(_) => {
            let text = make(recorder, books, 80, false, false);
            if let Err(error) = write_to_file(recorder, books, &text) {
                state::say(&format!("{error}; it follows"));
                talk::write(&text);
            }
        }
    }
}

/// Which file the report's is, once it is made: its path, device and inode. What is said of failures and the report at the end
/// come into the same one.
static FILE: Mutex<Option<(PathBuf, u64, u64)>> = Mutex::new(None);

/// Appends to the report's file.
pub fn write_to_file(recorder: &Recorder, books: &Books<'_>, text: &str) -> Result<(), String> {
    let ReportTo::Path(pattern) = &recorder.config.meanwhile else {
        return Ok(());
    };
    // A lock that is held is that of a thread which a signal has ended: its file is not to be had.
    let Ok(mut known) = FILE.try_lock() else {
        return Err("the report's file is being written already".into());
    };
    let again = known.as_ref().and_then(open_again);
    let wanted = place::expand(pattern, &names(books.header));
    let opened = match again {
        Some(file) => Ok(file),
        None => place::create(Path::new(&wanted)).and_then(|(file, path)| {
            let about = file.metadata()?;
            *known = Some((path, about.dev(), about.ino()));
            Ok(file)
        }),
    };
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| {
            format!(
                "cannot write the report to {wanted}: {} (set OOMHOOK_REPORT)",
                plain(&error)
            )
        })
}

fn open_again((path, device, inode): &(PathBuf, u64, u64)) -> Option<File> {
    let file = OpenOptions::new()
        .append(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
        .open(path)
        .and_then(place::above_standard)
        .ok()?;
    let about = file.metadata().ok()?;
    ((about.dev(), about.ino()) == (*device, *inode)).then_some(file)
}

/// Prints a report of the process as it is now; it goes on. Where the report's place cannot be written, a line says so.
pub fn print_now(recorder: &Recorder, books: &Books<'_>) {
    match &recorder.config.meanwhile {
        ReportTo::Off => {}
        ReportTo::Stderr => {
            let (width, colour) = terminal();
            talk::write(&make(recorder, books, width, colour, true));
        }
        ReportTo::Path(pattern) => {
            let wanted = place::expand(pattern, &names(books.header));
            let text = make(recorder, books, 80, false, true);
            if let Err(error) = write_new(Path::new(&wanted), &text) {
                state::say(&format!(
                    "cannot write the report to {wanted}: {error}; the program goes on (set OOMHOOK_REPORT)"
                ));
            }
        }
    }
}

/// Writes a new file; what does not fit leaves none behind.
fn write_new(wanted: &Path, text: &str) -> std::io::Result<()> {
    let (mut file, path) = place::create(wanted)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        let _ = std::fs::remove_file(&path);
    })
}

fn make(
    recorder: &Recorder,
    books: &Books<'_>,
    width: usize,
    colour: bool,
    running: bool,
) -> String {
    let facts = Facts {
        complete: !running,
        running,
        so_far_ns: running.then(|| recorder.now()),
        // Naming a stack to its end takes as long again, and the text shows no more than the site.
        depth: Depth::ToSite,
        suppressions: suppressions(&recorder.config),
        ..Facts::default()
    };
    let report = Report::build(books.header, books.ledger, &mut InProcess::new(), &facts);
    let trace = books
        .path
        .as_ref()
        .map(|path| path.to_string_lossy().into_owned());
    let style = Style {
        width,
        colour,
        trace,
        pid: Some(books.header.process.pid),
        ..Style::default()
    };
    // A job of many ranks should not print the same healthy report many times.
    let other_rank = books
        .header
        .process
        .local_rank
        .is_some_and(|rank| rank != 0);
    if !running && other_rank && text::is_unremarkable(&report) {
        text::one_line(&report, &style)
    } else {
        text::render(&report, &style)
    }
}

fn suppressions(config: &Config) -> Suppressions {
    let Some(path) = &config.suppress else {
        return Suppressions::default();
    };
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    read.and_then(|text| Suppressions::parse(&text))
        .unwrap_or_else(|error| {
            state::say(&format!(
                "OOMHOOK_SUPPRESS={path}: {error}; no leak is left out"
            ));
            Suppressions::default()
        })
}

/// Columns and colour of stderr.
pub fn terminal() -> (usize, bool) {
    let mut size = std::mem::MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: `size` is valid for writes; zeroes are a valid `winsize`.
    let (code, size) = unsafe {
        let code = libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, size.as_mut_ptr());
        (code, size.assume_init())
    };
    let colour = code == 0 && std::env::var_os("NO_COLOR").is_none();
    if code == 0 && size.ws_col > 0 {
        (usize::from(size.ws_col), colour)
    } else {
        (80, colour)
    }
}
