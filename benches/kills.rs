//! What a trace loses when its process is killed: 1000 kills of a program with four busy threads, at random moments, at
//! several rates. The loss is the time from the latest event of the trace to the latest call that had returned.
//!
//! `cargo bench --bench kills [-- KILLS]`

#[path = "../tests/support/artefacts.rs"]
mod artefacts;
#[path = "../tests/support/kills.rs"]
mod kills;

use kills::{Loss, kill};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const KILLS: usize = 1000;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let number: usize = wanted.unwrap_or(KILLS);
    let built = artefacts::release();
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let driver = folder.path().join("sim");
    fs::create_dir(&driver).expect("a folder");
    std::os::unix::fs::symlink(&built.simulator, driver.join("libcuda.so.1")).expect("a link");
    println!("{number} kills a row; milliseconds lost, and calls");
    println!(
        "{:<28} {:>8} {:>8} {:>8} {:>8} {:>12} {:>12}",
        "between two calls", "median", "p90", "p99", "worst", "calls lost", "of calls"
    );
    for pause_ns in [0, 20_000, 200_000] {
        let mut seed = 88_172_645_463_325_252;
        let mut losses: Vec<Loss> = (0..number)
            .map(|round| {
                let traces = folder.path().join(format!("run-{pause_ns}-{round}"));
                fs::create_dir(&traces).expect("a folder");
                let mut command = Command::new(&program);
                command
                    .env("LD_LIBRARY_PATH", &driver)
                    .env("LD_PRELOAD", &built.library)
                    .env("OOMHOOK_REPORT", "off")
                    .env("OOMHOOK_OUTPUT", traces.join("%p.trace"));
                let loss = kill(&mut command, &traces, pause_ns, &mut seed);
                fs::remove_dir_all(&traces).expect("the folder can go");
                loss
            })
            .collect();
        losses.sort_by_key(|loss| loss.time_ns);
        let at = |share: f64| {
            let at = ((number as f64 * share).ceil() as usize).clamp(1, number) - 1;
            losses[at].time_ns as f64 / 1e6
        };
        let calls: u64 = losses.iter().map(|loss| loss.of).sum();
        let lost: u64 = losses.iter().map(|loss| loss.events).sum();
        println!(
            "{:<28} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>12} {:>12}",
            format!("{} us", pause_ns / 1000),
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0),
            lost / number as u64,
            calls / number as u64,
        );
    }
}

fn build(folder: &Path) -> PathBuf {
    let program = folder.join("killed");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("cc")
        .args(["-g", "-O2", "-I"])
        .arg(root.join("crates/sim/include"))
        .arg("-o")
        .arg(&program)
        .arg(root.join("tests/programs/killed.c"))
        .args(["-ldl", "-lpthread"])
        .status()
        .expect("a compiler");
    assert!(status.success());
    program
}
