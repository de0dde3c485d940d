//! A folder with built programs, and the runs of these programs.

use super::{Ran, artefacts, report, root, without_settings};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

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
    folder: PathBuf,
}

/// Numbers the folders of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// One compiler at a time: whoever comes second finds the file that the first one made.
fn building() -> MutexGuard<'static, ()> {
    static BUILDING: Mutex<()> = Mutex::new(());
    BUILDING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn run_to_success(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Folders are named by process: those of processes that are gone go first.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent)
        .expect("the folder of all benches")
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix("bench-")
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Default for Bench {
    fn default() -> Bench {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        sweep(parent);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let bench = Bench {
            folder: parent.join(format!("bench-{}-{number}", std::process::id())),
        };
        fs::create_dir_all(bench.path("sim")).expect("a folder");
        for link in [bench.simulator(), bench.path("sim/libnvidia-ml.so.1")] {
            std::os::unix::fs::symlink(&artefacts().simulator, link).expect("a link");
        }
        bench
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    /// The one bench of this test file, so that each program is built once. (The next run sweeps it away.)
    pub fn shared() -> &'static Bench {
        static SHARED: OnceLock<Bench> = OnceLock::new();
        SHARED.get_or_init(Bench::default)
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A new, empty folder in the folder.
    pub fn new_folder(&self) -> PathBuf {
        let path = self.path(&format!("run-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path).expect("a folder");
        path
    }

    /// The simulated driver, by the name under which programs load it.
    pub fn simulator(&self) -> PathBuf {
        self.path("sim/libcuda.so.1")
    }

    /// Builds `tests/programs/NAME` (C++ by its ending, else C) with extra flags.
    pub fn build(&self, source: &str, route: Route, flags: &[&str]) -> PathBuf {
        let tag: String = flags
            .concat()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        // Names of files end somewhere.
        let tag = &tag[tag.len().saturating_sub(80)..];
        let program = self.path(&format!("{}-{route:?}-{tag}", source.replace('.', "-")));
        let with: Vec<_> = match route {
            Route::Shared => vec![self.shared_runtime()],
            Route::Static => vec![self.static_runtime()],
            Route::Driver => Vec::new(),
        };
        self.compile(source, &program, &with, flags);
        program
    }

    /// Builds `tests/programs/NAME` as a shared library of that file name, linked with other libraries.
    pub fn library(&self, source: &str, name: &str, with: &[PathBuf], flags: &[&str]) -> PathBuf {
        let library = self.path(name);
        let folder = library.parent().expect("a folder");
        fs::create_dir_all(folder).expect("a folder");
        let soname = format!(
            "-Wl,-soname,{}",
            library.file_name().expect("a name").display()
        );
        let flags = [&["-shared", "-fPIC", &soname], flags].concat();
        self.compile(source, &library, with, &flags);
        library
    }

    fn compile(&self, source: &str, to: &Path, with: &[PathBuf], flags: &[&str]) {
        let _building = building();
        if to.exists() {
            return;
        }
        let mut command = Command::new(if source.ends_with(".cpp") {
            "c++"
        } else {
            "cc"
        });
        command.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
        command
            .arg(root().join("crates/sim/include"))
            .arg("-o")
            .arg(to);
        command
            .arg(root().join("tests/programs").join(source))
            .args(flags)
            .args(with);
        command.arg(format!("-Wl,-rpath,{}", self.folder.display()));
        run_to_success(command.args(["-ldl", "-lpthread"]));
    }

    fn double() -> Vec<PathBuf> {
        let folder = root().join("crates/sim/cudart");
        let entries = fs::read_dir(folder).expect("the runtime double");
        let sources = entries.map(|entry| entry.expect("an entry").path());
        sources
            .filter(|path| path.extension() == Some(OsStr::new("c")))
            .collect()
    }

    fn cc(version: u32) -> Command {
        let mut command = Command::new("cc");
        command.args(["-g", "-O2", "-std=gnu11", "-fPIC", "-I"]);
        command
            .arg(root().join("crates/sim/include"))
            .arg(format!("-DCUDART_VERSION={version}000"));
        command
    }

    /// The runtime double as `libcudart.so.13`.
    pub fn shared_runtime(&self) -> PathBuf {
        self.shared_runtime_of(13)
    }

    /// The runtime double as `libcudart.so.12` or `libcudart.so.13`.
    pub fn shared_runtime_of(&self, version: u32) -> PathBuf {
        let _building = building();
        let name = format!("libcudart.so.{version}");
        let library = self.path(&name);
        if !library.exists() {
            let map = root().join(format!("crates/sim/cudart/{name}.map"));
            let mut command = Bench::cc(version);
            command
                .args(["-shared", "-Wl,-Bsymbolic"])
                .arg(format!("-Wl,-soname,{name}"));
            command.arg(format!("-Wl,--version-script={}", map.display()));
            command
                .args(Bench::double())
                .arg("-o")
                .arg(&library)
                .args(["-ldl", "-lpthread"]);
            run_to_success(&mut command);
        }
        library
    }

    /// The runtime double as `libcudart_static.a`.
    pub fn static_runtime(&self) -> PathBuf {
        let _building = building();
        let archive = self.path("libcudart_static.a");
        if !archive.exists() {
            let mut objects = Vec::new();
            for source in Bench::double() {
                let name = source
                    .file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .into_owned();
                let object = self.path(&format!("{name}.o"));
                let mut command = Bench::cc(13);
                command
                    .args(["-fvisibility=hidden", "-c"])
                    .arg(&source)
                    .arg("-o")
                    .arg(&object);
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
        without_settings(command.args(arguments)).current_dir(&self.folder);
        command.env("LD_LIBRARY_PATH", self.path("sim"));
        command
    }

    /// A command that runs a program on the simulator under the library; its traces come into the folder.
    pub fn watched(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = self.plain(program, arguments);
        command.env("LD_PRELOAD", &artefacts().library);
        command.env("OOMHOOK_OUTPUT", self.path("%c.%p.trace"));
        command
    }

    /// The same with a folder of its own for the traces, so that runs can go on side by side, and without the report
    /// at the end.
    pub fn start(&self, program: &Path, arguments: &[&str]) -> Run {
        let folder = self.new_folder();
        let mut command = self.watched(program, arguments);
        command.env("OOMHOOK_REPORT", "off");
        command.env("OOMHOOK_OUTPUT", folder.join("%c.%p.trace"));
        Run { command, folder }
    }

    /// Runs a program under the library; its end and its report. `settings` are environment variables.
    #[track_caller]
    pub fn run(&self, program: &Path, arguments: &[&str], settings: &[(&str, &str)]) -> Ran {
        let mut run = self.start(program, arguments);
        run.command.envs(settings.iter().copied());
        run.finish()
    }

    /// The traces in the folder.
    pub fn traces(&self) -> Vec<PathBuf> {
        traces_in(&self.folder)
    }
}

/// The traces in a folder.
pub fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder");
    let mut traces: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension() == Some(OsStr::new("trace")))
        .collect();
    traces.sort();
    traces
}

/// A run under the library, about to begin.
pub struct Run {
    /// What will run.
    pub command: Command,
    /// Where its traces come.
    pub folder: PathBuf,
}

impl Run {
    /// Runs it; its end and its traces, however many.
    pub fn output(mut self) -> (Output, Vec<PathBuf>) {
        let output = self.command.output().expect("the program runs");
        (output, traces_in(&self.folder))
    }

    /// Runs it; its end and the report of its only trace.
    #[track_caller]
    pub fn finish(self) -> Ran {
        let (output, mut traces) = self.output();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(traces.len(), 1, "one trace: {traces:?}\n{errors}");
        let trace = traces.remove(0);
        let report = report(&trace);
        Ran {
            output,
            trace,
            report,
        }
    }
}
