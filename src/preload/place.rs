//! Where the trace (and a report that goes to a file) is put: patterns, names that are taken, places that cannot be
//! written. Files are new ones, readable by their owner alone, never reached through a symbolic link, closed on exec.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the patterns stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// `%p`
    pub pid: u32,
    /// `%h`
    pub host: String,
    /// `%r`
    pub rank: Option<u32>,
    /// `%j`
    pub job: Option<String>,
    /// `%c`
    pub command: String,
}

/// Replaces `%p %h %r %j %c %%`; an unknown letter stays as it is. What a name stands for cannot leave its folder.
pub fn expand(pattern: &str, names: &Names) -> String {
    let plain = |text: &str| text.replace(['/', '\0'], "_");
    let mut result = String::with_capacity(pattern.len() + 32);
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            result.push(letter);
            continue;
        }
        match letters.next() {
            Some('p') => result.push_str(&names.pid.to_string()),
            Some('h') => result.push_str(&plain(&names.host)),
            Some('r') => result.push_str(&names.rank.map_or("0".into(), |rank| rank.to_string())),
            Some('j') => result.push_str(&plain(names.job.as_deref().unwrap_or("0"))),
            Some('c') => result.push_str(&plain(&names.command)),
            Some('%') => result.push('%'),
            Some(other) => result.extend(['%', other]),
            None => result.push('%'),
        }
    }
    result
}

/// `x.trace` becomes `x.1.trace`; a name with another ending gets `.1` at its end.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let text = path.to_string_lossy();
    match text.strip_suffix(".trace") {
        Some(stem) => PathBuf::from(format!("{stem}.{number}.trace")),
        None => PathBuf::from(format!("{text}.{number}")),
    }
}

/// Makes a new file at `path`, or beside it under a number if the name is taken.
pub fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    const MOST: u32 = 10_000;
    let mut candidate = path.to_path_buf();
    for number in 1..=MOST {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            // `create_new` refuses a link in the last place already; this says so to the reader as well.
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&candidate);
        match file {
            Ok(file) => return Ok((above_standard(file)?, candidate)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                candidate = numbered(path, number);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "ten thousand names are taken",
    ))
}

/// The file under a number that is none of stdin, stdout and stderr: where one of these is closed (`2>&-`), a new file
/// gets its number, and what the program prints would go into the trace.
pub fn above_standard(file: File) -> io::Result<File> {
    if file.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(file);
    }
    // SAFETY: `file` is open; a number that comes back is a new descriptor, owned by nobody else.
    unsafe {
        match libc::fcntl(
            file.as_raw_fd(),
            libc::F_DUPFD_CLOEXEC,
            libc::STDERR_FILENO + 1,
        ) {
            -1 => Err(io::Error::last_os_error()),
            number => Ok(File::from_raw_fd(number)),
        }
    }
}

/// A file that could be made, and why the first choice could not.
pub struct Made {
    /// The new file.
    pub file: File,
    /// Its path.
    pub path: PathBuf,
    /// What went wrong at the place that was asked for.
    pub instead_of: Option<(PathBuf, io::Error)>,
}

/// Makes the file at `wanted`, else in `$TMPDIR`, else in /dev/shm.
pub fn create_somewhere(wanted: &Path) -> Result<Made, io::Error> {
    let first = match create(wanted) {
        Ok((file, path)) => {
            return Ok(Made {
                file,
                path,
                instead_of: None,
            });
        }
        Err(error) => error,
    };
    let name = wanted.file_name().unwrap_or(wanted.as_os_str());
    let temporary = std::env::var_os("TMPDIR")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from);
    for folder in temporary.into_iter().chain([PathBuf::from("/dev/shm")]) {
        if let Ok((file, path)) = create(&folder.join(name)) {
            return Ok(Made {
                file,
                path,
                instead_of: Some((wanted.to_path_buf(), first)),
            });
        }
    }
    Err(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        Names {
            pid: 7,
            host: "node".into(),
            rank: Some(3),
            job: Some("../j".into()),
            command: "python".into(),
        }
    }

    #[test]
    fn patterns_are_replaced() {
        assert_eq!(
            expand("o.%h.%p.r%r.%c.trace", &names()),
            "o.node.7.r3.python.trace"
        );
        assert_eq!(expand("%j/%%/%x/%", &names()), ".._j/%/%x/%");
        assert_eq!(expand("%r%j", &Names::default()), "00");
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let folder = std::env::temp_dir().join(format!("oomhook-place-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let wanted = folder.join("a.trace");
        let made: Vec<_> = (0..3).map(|_| create(&wanted).expect("a file").1).collect();
        assert_eq!(
            made,
            [
                wanted.clone(),
                folder.join("a.1.trace"),
                folder.join("a.2.trace")
            ]
        );
        std::os::unix::fs::symlink("/etc/passwd", folder.join("b")).expect("a link");
        assert_eq!(
            create(&folder.join("b")).expect("a file").1,
            folder.join("b.1")
        );
        let mode = std::os::unix::fs::PermissionsExt::mode(&made_permissions(&wanted));
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(&folder).expect("the folder can go");
    }

    fn made_permissions(path: &Path) -> std::fs::Permissions {
        std::fs::metadata(path).expect("it is there").permissions()
    }
}
