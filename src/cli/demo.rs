//! `oomhook demo`: everything in one minute, on a GPU or, where there is none, on the simulator. The command launches
//! itself under the library; the hidden child makes the allocations.

use crate::cli::{library, output, run};
use oomhook_demo::driver::Driver;
use oomhook_demo::story;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitCode, Stdio};
use std::rc::Rc;
use std::time::Duration;

/// Watch a small leaking server and read its report.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Be the watched program
    #[arg(long, hide = true)]
    tell: bool,
    /// Say by the exit code whether a GPU has room for the demo
    #[arg(long, hide = true)]
    probe: bool,
}

/// What the demo needs on a GPU, with some room to spare.
const ROOM: usize = 1 << 30;
/// Names of the folders for the traces begin so.
const PREFIX: &str = "oomhook-demo-";
/// A demo takes less.
const IN_USE: Duration = Duration::from_secs(600);

/// Runs the demo.
pub fn run(options: &Options) -> ExitCode {
    if options.probe {
        return ExitCode::from(u8::from(!has_room()));
    }
    if options.tell {
        return match story::tell() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("oomhook demo: {error}");
                ExitCode::FAILURE
            }
        };
    }
    match launch() {
        Ok(code) => code,
        Err(text) => {
            eprintln!("oomhook demo: {text}");
            ExitCode::from(2)
        }
    }
}

/// The folders of earlier demos go, or each one would stay for ever. (Young ones may be in use.)
fn remove_older() {
    let me = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        // Not through links: the entry's own metadata.
        let is_old = entry.metadata().is_ok_and(|found| {
            let age = found.modified().ok().and_then(|time| time.elapsed().ok());
            found.is_dir() && found.uid() == me && age.is_some_and(|age| age > IN_USE)
        });
        if is_old && name.to_string_lossy().starts_with(PREFIX) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn has_room() -> bool {
    let driver = Driver::open().map(Rc::new);
    driver
        .and_then(|driver| driver.memory_info())
        .is_ok_and(|(free, _)| free >= ROOM)
}

fn launch() -> Result<ExitCode, String> {
    let program = std::env::current_exe().map_err(|error| {
        format!(
            "cannot tell where this command lies: {}",
            output::reason(&error)
        )
    })?;
    // In a process of its own: asking makes a context, which costs memory for as long as the process lives.
    let gpu = Command::new(&program)
        .args(["demo", "--probe"])
        .env_remove("LD_PRELOAD")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !gpu {
        let simulator = run::simulator(&library::find()?);
        if !simulator.is_file() {
            return Err(format!(
                "no GPU with 1 GiB free was found, and the simulated one ({}) is missing: build it with `cargo build \
                 --release`",
                simulator.display()
            ));
        }
    }
    remove_older();
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir()
        .map_err(|error| {
            format!(
                "cannot make a temporary folder: {}; set TMPDIR to a place that can be written",
                output::reason(&error)
            )
        })?
        .keep();
    let place = if gpu {
        "on the GPU"
    } else {
        "on the simulated GPU (no GPU with 1 GiB free was found)"
    };
    eprintln!("A small server with a leak, a peak and an out of memory runs {place}, watched:\n");
    let command = [program.into_os_string(), "demo".into(), "--tell".into()].to_vec();
    Ok(run::run(&run::Options {
        sim: (!gpu).then(String::new),
        output: Some(folder),
        capacity: None,
        no_framework_cache: false,
        labels: Vec::new(),
        names: Default::default(),
        gate: Default::default(),
        command,
    }))
}
