//! Processes that have nothing to do with CUDA are left alone, and the library and the command export only what they
//! must.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use support::{Bench, Route, artefacts, exported, hooked};

/// Nothing would differ either if the library were not loaded.
#[track_caller]
fn is_loaded() {
    let mut command = Command::new("grep");
    command
        .args(["-c", "liboomhook", "/proc/self/maps"])
        .env("LD_PRELOAD", &artefacts().library);
    let output = command.output().expect("grep runs");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// Runs a command without and with the library, each in an empty folder; nothing may differ, and no file appear.
#[track_caller]
fn bystander(program: &str, arguments: &[&str]) -> Output {
    let bench = Bench::shared();
    let run = |preload: Option<&Path>| {
        let folder = bench.new_folder();
        let mut command = bench.plain(Path::new(program), arguments);
        command
            .current_dir(&folder)
            .env("TMPDIR", &folder)
            .env("HOME", &folder);
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let output = command.output().expect("the command runs");
        let files: Vec<_> = fs::read_dir(&folder).expect("the folder").collect();
        assert!(files.is_empty(), "{program} leaves {files:?}");
        output
    };
    is_loaded();
    let without = run(None);
    let with = run(Some(&artefacts().library));
    assert_eq!(with, without, "{program} {arguments:?}");
    with
}

#[test]
fn ordinary_commands_behave_as_ever() {
    bystander("true", &[]);
    assert_eq!(bystander("false", &[]).status.code(), Some(1));
    assert_eq!(
        bystander("bash", &["-c", "echo out; echo err >&2; exit 7"])
            .status
            .code(),
        Some(7)
    );
    bystander(
        "bash",
        &[
            "-c",
            "for i in $(seq 100); do /bin/true || exit 1; done; echo done",
        ],
    );
    bystander("bash", &["-c", "kill -TERM $$"]);
    bystander("git", &["--version"]);
    bystander("python3", &["-c", "pass"]);
    bystander(
        "python3",
        &[
            "-c",
            "import os, sys; child = os.fork(); child and os.waitpid(child, 0); sys.exit(5)",
        ],
    );
    bystander("ls", &["/nonexistent"]);
}

#[test]
fn a_process_that_only_looks_for_devices_leaves_no_trace() {
    let bench = Bench::shared();
    let program = bench.build("idle.c", Route::Shared, &[]);
    let output = bystander(&program.display().to_string(), &["looks around"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "2 devices, 1, 201, 1 threads\n"
    );
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn errno_is_the_programs_own() {
    let bench = Bench::shared();
    let program = bench.build("idle.c", Route::Shared, &[]);
    let without = bench.plain(&program, &["errno"]).output().expect("it runs");
    let ran = bench.run(&program, &["errno"], &[]);
    let without = String::from_utf8(without.stdout).expect("text");
    // EXDEV, which the program has set.
    assert!(
        without.lines().all(|line| line.ends_with("errno 18")),
        "{without}"
    );
    ran.says(0, &without)
        .is("/totals/allocs", 3)
        .is("/totals/failed_frees", 1);
}

#[test]
fn an_allocator_that_looks_itself_up_is_not_asked_meanwhile() {
    let bench = Bench::shared();
    let allocator = bench.library("allocator.c", "liballocator.so", &[], &["-fno-builtin"]);
    let program = bench.build("leak.c", Route::Shared, &[]);
    let ours = artefacts().library.display().to_string();
    let allocator = allocator.display().to_string();
    let without = bench
        .plain(&program, &[])
        .env("LD_PRELOAD", &allocator)
        .output()
        .expect("it runs");
    let without = String::from_utf8(without.stdout).expect("text");
    assert!(without.ends_with(" times meanwhile\n"), "{without}");
    for order in [format!("{ours}:{allocator}"), format!("{allocator}:{ours}")] {
        let mut run = bench.start(&program, &[]);
        run.command.env("LD_PRELOAD", order);
        let ran = run.finish();
        ran.says(0, &without)
            .is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", 5 << 20);
    }
}

fn tool(name: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(name)
        .args(arguments)
        .arg(file)
        .output()
        .expect("binutils");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_library_needs_libc_and_libgcc_alone() {
    let dynamic = tool("readelf", &["-dW"], &artefacts().library);
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<_> = needed
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(needed.contains(&"libc.so.6"), "{dynamic}");
    for library in needed {
        let known =
            ["libc.so.6", "libgcc_s.so.1"].contains(&library) || library.starts_with("ld-linux");
        assert!(known, "{library}");
    }
}

#[test]
fn the_library_exports_the_hooked_names_and_dlsym() {
    let mut wanted: BTreeSet<_> = hooked().into_iter().collect();
    // And the ends that nobody else would tell of, and what a program says of signals.
    let ends = "dlsym _exit _Exit quick_exit execve execv execvp execvpe execl execlp execle fexecve execveat";
    let signals = "sigaction signal sigset bsd_signal ssignal sysv_signal __sysv_signal";
    // And by which it is heard what a program says.
    let words = "write writev";
    let others = ends
        .split(' ')
        .chain(signals.split(' '))
        .chain(words.split(' '));
    wanted.extend(others.map(str::to_owned));
    // And the names that PyTorch's words for what its cache does have had.
    for sizes in ["lll", "lmm", "mmm"] {
        wanted.insert(format!(
            "_ZN3c1027reportOutOfMemoryToProfilerE{sizes}NS_6DeviceE"
        ));
    }
    for sizes in ["lll", "lmm"] {
        wanted.insert(format!(
            "_ZN3c1027reportMemoryUsageToProfilerEPv{sizes}NS_6DeviceE"
        ));
    }
    // And what NVTX and `oomhook.h` ask for.
    for name in [
        "InitializeInjectionNvtx2",
        "oomhook_mark",
        "oomhook_push",
        "oomhook_pop",
        "oomhook_report",
    ] {
        wanted.insert(name.to_owned());
    }
    let found: BTreeSet<_> = exported(&artefacts().library).into_iter().collect();
    assert_eq!(found, wanted);
}

#[test]
fn the_command_is_no_library() {
    let symbols = tool("nm", &[], Path::new(env!("CARGO_BIN_EXE_oomhook")));
    assert!(symbols.contains(" T main"), "the symbols of the command");
    let hooks = hooked();
    for line in symbols.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let [_, kind, name] = words[..] {
            let ours = name == "dlsym" || hooks.contains(name);
            assert!(!ours || kind == "U" || kind == "w", "{line}");
        }
    }
}
