//! What `write` costs a program whose lines are kept: 40 bytes at a time to stdout and to another descriptor, without the
//! library, with it before the first CUDA call, and while it records. In bursts, as programs print; the median burst.
//!
//! `cargo bench --bench log`

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use oomhook_demo::driver::Driver;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BURSTS: usize = 300;
const LINES: u32 = 200;
const LINE: &[u8] = b"step=1282 loss=2.3125 seq_len=2048 mem=9\n";

/// Where the lines go.
#[derive(Clone, Copy)]
enum To {
    Another,
    Null,
    Pipe,
    File,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--child") {
        Some(at) => child(&arguments[at + 1], &arguments[at + 2]),
        None => parent(),
    }
}

/// Tells on stderr how many nanoseconds a `write` took.
fn child(to: &str, begin: &str) {
    let driver = (begin == "begin").then(|| Driver::open().expect("a driver"));
    let block = driver
        .map(std::rc::Rc::new)
        .map(|driver| driver.alloc(4096));
    let mut another = File::options()
        .write(true)
        .open("/dev/null")
        .expect("it is there");
    let mut times = Vec::new();
    for _ in 0..BURSTS {
        std::thread::sleep(Duration::from_millis(4));
        let mut stdout = std::io::stdout().lock();
        let start = Instant::now();
        for _ in 0..LINES {
            let done = match to {
                "another" => another.write_all(LINE),
                _ => stdout.write_all(LINE),
            };
            done.expect("it takes them");
        }
        times.push(start.elapsed().as_nanos() as f64 / f64::from(LINES));
    }
    drop(block);
    times.sort_by(f64::total_cmp);
    eprintln!("{}", times[BURSTS / 2]);
}

fn parent() {
    let artefacts = artefacts::release();
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(&artefacts.simulator, folder.path().join("libcuda.so.1"))
        .expect("a link");
    println!(
        "nanoseconds per write of {} bytes, the lowest of 5 runs, and ratios",
        LINE.len()
    );
    println!(
        "{:<28} {:>8} {:>16} {:>16} {:>16}",
        "", "without", "before CUDA", "recording", "OOMHOOK_LOG=off"
    );
    for (name, to) in [
        ("another descriptor", To::Another),
        ("stdout, /dev/null", To::Null),
        ("stdout, a pipe", To::Pipe),
        ("stdout, a file", To::File),
    ] {
        let lowest = |library: Option<&Path>, begin: &str, log: &str| {
            let runs = (0..5).map(|_| run(to, library, begin, log, folder.path()));
            runs.fold(f64::INFINITY, f64::min)
        };
        let library = Some(artefacts.library.as_path());
        let without = lowest(None, "begin", "on");
        let cells: Vec<String> = [("idle", "on"), ("begin", "on"), ("begin", "off")]
            .into_iter()
            .map(|(begin, log)| {
                let with = lowest(library, begin, log);
                format!("{with:.0} ({:.2})", with / without)
            })
            .collect();
        println!(
            "{name:<28} {without:>8.0} {:>16} {:>16} {:>16}",
            cells[0], cells[1], cells[2]
        );
    }
}

fn run(to: To, library: Option<&Path>, begin: &str, log: &str, folder: &Path) -> f64 {
    let name = if matches!(to, To::Another) {
        "another"
    } else {
        "stdout"
    };
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--child", name, begin])
        .env("LD_LIBRARY_PATH", folder);
    if let Some(library) = library {
        command
            .env("LD_PRELOAD", library)
            .env("OOMHOOK_LOG", log)
            .env("OOMHOOK_REPORT", "off")
            .env("OOMHOOK_OUTPUT", folder.join("%p.trace"));
    }
    let stdout = match to {
        To::Another | To::Null => Stdio::null(),
        To::Pipe => Stdio::piped(),
        To::File => Stdio::from(File::create(folder.join("out")).expect("a file")),
    };
    let child = command.stdout(stdout).stderr(Stdio::piped()).spawn();
    let output = child
        .and_then(std::process::Child::wait_with_output)
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.trim().parse().expect("a number")
}
