//! What tests of names share: a sample program whose leaking call is inlined, and what a report says of its frames.

use super::{Bench, Route, oomhook};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What one frame says: function, line.
pub type Says = (Option<String>, Option<u64>);

#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}\n{errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// The report of a trace, with options; nothing is said on stderr.
#[track_caller]
pub fn reported(trace: &Path, options: &[&str]) -> String {
    let mut command = oomhook();
    command.arg("report").arg(trace).args(options);
    let output = command.output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("text")
}

#[track_caller]
pub fn json(trace: &Path, options: &[&str]) -> Value {
    let out = reported(trace, &[&["--json"], options].concat());
    serde_json::from_str(&out).expect("JSON")
}

pub fn notes(report: &Value) -> Vec<String> {
    let notes = report["notes"].as_array().expect("notes").iter();
    notes
        .map(|note| note.as_str().expect("a note").to_owned())
        .collect()
}

/// The frames of the only leak that lie in a library.
pub fn frames_in(report: &Value, library: &str) -> Vec<Says> {
    let frames = report["leaks"][0]["stack"].as_array().expect("a stack");
    let frames = frames.iter().filter(|frame| frame["library"] == library);
    frames
        .map(|frame| {
            let function = frame["function"].as_str().map(str::to_owned);
            (function, frame["line"].as_u64())
        })
        .collect()
}

pub const FLAGS: [&str; 2] = ["-O2", "-Wl,--build-id"];

/// A copy of the sample in a folder of its own, so that what happens to it happens to nobody else.
pub fn sample(flags: &[&str]) -> (PathBuf, PathBuf) {
    let bench = Bench::shared();
    let built = bench.build("inlined.cpp", Route::Static, &[&FLAGS, flags].concat());
    let folder = bench.new_folder();
    let program = folder.join("app");
    fs::copy(built, &program).expect("a copy");
    (folder, program)
}

pub fn build_id(file: &Path) -> String {
    let out = run(Command::new("readelf").arg("-n").arg(file));
    let line = out
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    line.expect("a build-id").to_owned()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
