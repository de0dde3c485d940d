//! Our own unwinder agrees with libgcc's, frame by frame, on thousands of stacks: of a C++ program made for it, and of
//! CPython with the libraries that call back from C. (The checking library ends the process where they differ.)
#![cfg(target_arch = "x86_64")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Bench, Route, root, unwind_check};

fn checker() -> &'static Path {
    static CHECKER: OnceLock<PathBuf> = OnceLock::new();
    CHECKER.get_or_init(unwind_check)
}

/// Built so that the loader finds the checker in its folder.
fn program(flags: &[&str]) -> PathBuf {
    let folder = checker().parent().expect("a folder").display();
    let found = [format!("-L{folder}"), format!("-Wl,-rpath,{folder}")];
    let always = [
        "-std=c++17",
        "-rdynamic",
        &found[0],
        &found[1],
        "-lunwind_check",
    ];
    let all = [&always, flags];
    Bench::shared().build("unwind.cpp", Route::Driver, &all.concat())
}

fn plugins() -> Vec<PathBuf> {
    let build = |number: u32| {
        let name = format!("libunwind{number}.so");
        let number = format!("-DNUMBER={number}");
        Bench::shared().library("unwind_plugin.cpp", &name, &[], &["-O2", &number])
    };
    [1, 4, 7].map(build).to_vec()
}

/// Runs the program; for each kind of stack: its name, the checks, and the stacks left to libgcc.
#[track_caller]
fn run(program: &Path, settings: &[(&str, &str)]) -> Vec<(String, u64, u64)> {
    let output = Command::new(program)
        .args(plugins())
        .envs(settings.iter().copied())
        .output();
    let output = output.expect("it runs");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            assert!(number(2) > number(1), "more frames than stacks: {line}");
            (words[0].to_owned(), number(1), number(3))
        })
        .collect()
}

#[track_caller]
fn agrees(program: &Path, settings: &[(&str, &str)]) {
    let found = run(program, settings);
    let expected = [
        ("sized", 60, 0),
        ("variable", 60, 0),
        ("realigned", 60, 0),
        ("repeats", 91, 0),
        ("callbacks", 0, 0),
        ("functional", 40, 0),
        ("exceptions", 230, 0),
        ("signals", 40, 0),
        ("alternate", 40, 0),
        ("instructions", 1500, 0),
        ("coroutines", 600, 0),
        // Code without unwind information ends a stack; what was registered with libgcc only libgcc knows.
        ("compiled", 70, 0),
        ("registered", 70, 50),
        ("threads", 51, 0),
        ("opened", 540, 0),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((kind, checks, left), (name, wanted, wanted_left)) in found.iter().zip(expected) {
        assert_eq!(kind, name);
        // A signal may come while the loader binds a function, where it keeps the caller's frame in a way of its own.
        let is_rare = name == "instructions" && left * 100 < *checks;
        assert!(*left == wanted_left || is_rare, "{found:?}");
        match name {
            // How often libc compares, and how many files there are, is its own affair.
            "callbacks" => assert!(*checks > 500, "{found:?}"),
            // A timer's signal may come once more before it is stopped.
            "instructions" => assert!(*checks >= wanted, "{found:?}"),
            _ => assert_eq!(*checks, wanted, "{found:?}"),
        }
    }
}

#[test]
fn both_unwinders_agree_without_frame_pointers() {
    agrees(&program(&["-O2", "-fomit-frame-pointer"]), &[]);
}

#[test]
fn both_unwinders_agree_however_the_program_was_compiled() {
    for flags in [
        &["-O0"][..],
        &["-O3", "-fno-omit-frame-pointer"],
        &["-Os", "-fcf-protection=full", "-fstack-protector-all"],
        &["-O2", "-no-pie", "-mno-red-zone", "-Wl,-z,lazy"],
    ] {
        agrees(&program(flags), &[]);
    }
}

#[test]
fn an_older_glibc_without_a_quick_look_up_does_as_well() {
    agrees(&program(&["-O2"]), &[("UNWIND_CHECK_BY_LIST", "1")]);
}

#[test]
fn a_libgcc_that_was_built_for_an_older_glibc_does_as_well() {
    let Some(folder) = std::env::var_os("OOMHOOK_TEST_OLD_LIBGCC") else {
        return eprintln!(
            "NOT RUN: OOMHOOK_TEST_OLD_LIBGCC names no folder with an old libgcc_s.so.1"
        );
    };
    let library = Path::new(&folder).join("libgcc_s.so.1");
    let symbols = Command::new("nm")
        .arg("-D")
        .arg(&library)
        .output()
        .expect("nm");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    assert!(symbols.contains("_Unwind_Find_FDE") && !symbols.contains("_dl_find_object"));
    let folder = folder.to_str().expect("a path");
    agrees(&program(&["-O2"]), &[("LD_LIBRARY_PATH", folder)]);
}

#[test]
fn both_unwinders_agree_through_python_and_the_libraries_that_call_it_back() {
    let output = Command::new("python3")
        .arg(root().join("tests/unwind/callbacks.py"))
        .arg(checker())
        .output();
    let output = output.expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [checks, frames, left] = numbers[..] else {
        panic!("{text}");
    };
    assert!(checks > 2000 && frames > 20 * checks, "{text}");
    assert_eq!(left, 0, "stacks left to libgcc");
}
