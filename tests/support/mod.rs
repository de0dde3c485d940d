//! What every end-to-end test needs: the artefacts (built through cargo), C and C++ programs (built by the machine's
//! compiler), and a run of such a program under the library on the simulator.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod artefacts;
mod bench;
pub mod doctor;
pub mod ledger;
pub mod live;
pub mod naming;

#[allow(unused_imports, reason = "as above")]
pub use artefacts::{Artefacts, artefacts, unwind_check};
#[allow(unused_imports, reason = "as above")]
pub use bench::{Bench, Route, Run, traces_in};

/// One MiB.
pub const MIB: u64 = 1 << 20;

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command under test.
pub fn oomhook() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    without_settings(&mut command).env("OOMHOOK_LIB", &artefacts().library);
    command
}

/// Takes the variables out of a command that whoever runs the tests may have set for himself.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OOMHOOK")) {
        command.env_remove(name);
    }
    command
}

/// A run under the library.
pub struct Ran {
    /// Exit status and output of the program.
    pub output: Output,
    /// Its trace.
    pub trace: PathBuf,
    /// `oomhook report --json` of it.
    pub report: Value,
}

impl Ran {
    /// Asserts that a number of the report (by JSON pointer) is this.
    #[track_caller]
    pub fn is(&self, pointer: &str, wanted: u64) -> &Ran {
        let found = self.report.pointer(pointer).and_then(Value::as_u64);
        assert_eq!(found, Some(wanted), "{pointer} in\n{:#}", self.report);
        self
    }

    /// Asserts that the program ended with this code and printed this.
    #[track_caller]
    pub fn says(&self, code: i32, stdout: &str) -> &Ran {
        let found = String::from_utf8_lossy(&self.output.stdout);
        assert_eq!(
            (self.output.status.code(), &*found),
            (Some(code), stdout),
            "{}",
            self.stderr()
        );
        self
    }

    /// The leaks as (function of the site, bytes, blocks).
    #[track_caller]
    pub fn leaks(&self) -> Vec<(String, u64, u64)> {
        sites(&self.report["leaks"])
    }

    /// Asserts that the leaks are these: (function of the site, bytes, blocks), largest first.
    #[track_caller]
    pub fn leaks_are(&self, wanted: &[(&str, u64, u64)]) -> &Ran {
        let wanted = wanted
            .iter()
            .map(|(site, bytes, blocks)| ((*site).to_owned(), *bytes, *blocks));
        assert_eq!(
            self.leaks(),
            wanted.collect::<Vec<_>>(),
            "{:#}",
            self.report["leaks"]
        );
        self
    }

    /// What the program said on stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Rows of sites as (site, bytes, blocks).
#[track_caller]
pub fn sites(rows: &Value) -> Vec<(String, u64, u64)> {
    let rows = rows.as_array().expect("rows");
    let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    rows.iter()
        .map(|row| {
            let site = row["site"].as_str().expect("a site").to_owned();
            (site, number(row, "bytes"), number(row, "blocks"))
        })
        .collect()
}

/// `oomhook report --json TRACE`.
#[track_caller]
pub fn report(trace: &Path) -> Value {
    let output = oomhook()
        .args(["report", "--json"])
        .arg(trace)
        .output()
        .expect("oomhook runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The symbols of the table of hooks.
pub fn hooked() -> HashSet<String> {
    let table = fs::read_to_string(root().join("src/preload/hooks/table.rs")).expect("the table");
    let rows = table
        .lines()
        .filter_map(|line| line.trim().strip_prefix("fn "));
    let names: HashSet<_> = rows
        .filter_map(|row| row.split_once('('))
        .map(|row| row.0.to_owned())
        .collect();
    assert!(
        names.contains("cuMemAlloc_v2") && names.contains("cudaMalloc"),
        "{names:?}"
    );
    names
}

/// Names that a library exports.
pub fn exported(library: &Path) -> Vec<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library)
        .output()
        .expect("nm");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    names
        .filter_map(|name| name.split('@').next())
        .map(str::to_owned)
        .collect()
}
