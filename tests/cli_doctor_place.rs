//! `oomhook doctor`: what it says of settings, of the place for traces, and of a command, which it never starts.

mod support;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;
use support::doctor::{doctor, executable, flowing, json_of, part, sleep_named, text_of};
use support::{Bench, Route, artefacts, oomhook, root};

#[test]
fn settings_are_judged_as_the_library_judges_them() {
    let settings = [
        ("OOMHOOK_KEEP", "12XB"),
        ("OOMHOOK_DEPTH", "8"),
        ("OOMHOOK_STACK", "off"),
        ("OOMHOOK_SUPPRESS", "/no/such/list"),
        ("OOMHOOK_LABELS", "a=b"),
        ("OOMHOOK_ONLY", "train*"),
        ("CUDA_VISIBLE_DEVICES", "1"),
    ];
    let text = text_of(&doctor(&[], &settings), 0);
    let lines = flowing(&part(&text, "settings").join("\n"));
    assert_eq!(
        lines,
        "settings OOMHOOK_DEPTH=8 wrong: OOMHOOK_KEEP=12XB is none of all, summary, none, or a size such as 512MiB; using \
         2GiB OOMHOOK_ONLY=train* wrong: OOMHOOK_STACK is no setting of oomhook (README lists them) wrong: \
         OOMHOOK_SUPPRESS=/no/such/list cannot be read: No such file or directory; correct its path or unset it"
    );
    let said = flowing(&text);
    assert!(said.contains("OOMHOOK_ONLY=train*: only commands of such a name are watched"));
    assert!(
        said.contains(
            "CUDA_VISIBLE_DEVICES=1: programs see only these GPUs, and number them from 0"
        )
    );
    let found = json_of(&[], &[("OOMHOOK_DEPTH", "many")], 0);
    assert_eq!(
        found["settings"],
        json!([{
            "name": "OOMHOOK_DEPTH",
            "value": "many",
            "problem": "OOMHOOK_DEPTH=many is no number from 1 to 256; using 64",
        }])
    );
    for (name, value, obstacle) in [
        ("OOMHOOK", "0", "OOMHOOK=0 switches recording off: unset it"),
        (
            "CUDA_VISIBLE_DEVICES",
            "-1",
            "CUDA_VISIBLE_DEVICES hides every GPU: unset it",
        ),
        (
            "CUDA_VISIBLE_DEVICES",
            "",
            "CUDA_VISIBLE_DEVICES hides every GPU: unset it",
        ),
    ] {
        assert_eq!(
            json_of(&[], &[(name, value)], 1)["obstacles"],
            json!([obstacle])
        );
    }
}

#[test]
fn every_setting_that_readme_lists_is_known() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    let rows = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `OOMHOOK"));
    let names: Vec<_> = rows
        .filter_map(|row| row.split('`').next())
        .map(|rest| format!("OOMHOOK{rest}"))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let found = json_of(&[], &[(&name, "1")], 0);
        let problem = &found["settings"][0]["problem"];
        assert!(!problem.to_string().contains("is no setting"), "{problem}");
    }
}

#[test]
fn the_place_for_traces_is_looked_at_and_left_alone() {
    let folder = Bench::shared().new_folder();
    let taken = folder.join("file");
    std::fs::write(&taken, "").expect("a file");
    for (pattern, reason) in [
        (
            "/no/such/%p.trace".to_owned(),
            "/no/such: there is no such folder",
        ),
        (
            format!("{}/%p.trace", taken.display()),
            "file: it is no folder",
        ),
        (
            "/proc/%p.trace".to_owned(),
            "/proc: it belongs to the kernel",
        ),
    ] {
        let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 1);
        assert_eq!(found["traces"]["writable"], false, "{pattern}");
        assert_eq!(found["traces"]["instead"], "/dev/shm");
        let obstacle = found["obstacles"][0].as_str().expect("an obstacle");
        assert!(
            obstacle.starts_with("traces cannot be written in "),
            "{obstacle}"
        );
        assert!(
            obstacle.ends_with(&format!("{reason}; traces would go to /dev/shm")),
            "{obstacle}"
        );
        assert_eq!(found["next"], "oomhook run -o /tmp/traces -- CMD");
        let quiet = [
            ("OOMHOOK_OUTPUT", pattern.as_str()),
            ("OOMHOOK_KEEP", "none"),
        ];
        let text = text_of(&doctor(&[], &quiet), 0);
        assert!(
            text.contains("\ntraces    no file is kept (OOMHOOK_KEEP=none)\n"),
            "{text}"
        );
    }
    let place = folder.join("50%% done");
    std::fs::create_dir(folder.join("50% done")).expect("a folder");
    let pattern = place.join("%h/%p.trace").display().to_string();
    let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 0);
    let wanted = folder.join("50% done").display().to_string();
    assert_eq!(
        (&found["traces"]["folder"], &found["traces"]["varies"]),
        (&json!(wanted), &json!(true))
    );
    assert!(
        found["traces"]["free_bytes"]
            .as_u64()
            .is_some_and(|free| free > 0)
    );
    let left: Vec<_> = std::fs::read_dir(folder.join("50% done"))
        .expect("a folder")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let pattern = folder.display().to_string();
    let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 0);
    assert!(
        found["notes"]
            .to_string()
            .contains("is a folder: the trace would lie beside it")
    );
}

#[test]
fn the_library_and_the_preload_are_named() {
    let library = artefacts().library.canonicalize().expect("a path");
    let other = "/no/such/lib.so";
    let preload = format!("{} {other}", library.display());
    let mut command = oomhook();
    command
        .args(["doctor", "--json"])
        .env("LD_LIBRARY_PATH", Bench::shared().path("sim"))
        .env("LD_PRELOAD", preload);
    // The loader itself complains about the missing one.
    let output = command.output().expect("it starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["library"]["path"], json!(library));
    assert_eq!(
        found["ld_preload"][1],
        json!({"path": other, "missing": true})
    );
    assert_eq!(found["ld_preload"][0]["missing"], false);
    assert!(
        found["notes"]
            .to_string()
            .contains("LD_PRELOAD names /no/such/lib.so, which is missing")
    );
    let found = json_of(&[], &[("OOMHOOK_LIB", other)], 1);
    assert_eq!(found["library"]["path"], Value::Null);
    assert_eq!(found["next"], "export OOMHOOK_LIB=/path/to/liboomhook.so");
}

#[test]
fn how_a_program_reaches_cuda_is_read_from_its_file() {
    let bench = Bench::shared();
    for (route, said) in [
        (Route::Shared, "links libcudart.so.13"),
        (Route::Static, "a static CUDA runtime is inside"),
    ] {
        let program = bench.build("leak.c", route, &[]);
        let program = program.to_str().expect("UTF-8");
        let text = text_of(&doctor(&["--", program, "it's"], &[]), 0);
        assert!(
            text.contains(&format!("\n          CUDA: {said}\n")),
            "{text}"
        );
        assert!(flowing(&text).contains(&format!("{program}: can be watched")));
        assert!(
            text.ends_with(&format!("\nNext: oomhook run -- {program} 'it'\\''s'\n")),
            "{text}"
        );
    }
    let driver = bench.build("driver.c", Route::Driver, &[]);
    let text = text_of(&doctor(&["--", driver.to_str().expect("UTF-8")], &[]), 0);
    assert!(
        text.contains("\n          CUDA: opens libcuda.so.1 by itself\n"),
        "{text}"
    );
    let text = text_of(&doctor(&["--", "true"], &[]), 0);
    assert!(flowing(&text).contains("CUDA: nothing visible in the file; it may load CUDA later"));
}

#[test]
fn what_cannot_be_watched_is_said_with_its_reason() {
    let bench = Bench::shared();
    let source = bench.path("nothing.c");
    std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
    let program = bench.path("nothing-static");
    let built = Command::new("cc")
        .arg("-static")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("cc").success());
    let setuid = sleep_named(OsStr::new("setuid-sleep"));
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).expect("a mode");
    assert_eq!(setuid.metadata().expect("a file").mode() & 0o4000, 0o4000);
    let docker = executable(OsStr::new("docker"), b"#!/bin/sh\n");
    let script = executable(
        OsStr::new("script"),
        format!("#!{}\n", program.display()).as_bytes(),
    );
    let missing = executable(OsStr::new("orphan"), b"#!/no/such/interpreter\n");
    let windows = executable(OsStr::new("windows"), b"#!/bin/sh\r\necho\r\n");
    let nameless = executable(OsStr::new("nameless"), b"#! \n");
    let bare = executable(OsStr::new("bare"), b"echo\n");
    let cut = executable(OsStr::new("cut"), b"\x7fELF");
    let behind_env = executable(
        OsStr::new("behind-env"),
        b"#!/usr/bin/env -S no-such-python -u\n",
    );
    let itself = executable(OsStr::new("itself"), b"#!x\n");
    std::fs::write(&itself, format!("#!{}\n", itself.display())).expect("a file");
    // The first 20 bytes of an ELF file tell the machine.
    let mut elf = std::fs::read("/bin/sleep").expect("sleep");
    elf[18..20].copy_from_slice(&243u16.to_le_bytes());
    let foreign = executable(OsStr::new("foreign"), &elf);
    // And the path inside it the loader.
    let mut elf = std::fs::read("/bin/sleep").expect("sleep");
    let loader = b"/lib64/ld-linux-x86-64.so.2";
    if let Some(at) = elf.windows(loader.len()).position(|part| part == loader) {
        elf[at..at + loader.len()].copy_from_slice(b"/lib/ld-musl-x86_64.so.1\0\0\0");
        let musl = executable(OsStr::new("musl"), &elf);
        let found = json_of(&["--", musl.to_str().expect("UTF-8")], &[], 1);
        let said = found["obstacles"][0].as_str().expect("an obstacle");
        assert!(
            said.contains("runs on musl, and the library on glibc"),
            "{said}"
        );
    }
    for (path, words, next) in [
        (
            &program,
            "is statically linked: LD_PRELOAD has no effect there",
            "oomhook doctor -- ",
        ),
        (
            &script,
            "is statically linked: LD_PRELOAD has no effect there",
            "oomhook doctor -- ",
        ),
        (
            &setuid,
            "is setuid or setgid: the loader ignores LD_PRELOAD there",
            "oomhook doctor -- ",
        ),
        (
            &foreign,
            "is built for another machine (ELF number 243), and the library for",
            "oomhook doctor -- ",
        ),
        (
            &docker,
            "docker starts the work in a container: put oomhook inside it",
            "oomhook env",
        ),
        (
            &missing,
            "is a script for /no/such/interpreter, which is missing",
            "oomhook doctor -- ",
        ),
        (
            &windows,
            "ends as lines do on Windows",
            "oomhook doctor -- ",
        ),
        (&nameless, "names no interpreter", "oomhook doctor -- "),
        (&bare, "only a shell can start it", "oomhook doctor -- "),
        (
            &cut,
            "is damaged: an ELF file that ends early",
            "oomhook doctor -- ",
        ),
        (
            &behind_env,
            "no-such-python: no such program",
            "oomhook doctor -- ",
        ),
        (
            &itself,
            "names itself as its interpreter",
            "oomhook doctor -- ",
        ),
    ] {
        let path = path.to_str().expect("UTF-8");
        let found = json_of(&["--", path], &[], 1);
        assert_eq!(found["command"]["watchable"], false, "{path}");
        assert!(
            found["obstacles"][0].to_string().contains(words),
            "{found:#}"
        );
        assert!(
            found["next"]
                .as_str()
                .is_some_and(|said| said.starts_with(next)),
            "{found:#}"
        );
        let text = text_of(&doctor(&["--", path], &[]), 1);
        assert!(
            text.starts_with("oomhook doctor: one thing stands in the way\n  - "),
            "{text}"
        );
    }
    let text = text_of(&doctor(&["--", "no-such-program"], &[]), 1);
    assert!(
        text.contains("no-such-program: no such program; check the name and PATH"),
        "{text}"
    );
    let wrong = doctor(&["--nonsense"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_command_is_never_started() {
    let folder = Bench::shared().new_folder();
    let trace = folder.join("started");
    let script = executable(
        OsStr::new("script"),
        format!("#!/bin/sh\ntouch {}\n", trace.display()).as_bytes(),
    );
    text_of(&doctor(&["--", script.to_str().expect("UTF-8")], &[]), 0);
    assert!(!trace.exists());
}

/// A stand-in for an interpreter that tells its version as Python would.
fn false_python(name: &str, answer: &str) -> PathBuf {
    executable(
        OsStr::new(name),
        format!("#!/bin/sh\n{answer}\n").as_bytes(),
    )
}

#[test]
fn python_is_asked_for_its_version_and_no_more() {
    let asked = Command::new("python3")
        .args([
            "-c",
            "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)",
        ])
        .output()
        .expect("python3");
    let asked = String::from_utf8(asked.stdout).expect("text");
    let mut lines = asked.lines();
    let (version, path) = (
        lines.next().expect("a version"),
        lines.next().expect("a path"),
    );
    let script = executable(
        OsStr::new("train.py"),
        b"#!/usr/bin/env python3\nraise SystemExit(1)\n",
    );
    for command in [
        &["python3", "train.py"][..],
        &[script.to_str().expect("UTF-8")],
        &["env", "A=1", "python3"],
    ] {
        let found = json_of(&[&["--"], command].concat(), &[], 0);
        let python = &found["command"]["python"];
        assert_eq!(
            (&python["version"], &python["frames"]),
            (&json!(version), &json!(true)),
            "{found:#}"
        );
        assert_eq!(python["implementation"], "cpython");
    }
    let text = text_of(&doctor(&["--", "python3", "train.py"], &[]), 0);
    let said = format!("Python: CPython {version} ({path}): its frames are read");
    assert!(flowing(&text).contains(&said), "{text}");
    let without = [("OOMHOOK_STACKS", "native")];
    let text = text_of(&doctor(&["--", "python3"], &without), 0);
    assert!(
        text.contains("OOMHOOK_STACKS leaves Python frames out"),
        "{text}"
    );

    for (answer, words) in [
        (
            "echo cpython 3.13.1 -t /opt/my python/bin/python",
            "CPython 3.13.1 (/opt/my python/bin/python): native frames only, since those of a free-threaded build cannot be read",
        ),
        (
            "echo cpython 3.7.16 -m ''",
            "native frames only, since only those of CPython 3.8 to 3.14 can be read",
        ),
        (
            "echo pypy 3.10.13 - /p",
            "Python: pypy 3.10.13 (/p): native frames only, since only CPython's frames can be read",
        ),
        (
            "exit 1",
            "native frames only, since it did not tell its version within 5 s",
        ),
    ] {
        let python = false_python("python3", answer);
        let text = text_of(&doctor(&["--", python.to_str().expect("UTF-8")], &[]), 0);
        assert!(flowing(&text).contains(words), "{text}");
    }
}

#[test]
fn an_interpreter_that_hangs_is_left() {
    let folder = Bench::shared().new_folder();
    let pid = folder.join("pid");
    // A grandchild holds the pipe.
    let python = false_python(
        "python3",
        &format!("sleep 1000 & echo $! > {}; wait", pid.display()),
    );
    let begun = std::time::Instant::now();
    let text = text_of(&doctor(&["--", python.to_str().expect("UTF-8")], &[]), 0);
    assert!(
        flowing(&text).contains("it did not tell its version within 5 s"),
        "{text}"
    );
    assert!(begun.elapsed().as_secs() < 60);
    // Nothing of it is left, once the kernel has ended it.
    let pid = std::fs::read_to_string(pid).expect("its number");
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    while std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(sleep) S")) {
        assert!(begun.elapsed().as_secs() < 60, "it lives");
        std::thread::yield_now();
    }
}
