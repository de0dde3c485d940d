//! What recording the blocks of PyTorch's cache costs: a block handed out and taken back, below 10 Python frames and 15 of C, with
//! each kind of stacks and switched off, in one run. The cache itself is left out, so that nothing else is measured.
//!
//! `cargo bench --bench tensors` (the interpreter is `python3`, or what OOMHOOK_BENCH_PYTHON names)

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use std::path::Path;
use std::process::Command;

const ROUNDS: usize = 7;
type Settings = &'static [(&'static str, &'static str)];
const CASES: [(&str, Option<Settings>, bool); 7] = [
    ("without the library", None, false),
    (
        "OOMHOOK_TENSORS=off",
        Some(&[("OOMHOOK_TENSORS", "off")]),
        false,
    ),
    ("stacks off", Some(&[("OOMHOOK_STACKS", "off")]), false),
    ("native", Some(&[("OOMHOOK_STACKS", "native")]), false),
    ("python", Some(&[("OOMHOOK_STACKS", "python")]), false),
    ("native,python", Some(&[]), false),
    ("the same, two stacks in turn", Some(&[]), true),
];

fn build(folder: &Path, source: &str, name: &str, flags: &[&str]) {
    let built = Command::new("cc")
        .current_dir(folder)
        .args([
            "-O2",
            "-shared",
            "-fPIC",
            "-fno-optimize-sibling-calls",
            "-o",
            name,
        ])
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("benches/python")
                .join(source),
        )
        .args(flags)
        .status();
    assert!(built.expect("a C compiler").success());
}

fn main() {
    let artefacts = artefacts::release();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    std::os::unix::fs::symlink(&artefacts.simulator, folder.join("libcuda.so.1")).expect("a link");
    build(folder, "pairs.c", "libpairs.so", &["-ldl"]);
    build(folder, "blocks.c", "libc10.so", &["-DC10"]);
    build(
        folder,
        "blocks.c",
        "libblocks.so",
        &["-L.", "-lc10", "-Wl,-rpath,$ORIGIN"],
    );
    let python = std::env::var("OOMHOOK_BENCH_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/python/blocks.py");
    println!(
        "nanoseconds per block handed out and taken back, median of {ROUNDS} runs, best in brackets"
    );
    for (name, settings, in_turn) in CASES {
        let mut runs: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let mut command = Command::new(&python);
                command
                    .arg(&script)
                    .args(["libpairs.so", "libblocks.so"].map(|name| folder.join(name)))
                    .args(["10", if in_turn { "1" } else { "0" }])
                    .env("LD_LIBRARY_PATH", folder);
                if let Some(settings) = settings {
                    command
                        .env("LD_PRELOAD", &artefacts.library)
                        .env("OOMHOOK_REPORT", "off")
                        .env("OOMHOOK_OUTPUT", folder.join("%p.trace"))
                        .envs(settings.iter().copied());
                }
                let output = command.output().expect("python runs");
                let errors = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success(), "{errors}");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                text.trim().parse::<f64>().expect("a number")
            })
            .collect();
        runs.sort_by(f64::total_cmp);
        println!("{name:<28} {:>6.0} ({:.0})", runs[ROUNDS / 2], runs[0]);
    }
}
