//! What the library adds to the start of a process that makes no CUDA call: 200 pairs of runs, without and with it, in
//! turn; the median difference.
//!
//! `cargo bench --bench startup`

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const PAIRS: usize = 200;

fn main() {
    let library = artefacts::release().library;
    println!("milliseconds, {PAIRS} pairs of runs");
    println!("{:<24} {:>10} {:>10}", "", "without", "added");
    for command in [
        &["true"][..],
        &["bash", "-c", ":"],
        &["git", "--version"],
        &["python3", "-c", "pass"],
    ] {
        let (mut without, mut added) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let plain = time(command, None);
            let watched = time(command, Some(&library));
            without.push(plain);
            added.push(watched - plain);
        }
        println!(
            "{:<24} {:>10.3} {:>10.3}",
            command.join(" "),
            median(without),
            median(added)
        );
    }
}

fn time(command: &[&str], library: Option<&Path>) -> f64 {
    let mut program = Command::new(command[0]);
    program
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if let Some(library) = library {
        program.env("LD_PRELOAD", library);
    }
    let start = Instant::now();
    let status = program.status().expect("the program starts");
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    assert!(status.success());
    elapsed
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
