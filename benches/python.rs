//! What stacks cost in a Python process: pairs of allocation and free on the simulator below 10 and 50 Python frames, with
//! each setting of OOMHOOK_STACKS, warm and cold, on one and two threads, in one run.
//!
//! `cargo bench --bench python` (the interpreter is `python3`, or what OOMHOOK_BENCH_PYTHON names)

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 5;
const SETTINGS: [(&str, Option<&str>); 5] = [
    ("without the library", None),
    ("stacks off", Some("off")),
    ("native", Some("native")),
    ("python", Some("python")),
    ("native,python", Some("native,python")),
];

fn main() {
    let artefacts = artefacts::release();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::os::unix::fs::symlink(&artefacts.simulator, folder.join("libcuda.so.1")).expect("a link");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/python");
    let pairs = folder.join("libpairs.so");
    let built = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-o"])
        .args([&pairs, &sources.join("pairs.c")])
        .status();
    assert!(built.expect("a C compiler").success());
    let python = std::env::var("OOMHOOK_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    println!(
        "nanoseconds per event (half a pair of cuMemAlloc and cuMemFree), median of {ROUNDS} runs; what is added to `stacks off`"
    );
    println!(
        "{:<22} {:>16} {:>16} {:>16} {:>16}",
        "", "10 frames", "50 frames", "50, 2 threads", "50, cold"
    );
    let cases = [(10, 0, 1), (50, 0, 1), (50, 0, 2), (50, 1, 1)];
    let mut off = [0.0; 4];
    for (name, stacks) in SETTINGS {
        let figures = cases.map(|(frames, cold, threads)| {
            let mut runs: Vec<f64> = (0..ROUNDS)
                .map(|_| {
                    let mut command = Command::new(&python);
                    command
                        .arg(sources.join("pairs.py"))
                        .arg(&pairs)
                        .args([frames, cold, threads].map(|number: u32| number.to_string()))
                        .env("LD_LIBRARY_PATH", folder);
                    if let Some(stacks) = stacks {
                        command
                            .env("LD_PRELOAD", &artefacts.library)
                            .env("OOMHOOK_STACKS", stacks)
                            .env("OOMHOOK_REPORT", "off")
                            .env("OOMHOOK_OUTPUT", folder.join("%p.trace"));
                    }
                    let output = command.output().expect("python runs");
                    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success(), "{errors}");
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    text.trim().parse::<f64>().expect("a number") / 2.0
                })
                .collect();
            runs.sort_by(f64::total_cmp);
            runs[ROUNDS / 2]
        });
        if name == "stacks off" {
            off = figures;
        }
        let shown: Vec<String> = figures
            .iter()
            .zip(off)
            .map(|(one, off)| match stacks {
                Some(stacks) if stacks != "off" => format!("{one:>8.0} {:>+7.0}", one - off),
                _ => format!("{one:>8.0} {:>7}", ""),
            })
            .collect();
        println!("{name:<22} {}", shown.join(" "));
    }
}
