//! `oomhook doctor` on the simulator, what it said, and processes that use its GPUs.

use super::{Bench, oomhook};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One GiB.
pub const GIB: u64 = 1 << 30;
/// A number that no process of this machine has.
pub const NOBODY: u32 = 4_999_999;

/// `oomhook doctor ARGUMENTS` on the simulator, in a folder that can be written, 80 columns wide.
pub fn doctor(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let bench = Bench::shared();
    let mut command = oomhook();
    command.arg("doctor").args(arguments);
    for name in [
        "LD_PRELOAD",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "COLUMNS",
        "TMPDIR",
    ] {
        command.env_remove(name);
    }
    command
        .current_dir(bench.new_folder())
        .env("LD_LIBRARY_PATH", bench.path("sim"))
        .envs(settings.iter().copied());
    command.output().expect("it starts")
}

/// What it printed, if it ended with this code and complained of nothing.
#[track_caller]
pub fn text_of(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    assert_eq!(errors, "");
    text
}

/// The JSON that it printed.
#[track_caller]
pub fn json_of(arguments: &[&str], settings: &[(&str, &str)], code: i32) -> Value {
    let arguments = [&["--json"], arguments].concat();
    let text = text_of(&doctor(&arguments, settings), code);
    serde_json::from_str(&text).expect("JSON")
}

/// The lines of a text from the one that begins so to the next empty one.
#[track_caller]
pub fn part<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "{begin} in\n{text}");
    lines
}

/// A text of several lines as one.
pub fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A process that lives until it is dropped.
pub struct Sleeper(Child);

impl Sleeper {
    /// Starts it.
    pub fn new(program: &Path) -> Sleeper {
        let mut command = Command::new(program);
        command.arg("1000").stdin(Stdio::null());
        let sleeper = Sleeper(command.spawn().expect("it starts"));
        // The kernel lets the parent go on a moment before it gives the child its new name.
        let own = program.file_name().expect("a name").as_bytes();
        let named = || {
            let name = std::fs::read(format!("/proc/{}/comm", sleeper.pid())).unwrap_or_default();
            name.strip_suffix(b"\n")
                .is_some_and(|name| own.starts_with(name))
        };
        let patience = Instant::now() + Duration::from_secs(5);
        while !named() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        sleeper
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of a name, in a new folder.
pub fn executable(name: &OsStr, contents: &[u8]) -> PathBuf {
    let path = Bench::shared().new_folder().join(name);
    std::fs::write(&path, contents).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

/// A program of this name that sleeps.
pub fn sleep_named(name: &OsStr) -> PathBuf {
    executable(name, &std::fs::read("/bin/sleep").expect("sleep"))
}

/// The user who runs the tests.
pub fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
