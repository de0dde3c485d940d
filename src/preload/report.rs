//! The text report that the process prints about itself at its end.

use super::config::{Config, ReportTo};
use super::names::InProcess;
use super::place;
use super::state::{self, Recorder};
use super::talk;
use super::writer::{Books, names};
use oomhook_report::text::{self, Style};
use oomhook_report::{Depth, Facts, Report, Suppressions};
use std::io::Write;
use std::path::Path;

/// Prints the report where the settings want it.
pub fn print(recorder: &Recorder, books: &Books) {
    match &recorder.config.report {
        ReportTo::Off => {}
        ReportTo::Stderr => {
            let (width, colour) = terminal();
            talk::write(&make(recorder, books, width, colour, false));
        }
        ReportTo::Path(pattern) => {
            let wanted = place::expand(pattern, &names(&books.header));
            let text = make(recorder, books, 80, false, false);
            if let Err(error) = write_new(Path::new(&wanted), &text) {
                state::say(&format!(
                    "cannot write the report to {wanted}: {error}; it follows"
                ));
                talk::write(&text);
            }
        }
    }
}

/// Prints a report of the process as it is now; it goes on. Where the report's place cannot be written, a line says so.
pub fn print_now(recorder: &Recorder, books: &Books) {
    match &recorder.config.report {
        ReportTo::Off => {}
        ReportTo::Stderr => {
            let (width, colour) = terminal();
            talk::write(&make(recorder, books, width, colour, true));
        }
        ReportTo::Path(pattern) => {
            let wanted = place::expand(pattern, &names(&books.header));
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

fn make(recorder: &Recorder, books: &Books, width: usize, colour: bool, running: bool) -> String {
    let facts = Facts {
        complete: !running,
        running,
        so_far_ns: running.then(|| recorder.now()),
        // Naming a stack to its end takes as long again, and the text shows no more than the site.
        depth: Depth::ToSite,
        suppressions: suppressions(&recorder.config),
        ..Facts::default()
    };
    let report = Report::build(&books.header, &books.ledger, &mut InProcess::new(), &facts);
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
fn terminal() -> (usize, bool) {
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
