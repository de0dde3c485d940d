//! What every end-to-end test needs: the artefacts (built through cargo), C and C++ programs (built by the machine's
//! compiler), and a run of such a program under the library on the simulator.
#![allow(dead_code, reason = "each test file uses a part of it")]

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

mod artefacts;

pub use artefacts::{Artefacts, artefacts};

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The command under test.
pub fn oomhook() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    command.env("OOMHOOK_LIB", &artefacts().library);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OOMHOOK") && name != "OOMHOOK_LIB") {
        command.env_remove(name);
    }
    command
}

/// How a test program reaches CUDA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The runtime as a shared library.
    Shared,
    /// The runtime linked into the program.
    Static,
    /// Neither: the program finds the driver by itself, or links it.
    Driver,
}

/// A folder with built programs and the traces of their runs, gone with the value.
pub struct Bench {
    folder: TempDir,
}

impl Default for Bench {
    fn default() -> Bench {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bench = Bench { folder };
        fs::create_dir(bench.path("sim")).expect("a folder");
        std::os::unix::fs::symlink(&artefacts().simulator, bench.path("sim/libcuda.so.1")).expect("a link");
        bench
    }
}

fn run_to_success(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

impl Bench {
    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Builds `tests/programs/NAME` (C++ by its ending, else C) with extra flags.
    pub fn build(&self, source: &str, route: Route, flags: &[&str]) -> PathBuf {
        let tag: String = flags.concat().chars().filter(char::is_ascii_alphanumeric).collect();
        let program = self.path(&format!("{}-{route:?}-{tag}", source.replace('.', "-")));
        let include = root().join("crates/sim/include");
        let mut command = Command::new(if source.ends_with(".cpp") { "c++" } else { "cc" });
        command.args(["-g", "-O1", "-I"]).arg(include).arg("-o").arg(&program);
        command.arg(root().join("tests/programs").join(source)).args(flags);
        match route {
            Route::Shared => {
                let runtime = self.shared_runtime();
                command.arg(&runtime).arg(format!("-Wl,-rpath,{}", self.folder.path().display()));
            }
            Route::Static => {
                command.arg(self.static_runtime());
            }
            Route::Driver => {}
        }
        run_to_success(command.args(["-ldl", "-lpthread"]));
        program
    }

    fn double() -> Vec<PathBuf> {
        let folder = root().join("crates/sim/cudart");
        let entries = fs::read_dir(folder).expect("the runtime double");
        let sources = entries.map(|entry| entry.expect("an entry").path());
        sources.filter(|path| path.extension() == Some(OsStr::new("c"))).collect()
    }

    fn cc() -> Command {
        let mut command = Command::new("cc");
        command.args(["-g", "-O2", "-std=gnu11", "-fPIC", "-DCUDART_VERSION=13000", "-I"]);
        command.arg(root().join("crates/sim/include"));
        command
    }

    /// The runtime double as `libcudart.so.13`.
    pub fn shared_runtime(&self) -> PathBuf {
        let library = self.path("libcudart.so.13");
        if !library.exists() {
            let map = root().join("crates/sim/cudart/libcudart.so.13.map");
            let mut command = Bench::cc();
            command.args(["-shared", "-Wl,-soname,libcudart.so.13", "-Wl,-Bsymbolic"]);
            command.arg(format!("-Wl,--version-script={}", map.display()));
            command.args(Bench::double()).arg("-o").arg(&library).args(["-ldl", "-lpthread"]);
            run_to_success(&mut command);
        }
        library
    }

    /// The runtime double as `libcudart_static.a`.
    pub fn static_runtime(&self) -> PathBuf {
        let archive = self.path("libcudart_static.a");
        if !archive.exists() {
            let mut objects = Vec::new();
            for source in Bench::double() {
                let name = source.file_stem().expect("a name").to_string_lossy().into_owned();
                let object = self.path(&format!("{name}.o"));
                let mut command = Bench::cc();
                command.args(["-fvisibility=hidden", "-c"]).arg(&source).arg("-o").arg(&object);
                run_to_success(&mut command);
                objects.push(object);
            }
            run_to_success(Command::new("ar").arg("rcs").arg(&archive).args(&objects));
        }
        archive
    }

    /// A command that runs a program on the simulator, without the library.
    pub fn plain(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OOMHOOK")) {
            command.env_remove(name);
        }
        command.env("LD_LIBRARY_PATH", self.path("sim"));
        command
    }

    /// A command that runs a program on the simulator under the library.
    pub fn watched(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.plain(program, arguments);
        command.env("LD_PRELOAD", &artefacts().library);
        command.env("OOMHOOK_OUTPUT", self.path("%c.%p.trace"));
        command
    }

    /// Runs a program under the library; its end and its report. `settings` are environment variables.
    pub fn run(&self, program: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Ran {
        let before = self.traces();
        let mut command = self.watched(program, arguments);
        command.envs(settings.iter().copied());
        let output = command.output().expect("the program runs");
        let new: Vec<_> = self.traces().into_iter().filter(|path| !before.contains(path)).collect();
        assert_eq!(new.len(), 1, "one trace: {new:?}\n{}", String::from_utf8_lossy(&output.stderr));
        let report = report(&new[0]);
        Ran { output, trace: new.into_iter().next().expect("checked"), report }
    }

    /// The traces in the folder.
    pub fn traces(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).expect("the folder");
        let mut traces: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension() == Some(OsStr::new("trace")))
            .collect();
        traces.sort();
        traces
    }
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

    /// The leaks as (function of the site, bytes, blocks).
    pub fn leaks(&self) -> Vec<(String, u64, u64)> {
        sites(&self.report["leaks"])
    }

    /// What the program said on stderr.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

/// Rows of sites as (site, bytes, blocks).
pub fn sites(rows: &Value) -> Vec<(String, u64, u64)> {
    let rows = rows.as_array().expect("rows");
    let number = |row: &Value, key: &str| row[key].as_u64().expect("a number");
    rows.iter()
        .map(|row| (row["site"].as_str().expect("a site").to_owned(), number(row, "bytes"), number(row, "blocks")))
        .collect()
}

/// `oomhook report --json TRACE`.
pub fn report(trace: &Path) -> Value {
    let output = oomhook().args(["report", "--json"]).arg(trace).output().expect("oomhook runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}
