//! Data to stdout, talk to stderr. A reader that has gone away is no error.

use oomhook_report::text::Style;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Columns when nobody says.
const COLUMNS: usize = 80;
/// Wider lines than this are hard to read.
const WIDEST: usize = 200;

/// Writes data to stdout.
///
/// # Errors
/// In words, when stdout cannot be written; a closed pipe is fine.
pub fn data(text: &str) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("stdout cannot be written: {}", reason(&error)))
        }
        _ => Ok(()),
    }
}

/// Writes talk to stderr; where that is not possible there is nobody to tell.
pub fn talk(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// What the system says about an error, in words; its number helps nobody.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Writes a new file for its owner alone; one that is there, or a link, is never touched: the name gets a number, as the
/// library's own files do.
///
/// # Errors
/// When no file can be made or written.
pub fn new_file(path: &Path, text: &str) -> std::io::Result<PathBuf> {
    const MOST: u32 = 10_000;
    let mut candidate = path.to_path_buf();
    for number in 1..=MOST {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&candidate);
        match file {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(candidate);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let name = path.to_string_lossy();
                candidate = match name.strip_suffix(".trace") {
                    Some(stem) => format!("{stem}.{number}.trace").into(),
                    None => format!("{name}.{number}").into(),
                };
            }
            Err(error) => return Err(error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Appends to a report that processes of this run have begun: one of ours, written since `began` (nanoseconds of the Unix
/// epoch). False if there is none.
pub fn append_to_own(path: &Path, text: &str, began: Option<u64>) -> bool {
    let since = |time: std::time::SystemTime| {
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_nanos()).ok()
    };
    let about = std::fs::symlink_metadata(path);
    let is_new = about.is_ok_and(|about| {
        let modified = about.modified().ok().and_then(since);
        about.is_file()
            && modified
                .zip(began)
                .is_some_and(|(modified, began)| modified >= began)
    });
    let begins = |file: &std::fs::File| {
        let mut first = [0; 9];
        use std::os::unix::fs::FileExt;
        file.read_exact_at(&mut first, 0).is_ok() && &first == b"oomhook: "
    };
    let file = std::fs::OpenOptions::new()
        .read(true)
        .append(true)
        .open(path);
    let Some(mut file) = file.ok().filter(|file| is_new && begins(file)) else {
        return false;
    };
    file.write_all(text.as_bytes()).is_ok()
}

/// How text on stdout should look.
#[must_use]
pub fn style_of_stdout() -> Style {
    let stdout = std::io::stdout();
    style(stdout.is_terminal(), rustix::termios::tcgetwinsize(stdout))
}

/// How text on stderr should look.
#[must_use]
pub fn style_of_stderr() -> Style {
    let stderr = std::io::stderr();
    style(stderr.is_terminal(), rustix::termios::tcgetwinsize(stderr))
}

fn style(is_terminal: bool, size: rustix::io::Result<rustix::termios::Winsize>) -> Style {
    let said = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let seen = size.ok().map(|size| usize::from(size.ws_col));
    let width = seen.filter(|columns| is_terminal && *columns > 0).or(said);
    let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var("TERM").map_or(true, |term| term != "dumb");
    Style {
        width: width.unwrap_or(COLUMNS).min(WIDEST),
        colour: is_terminal && wants_colour,
        ..Style::default()
    }
}
