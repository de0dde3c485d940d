//! Who a process is: its name, its user, and whether it can be seen from here.

use oomhook_report::clean;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a process uses a GPU for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Compute,
    Graphics,
    Both,
}

/// Where a process stands as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Of the user who asks.
    Yours,
    /// Of another user.
    Others,
    /// It has ended, and its parent has not taken notice.
    Ended,
    /// No process has this number here.
    NotHere,
}

/// A process that uses a GPU.
#[derive(Debug, Serialize)]
pub struct User {
    pub pid: u32,
    pub name: Option<String>,
    pub user: Option<String>,
    pub bytes: Option<u64>,
    pub kind: Kind,
    pub standing: Standing,
}

/// Looks a process up; `otherwise` is its name where /proc has none.
pub fn user(
    pid: u32,
    bytes: Option<u64>,
    kind: Kind,
    otherwise: impl FnOnce() -> Option<String>,
) -> User {
    let folder = format!("/proc/{pid}");
    let owner = fs::metadata(&folder).ok().map(|data| data.uid());
    let name = owner.and_then(|_| name(Path::new(&folder)));
    let name = name.or_else(|| otherwise().map(without_folders));
    let name = name.filter(|name| !name.is_empty());
    let me = rustix::process::getuid().as_raw();
    let standing = match owner {
        None => Standing::NotHere,
        Some(_) if has_ended(Path::new(&folder)) => Standing::Ended,
        Some(owner) if owner == me => Standing::Yours,
        Some(_) => Standing::Others,
    };
    User {
        pid,
        name: name.map(|name| clean::text(&name)),
        user: owner.map(user_name),
        bytes,
        kind,
        standing,
    }
}

/// NVML gives the path of a program.
fn without_folders(name: String) -> String {
    match name.rsplit_once('/') {
        Some((folders, file)) if folders.starts_with('/') && !name.contains(' ') => file.to_owned(),
        Some(("", file)) => file.to_owned(),
        _ => name,
    }
}

fn has_ended(folder: &Path) -> bool {
    let status = fs::read(folder.join("status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['Z', 'X']))
}

/// The program, and of an interpreter the script: `python3 train.py`. No other arguments, which may hold secrets.
fn name(folder: &Path) -> Option<String> {
    let line = fs::read(folder.join("cmdline")).unwrap_or_default();
    let words: Vec<_> = line
        .split(|byte| *byte == 0)
        .map(String::from_utf8_lossy)
        .collect();
    let file = |text: &str| text.rsplit('/').next().unwrap_or_default().to_owned();
    let program = words.first().map(|word| file(word)).unwrap_or_default();
    if program.is_empty() {
        let name = fs::read(folder.join("comm")).ok()?;
        return Some(String::from_utf8_lossy(&name).trim_end().to_owned());
    }
    if program.starts_with("python") {
        let is_flag = |word: &&std::borrow::Cow<'_, str>| {
            word.starts_with('-') && !matches!(&***word, "-m" | "-c")
        };
        let mut rest = words[1..].iter().skip_while(is_flag);
        match rest.next().map(|word| &**word) {
            Some("-m") => {
                let module = rest.next().map(|word| word.to_string()).unwrap_or_default();
                return Some(format!("{program} -m {module}"));
            }
            Some("-c") | None => {}
            Some(script) => {
                return Some(format!("{program} {}", file(script)).trim_end().to_owned());
            }
        }
    }
    Some(program)
}

/// The name of a user; the number where it has none here.
fn user_name(uid: u32) -> String {
    let users = fs::read("/etc/passwd").unwrap_or_default();
    let users = String::from_utf8_lossy(&users);
    let name = users.lines().find_map(|line| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        (parts.nth(1)?.parse() == Ok(uid)).then(|| clean::text(name))
    });
    name.unwrap_or_else(|| format!("uid {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_by_its_program_and_its_script() {
        let folder = tempfile::tempdir().expect("a folder");
        for (line, wanted) in [
            (
                "/usr/bin/python3\0-u\0/home/a/train.py\0--key=secret\0",
                "python3 train.py",
            ),
            ("python\0-m\0vllm.serve\0--x\0", "python -m vllm.serve"),
            ("python\0-c\0import torch\0", "python"),
            ("python\0", "python"),
            ("./app\0--token\0x\0", "app"),
        ] {
            std::fs::write(folder.path().join("cmdline"), line).expect("a file");
            assert_eq!(name(folder.path()).as_deref(), Some(wanted));
        }
        std::fs::write(folder.path().join("cmdline"), "").expect("a file");
        std::fs::write(folder.path().join("comm"), b"od\xffd\n").expect("a file");
        assert_eq!(name(folder.path()).as_deref(), Some("od\u{fffd}d"));
    }

    #[test]
    fn of_a_path_the_file_is_shown() {
        for (name, shown) in [
            ("/opt/env/bin/python3.11", "python3.11"),
            ("/init", "init"),
            ("train.py", "train.py"),
            ("/usr/bin/X :0 -seat /x", "/usr/bin/X :0 -seat /x"),
        ] {
            assert_eq!(without_folders(name.to_owned()), shown);
        }
    }

    #[test]
    fn a_number_that_nobody_has_is_not_here() {
        let nobody = user(u32::MAX, None, Kind::Compute, || {
            Some("x\x1b[2J".to_owned())
        });
        assert_eq!(nobody.standing, Standing::NotHere);
        assert_eq!(nobody.name.as_deref(), Some("x\\u{1b}[2J"));
        assert_eq!(nobody.user, None);
        let me = user(std::process::id(), None, Kind::Compute, || None);
        assert_eq!(me.standing, Standing::Yours);
    }
}
