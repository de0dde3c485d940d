//! The whole library on aarch64, under an emulator: recording, the unwinder behind it and the report at the end.
//!
//! `.ci/aarch64` builds it; `OOMHOOK_TEST_AARCH64` says that this has been done.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{report, root};

struct Machine {
    here: PathBuf,
    folder: tempfile::TempDir,
}

impl Machine {
    /// `None` where it was not prepared.
    fn ready() -> Option<Machine> {
        if std::env::var_os("OOMHOOK_TEST_AARCH64").is_none() {
            eprintln!("NOT RUN: run .ci/aarch64 and set OOMHOOK_TEST_AARCH64=1");
            return None;
        }
        let here = root().join("target/aarch64");
        let folder = tempfile::tempdir().expect("a folder");
        let simulator = here.join("artefacts/liboomhook_sim.so");
        std::os::unix::fs::symlink(&simulator, folder.path().join("libcuda.so.1")).expect("a link");
        Some(Machine { here, folder })
    }

    fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let program = self.folder.path().join(source.replace('.', "-"));
        let done = Command::new("aarch64-linux-gnu-gcc")
            .args(["-g", "-O1", "-I"])
            .arg(root().join("crates/sim/include"))
            .arg(root().join("tests/programs").join(source))
            .args(flags)
            .arg("-o")
            .arg(&program)
            .args(["-ldl", "-lpthread"])
            .status();
        assert!(done.expect("a compiler").success());
        program
    }

    /// Runs a program under the library; its end and the report of its trace.
    fn run(&self, program: &Path, arguments: &[&str]) -> (Output, Value) {
        let trace = self.folder.path().join("one.trace");
        let mut command = Command::new("qemu-aarch64");
        command.arg("-L").arg(self.here.join("sysroot"));
        let settings = [
            ("LD_LIBRARY_PATH", self.folder.path().to_owned()),
            ("LD_PRELOAD", self.here.join("artefacts/liboomhook.so")),
            ("OOMHOOK_OUTPUT", trace.clone()),
        ];
        for (name, value) in settings {
            command.arg("-E").arg(format!("{name}={}", value.display()));
        }
        let output = command.arg(program).args(arguments).output();
        (output.expect("qemu-aarch64 runs"), report(&trace))
    }
}

#[test]
fn stacks_are_taken_and_named() {
    let Some(machine) = Machine::ready() else {
        return;
    };
    let program = machine.compile("stacks.c", &[]);
    let (output, report) = machine.run(&program, &["500"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(report["totals"]["allocs"], 500);
    assert_eq!(report["totals"]["frees"], 500);
    assert_eq!(report["devices"][0]["peak_bytes"], 512);
    let site = &report["devices"][0]["peak"]["sites"][0];
    // go_on and left or right for each of 24 steps, the program's main, and what starts it.
    let frames = site["stack"].as_array().expect("frames").len();
    assert!(frames > 24 * 2, "{frames} frames");
    assert!(errors.contains("stacks.c:13 go_on"), "{errors}");
}

#[test]
fn a_leak_is_found_with_its_line() {
    let Some(machine) = Machine::ready() else {
        return;
    };
    let program = machine.compile("churn.c", &[]);
    let (output, report) = machine.run(&program, &["20000", "300"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(report["complete"], true);
    let totals = &report["totals"];
    let number = |key: &str| totals[key].as_u64().expect("a number");
    assert_eq!(number("allocs"), number("frees") + 1);
    assert_eq!(report["devices"][0]["live_bytes"], 3 * support::MIB);
    assert!(errors.contains("churn.c:7 forget_at_start"), "{errors}");
}
