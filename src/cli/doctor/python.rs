//! Which Python a program is, and whether its frames can be read.

use super::words;
use oomhook_report::clean;
use serde::Serialize;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// A Python.
#[derive(Debug, Serialize)]
pub struct Python {
    pub path: String,
    /// `cpython`, `pypy`.
    pub implementation: Option<String>,
    pub version: Option<String>,
    pub free_threaded: Option<bool>,
    /// Its frames can be read.
    pub frames: bool,
    /// Why not.
    pub problem: Option<String>,
}

/// An interpreter that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Understood by each Python since 2.6.
const QUESTION: &str = "import sys; \
    print(' '.join([getattr(getattr(sys, 'implementation', None), 'name', 'cpython'), \
    '.'.join(map(str, sys.version_info[:3])), '-' + getattr(sys, 'abiflags', ''), sys.executable or '']))";

/// Asks an interpreter for its version; nothing of the user's is imported.
pub fn ask(path: &Path) -> Python {
    let mut python = Python {
        path: clean::text(&path.to_string_lossy()),
        implementation: None,
        version: None,
        free_threaded: None,
        frames: false,
        problem: None,
    };
    let answer = answer(path).unwrap_or_default();
    let words: Vec<&str> = answer.trim_end_matches('\n').splitn(4, ' ').collect();
    let [implementation, version, flags, executable] = words[..] else {
        python.problem = Some(words::PYTHON_SILENT.to_owned());
        return python;
    };
    if !executable.is_empty() {
        // What was asked may be a script that finds the interpreter.
        python.path = clean::text(executable);
    }
    let free_threaded = flags.contains('t');
    python.implementation = Some(clean::text(implementation));
    python.version = Some(clean::text(version));
    python.free_threaded = Some(free_threaded);
    python.problem = problem(implementation, version, free_threaded);
    python.frames = python.problem.is_none();
    python
}

fn problem(implementation: &str, version: &str, free_threaded: bool) -> Option<String> {
    if implementation != "cpython" {
        return Some(words::NOT_CPYTHON.to_owned());
    }
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0u32);
    let number = (next(), next());
    if !((3, 8)..=(3, 14)).contains(&number) {
        return Some(words::OTHER_PYTHON.to_owned());
    }
    free_threaded.then(|| words::FREE_THREADED.to_owned())
}

fn answer(path: &Path) -> Option<String> {
    let mut child = Command::new(path)
        .args(["-E", "-s", "-S", "-c", QUESTION])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // What it starts in turn ends with it.
        .process_group(0)
        .spawn()
        .ok()?;
    let stdout = child.stdout.take()?;
    let (to, from) = mpsc::channel();
    std::thread::Builder::new()
        .spawn(move || {
            let mut text = Vec::new();
            let read = stdout.take(4096).read_to_end(&mut text);
            // Nobody listens any more if it took too long.
            let _ = to.send(read.map(|_| text));
        })
        .ok()?;
    let text = from.recv_timeout(PATIENCE);
    end(child);
    String::from_utf8(text.ok()?.ok()?).ok()
}

fn end(mut child: Child) {
    if let Ok(None) = child.try_wait() {
        let group = rustix::process::Pid::from_child(&child);
        // It may have ended this moment.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_of_cpython_3_8_to_3_14_with_a_gil() {
        for version in ["3.8.18", "3.14.0"] {
            assert_eq!(problem("cpython", version, false), None);
        }
        for version in ["2.7.18", "3.7.16", "3.15.0", "4.0.0", "x"] {
            assert!(problem("cpython", version, false).is_some(), "{version}");
        }
        assert!(
            problem("cpython", "3.13.0", true).is_some_and(|why| why.contains("free-threaded"))
        );
        assert!(problem("pypy", "3.10.13", false).is_some());
    }

    #[test]
    fn an_interpreter_that_says_nothing_is_bounded() {
        let python = ask(Path::new("/bin/cat"));
        assert_eq!((python.version, python.frames), (None, false));
    }
}
