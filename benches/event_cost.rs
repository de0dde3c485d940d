//! What a watched call costs: pairs of allocation and free on the simulator, without the library, with stacks off, and
//! with a stack of 32 frames, on one and several threads. One run gives all rows, so that they can be compared.
//!
//! `cargo bench --bench event_cost`

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use oomhook_demo::driver::Driver;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// Pairs in each thread.
const PAIRS: u32 = 100_000;
/// Frames between the thread's start and the call.
const DEPTH: u32 = 28;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.iter().position(|argument| argument == "--child") {
        Some(at) => child(arguments[at + 1].parse().expect("a number of threads")),
        None => parent(),
    }
}

#[inline(never)]
fn descend(depth: u32, work: &mut dyn FnMut()) {
    if depth == 0 {
        work();
    } else {
        descend(depth - 1, work);
    }
    // Keeps the call above from becoming a jump.
    std::hint::black_box(depth);
}

/// Prints nanoseconds per pair, the mean over all threads.
fn child(threads: u32) {
    let barrier = Arc::new(Barrier::new(threads as usize));
    let handles: Vec<_> = (0..threads)
        .map(|_| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let driver = Rc::new(Driver::open().expect("a driver"));
                let mut elapsed = 0.0;
                descend(DEPTH, &mut || {
                    for _ in 0..1000 {
                        drop(driver.alloc(4096).expect("memory"));
                    }
                    barrier.wait();
                    let start = Instant::now();
                    for _ in 0..PAIRS {
                        drop(driver.alloc(4096).expect("memory"));
                    }
                    elapsed = start.elapsed().as_nanos() as f64 / f64::from(PAIRS);
                });
                elapsed
            })
        })
        .collect();
    let sum: f64 = handles
        .into_iter()
        .map(|handle| handle.join().expect("no panic"))
        .sum();
    println!("{}", sum / f64::from(threads));
}

fn parent() {
    let artefacts = artefacts::release();
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(&artefacts.simulator, folder.path().join("libcuda.so.1"))
        .expect("a link");
    println!("nanoseconds per pair of cuMemAlloc and cuMemFree (two events), median of 5 runs");
    println!(
        "{:<26} {:>10} {:>10} {:>10}",
        "", "1 thread", "2 threads", "4 threads"
    );
    let plain = row("without the library", None, "", folder.path());
    let off = row("stacks off", Some(&artefacts.library), "off", folder.path());
    let on = row(
        "32 frames",
        Some(&artefacts.library),
        "native",
        folder.path(),
    );
    for (name, with) in [("stacks off", &off), ("32 frames", &on)] {
        let added: Vec<String> = with
            .iter()
            .zip(&plain)
            .map(|(with, without)| format!("{:>10.0}", (with - without) / 2.0))
            .collect();
        println!(
            "{:<26} {}",
            format!("added per event, {name}"),
            added.join(" ")
        );
    }
}

fn row(name: &str, library: Option<&Path>, stacks: &str, folder: &Path) -> Vec<f64> {
    let medians: Vec<f64> = [1, 2, 4]
        .into_iter()
        .map(|threads| {
            let mut runs: Vec<f64> = (0..5)
                .map(|_| run(threads, library, stacks, folder))
                .collect();
            runs.sort_by(f64::total_cmp);
            runs[2]
        })
        .collect();
    let shown: Vec<String> = medians
        .iter()
        .map(|nanoseconds| format!("{nanoseconds:>10.0}"))
        .collect();
    println!("{name:<26} {}", shown.join(" "));
    medians
}

fn run(threads: u32, library: Option<&Path>, stacks: &str, folder: &Path) -> f64 {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--child", &threads.to_string()])
        .env("LD_LIBRARY_PATH", folder);
    if let Some(library) = library {
        command
            .env("LD_PRELOAD", library)
            .env("OOMHOOK_STACKS", stacks)
            .env("OOMHOOK_REPORT", "off");
        command.env("OOMHOOK_OUTPUT", folder.join("%p.trace"));
    }
    let output = command.output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("a number")
}
