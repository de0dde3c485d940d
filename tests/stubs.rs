//! The naked stubs do what their comments say, on x86_64 and (under an emulator) on aarch64.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The assembler text of both stubs as the library contains it, with the names of the test program put in.
fn assembler(architecture: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/preload/doors");
    let text = |name: &str| {
        let text = fs::read_to_string(folder.join(format!("{name}_{architecture}.s")))
            .expect("the stub's text");
        [
            ("{decide}", "decide"),
            ("{real}", "REAL"),
            ("{target}", "target"),
            ("{row}", "300"),
        ]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
    };
    let syntax = if architecture == "x86_64" {
        ".intel_syntax noprefix\n"
    } else {
        ""
    };
    let function = |name: &str, body: &str| {
        format!(".globl {name}\n.type {name}, %function\n{name}:\n{body}\n.size {name}, .-{name}\n")
    };
    format!(
        "{syntax}.text\n{}{}.section .note.GNU-stack,\"\",%progbits\n",
        function("stub_dlsym", &text("dlsym")),
        function("stub_runtime", &text("runtime"))
    )
}

fn check(architecture: &str, compiler: &str, flags: &[&str], emulator: Option<&[&str]>) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("stubs.s");
    let program = folder.path().join("stubs");
    fs::write(&source, assembler(architecture)).expect("a file");
    let built = Command::new(compiler)
        .args([
            "-g",
            "-O1",
            "-fno-inline",
            "-fno-optimize-sibling-calls",
            "-no-pie",
        ])
        .args(flags)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stubs.c"))
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("a compiler");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    let mut command = match emulator {
        Some([name, arguments @ ..]) => {
            let mut command = Command::new(name);
            command.args(arguments).arg(&program);
            command
        }
        _ => Command::new(&program),
    };
    let ran = command.output().expect("it runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(
        ran.status.success() && output == "stubs: right\n",
        "{output}{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_stubs_are_right_on_x86_64() {
    check("x86_64", "cc", &[], None);
}

/// Needs a cross compiler and qemu-user; `.ci/run` installs them and says so by `OOMHOOK_TEST_AARCH64=1`.
#[test]
fn the_stubs_are_right_on_aarch64() {
    if std::env::var_os("OOMHOOK_TEST_AARCH64").is_none() {
        eprintln!(
            "not run: set OOMHOOK_TEST_AARCH64=1 where aarch64-linux-gnu-gcc and qemu-aarch64 are installed"
        );
        return;
    }
    let emulator = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"];
    check("aarch64", "aarch64-linux-gnu-gcc", &[], Some(&emulator));
}
