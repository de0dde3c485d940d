//! The command on traces made here, byte by byte: exact numbers, exit codes, and what it says to bad files.

#[path = "support/story.rs"]
mod story;

use oomhook_trace::Record;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use story::{MIB, Story, healthy, leaky};
use tempfile::TempDir;

fn oomhook(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OOMHOOK")) {
        command.env_remove(name);
    }
    command.args(arguments).env_remove("COLUMNS");
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    ended(&oomhook(arguments).output().expect("the command starts"))
}

fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("an exit code");
    (code, text(&output.stdout), text(&output.stderr))
}

fn json(path: &Path) -> Value {
    let (code, out, err) = run(&["report", "--json", text(path)]);
    assert_eq!((code, err.as_str()), (0, ""));
    serde_json::from_str(&out).expect("JSON")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn json_has_the_exact_numbers() {
    let folder = TempDir::new().expect("a folder");
    let report = json(&leaky(42).write(&folder));
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    for (pointer, wanted) in [
        ("/schema_version", 1),
        ("/process/pid", 42),
        ("/process/exit_code", 0),
        ("/process/duration_ns", 7_000_000),
        ("/totals/allocs", 4),
        ("/totals/frees", 2),
        ("/totals/cumulative_bytes", 302 * MIB),
        ("/devices/0/device", 0),
        ("/devices/0/peak_bytes", 314_572_800),
        ("/devices/0/peak_event", 2),
        ("/devices/0/peak_time_ns", 2_000_000),
        ("/devices/0/live_bytes", 2_097_152),
        ("/devices/0/live_blocks", 2),
        ("/devices/0/spaces/device/allocs", 4),
        ("/devices/0/spaces/async/live_bytes", 0),
        ("/devices/0/peak/sites/0/bytes", 200 * MIB),
        ("/devices/0/peak/sites/1/bytes", 100 * MIB),
        ("/leaks/0/bytes", 2_097_152),
        ("/leaks/0/blocks", 2),
        ("/leaks/0/allocs", 3),
        ("/released/by_reset/device/bytes", 0),
        ("/anomalies/double_free", 0),
    ] {
        assert_eq!(number(pointer), Some(wanted), "{pointer}");
    }
    assert_eq!(report["complete"], true);
    assert_eq!(report["process"]["end"], "exit");
    assert_eq!(report["process"]["signal"], Value::Null);
    assert_eq!(
        report["devices"][0]["uuid"],
        "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    );
    let leak = &report["leaks"][0];
    assert_eq!(leak["class"], "one_time");
    assert_eq!(leak["site"], "libweights.so+0x300");
    assert_eq!(leak["library"], "libweights.so");
    assert_eq!(leak["via"], Value::Null);
    assert_eq!(leak["stack"][0]["library"], "libcudart.so.13");
    assert_eq!(leak["stack"][1]["offset"], 0x300);
}

#[test]
fn text_says_the_verdict_first_and_the_next_command_last() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let (code, out, err) = run(&["report", text(&path)]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "oomhook: leak: 2.0 MiB in 2 blocks from libweights.so+0x300"
    );
    let next = format!(
        "next: oomhook report {} --by stack --at exit",
        path.display()
    );
    assert_eq!(lines.last(), Some(&&*next));
    assert!(lines.len() <= 30, "{out}");
    let (_, healthy, _) = run(&["report", text(&healthy(43).write(&folder))]);
    assert!(
        healthy.starts_with("oomhook: no leak; peak 300.0 MiB on GPU 0\n"),
        "{healthy}"
    );
}

#[test]
fn text_fits_the_columns_and_has_no_escapes_in_a_pipe() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    for columns in [60, 80, 160] {
        let output = oomhook(&["report", text(&path)])
            .env("COLUMNS", columns.to_string())
            .output();
        let (_, out, _) = ended(&output.expect("the command starts"));
        for line in out.lines().filter(|line| !line.starts_with("next: ")) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
        assert!(!out.contains('\x1b'));
    }
}

#[test]
fn a_table_is_grouped_as_asked() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let rows = |arguments: &[&str]| -> Vec<String> {
        let (code, out, _) = run(&[&["report", text(&path)], arguments].concat());
        assert_eq!(code, 0);
        let (out, next) = out.split_once("\nnext: ").expect("a next command");
        assert!(next.starts_with("oomhook report "), "{next}");
        // The libraries of these traces are nowhere, which is said where they matter.
        let (table, note) = out.split_once("\nnote: ").unwrap_or((out, ""));
        assert_eq!(note.is_empty(), arguments.contains(&"api"), "{note}");
        table.lines().skip(2).map(str::to_owned).collect()
    };
    assert_eq!(
        rows(&["--by", "library"]),
        [
            " 200.0 MiB   66.7%         1  libweights.so",
            " 100.0 MiB   33.3%         1  trainer",
        ]
    );
    assert_eq!(
        rows(&["--by", "api", "--at", "exit"]),
        ["   2.0 MiB  100.0%         2  cudaMalloc"]
    );
    assert_eq!(
        rows(&["--by", "stack", "--at", "exit"]),
        [
            "   2.0 MiB  100.0%         2  libweights.so+0x300",
            "        libcudart.so.13+0x100 (build-id 010203)",
            "        libweights.so+0x300 (build-id 010203)",
        ]
    );
    assert_eq!(
        rows(&["--by", "site", "--top", "1"]),
        [
            " 200.0 MiB   66.7%         1  libweights.so+0x300",
            "            100.0 MiB in 1 more row (--top shows more)",
        ]
    );
    let (_, out, _) = run(&["report", text(&path), "--at", "oom"]);
    assert!(
        out.starts_with("Live when memory ran out last: memory never ran out\n"),
        "{out}"
    );
}

#[test]
fn several_processes_are_merged_by_the_uuid_of_their_devices() {
    let folder = TempDir::new().expect("a folder");
    healthy(43).write(&folder);
    leaky(42).write(&folder);
    let report = json(folder.path());
    let pids: Vec<_> = report["processes"]
        .as_array()
        .expect("processes")
        .iter()
        .map(|process| process["process"]["pid"].as_u64())
        .collect();
    assert_eq!(pids, [Some(42), Some(43)]);
    let merged = &report["merged"];
    assert_eq!(merged["devices"].as_array().map(Vec::len), Some(1));
    assert_eq!(merged["devices"][0]["processes"], 2);
    assert_eq!(merged["devices"][0]["highest_peak_bytes"], 300 * MIB);
    assert_eq!(merged["devices"][0]["peak_bytes"], 600 * MIB);
    assert_eq!(merged["devices"][0]["estimated"], true);
    assert_eq!(merged["leaks"][0]["bytes"], 2 * MIB);
    let (code, out, _) = run(&["report", text(folder.path())]);
    assert_eq!(code, 0);
    let last = out.lines().last();
    assert_eq!(
        last,
        Some("oomhook: no leak; peak 300.0 MiB on GPU 0 (pid 43, trainer)")
    );
}

#[test]
fn a_cut_trace_is_reported_as_far_as_it_goes() {
    let folder = TempDir::new().expect("a folder");
    let story = Story::new(42)
        .alloc(1, 0x1000, 100 * MIB)
        .alloc(2, 0x2000, 200 * MIB)
        .free(0x1000)
        .exits();
    let whole = story.bytes(1);
    // Without the last chunk, and with a piece of it.
    let last = story.records.len() - 1;
    let shorter = Story {
        records: story.records[..last].to_vec(),
        ..Story::new(42)
    };
    let cut = shorter.bytes(1).len();
    for (length, damaged) in [(cut, false), (cut + 20, true)] {
        let path = folder.path().join("cut.trace");
        std::fs::write(&path, &whole[..length]).expect("a file");
        let report = json(&path);
        assert_eq!(report["complete"], false);
        assert_eq!(report["process"]["end"], "unfinished");
        assert_eq!(report["process"]["exit_code"], Value::Null);
        assert_eq!(report["devices"][0]["live_bytes"], 200 * MIB);
        let notes = report["notes"].as_array().expect("notes");
        let note = notes[0].as_str().expect("a note");
        assert!(note.starts_with("trace ends early at event 2"), "{note}");
        let last = notes.last().and_then(Value::as_str).expect("a note");
        assert!(last.starts_with("not on this machine: "), "{last}");
        assert_eq!(notes.len(), 2 + usize::from(damaged), "{notes:?}");
        let (code, out, _) = run(&["report", text(&path)]);
        assert_eq!(code, 0);
        assert!(
            out.starts_with(
                "oomhook: ended without a closing record (killed?), 200.0 MiB live in 1 block; peak"
            ),
            "{out}"
        );
        assert!(out.contains("trace ends early at event 2"), "{out}");
        // How much would have been live at exit is not known; how high the peak was so far is.
        let gates = [("--max-live-at-exit=1GiB", 2), ("--max-peak=1MiB", 1)];
        for (gate, wanted) in gates {
            let (code, out, _) = run(&["check", text(&path), gate]);
            assert_eq!(code, wanted, "{out}");
        }
    }
}

#[test]
fn a_damaged_middle_is_named_and_the_rest_is_reported() {
    let folder = TempDir::new().expect("a folder");
    let story = healthy(42);
    let mut bytes = story.bytes(4);
    let header = story.header.encode().expect("a header").len();
    bytes[header + 40] ^= 0x55;
    let path = folder.path().join("damaged.trace");
    std::fs::write(&path, bytes).expect("a file");
    let report = json(&path);
    assert_eq!(report["complete"], true);
    assert_eq!(report["devices"][0]["peak_bytes"], 300 * MIB);
    let notes = report["notes"].to_string();
    assert!(notes.contains("the trace is damaged: "), "{notes}");
    let (code, out, _) = run(&["check", text(&path), "--max-peak", "300MiB"]);
    assert_eq!(code, 2, "{out}");
    assert!(out.contains("its trace is damaged"), "{out}");
    let (code, out, _) = run(&["check", text(&path), "--max-peak", "299MiB"]);
    assert_eq!(code, 1, "{out}");
}

#[test]
fn files_that_are_no_traces_are_refused_in_one_line() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        path
    };
    let empty = file("empty", b"");
    let foreign = file("foreign", b"#!/bin/sh\necho no trace at all\n");
    let header = healthy(1).bytes(100);
    let short = file("short", &header[..30]);
    let missing = folder.path().join("missing");
    let nothing = folder.path().join("nothing");
    std::fs::create_dir(&nothing).expect("a folder");
    for (path, words) in [
        (empty, "is empty"),
        (foreign, "is not an oomhook trace"),
        (short, "has a damaged header"),
        (
            missing,
            "cannot be read: No such file or directory; check the name",
        ),
        (nothing, "no readable trace in it"),
    ] {
        for verb in [&["report"][..], &["check", "--max-peak", "1GiB"]] {
            let (code, out, err) = run(&[verb, &[text(&path)]].concat());
            assert_eq!((code, out.as_str()), (2, ""), "{err}");
            let (verb, path) = (verb[0], path.display());
            assert!(err.starts_with(&format!("oomhook {verb}: {path}")), "{err}");
            assert!(err.contains(words), "{err}");
            assert_eq!(err.lines().count(), 1, "{err}");
        }
    }
}

#[test]
fn one_bad_file_in_a_directory_does_not_hide_the_others() {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("bad.trace"), b"").expect("a file");
    leaky(42).write(&folder);
    let (code, out, err) = run(&["report", "--json", text(folder.path())]);
    assert_eq!(code, 0);
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["process"]["pid"], 42);
    assert!(err.contains("bad.trace is empty"), "{err}");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let script = format!(
        "'{}' report --json '{}' 2>err | true; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_oomhook"),
        path.display()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    let err = std::fs::read_to_string(folder.path().join("err"));
    assert_eq!(err.expect("a file"), "");
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let trace = text(&path);
    for (arguments, words) in [
        (vec!["check", trace], "nothing to check"),
        (
            vec!["check", trace, "--max-peak", "many"],
            "`many` is no size",
        ),
        (vec!["check", trace, "--write-baseline"], "--baseline"),
        (
            vec!["check", trace, "--baseline", "/no/such"],
            "--write-baseline makes it",
        ),
        (vec!["check", trace, "--baseline", trace], "is no baseline"),
        (vec!["report", trace, "--by", "colour"], "invalid value"),
        (vec!["report"], "TRACE"),
        (vec!["reprot", trace], "report"),
    ] {
        let (code, out, err) = run(&arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(words), "{arguments:?}: {err}");
    }
}

#[test]
fn suppressed_leaks_are_left_out_and_counted() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let list = folder.path().join("list");
    std::fs::write(&list, "# known\nleak:libweights\n").expect("a file");
    let check = |list: &Path| {
        let mut command = oomhook(&["check", text(&path), "--fail-on-leak"]);
        ended(
            &command
                .env("OOMHOOK_SUPPRESS", list)
                .output()
                .expect("it starts"),
        )
    };
    assert_eq!(check(&list).0, 0);
    let mut command = oomhook(&["report", "--json", text(&path)]);
    let (_, out, _) = ended(
        &command
            .env("OOMHOOK_SUPPRESS", &list)
            .output()
            .expect("it starts"),
    );
    let report: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(report["leaks"].as_array().map(Vec::len), Some(0));
    assert_eq!(report["notes"][0], "2.0 MiB in 2 blocks suppressed");
    std::fs::write(&list, "leak:\n").expect("a file");
    let (code, _, err) = check(&list);
    assert_eq!(code, 2);
    assert!(err.contains("line 1: `leak:` is no suppression"), "{err}");
}

#[test]
fn stacks_that_look_the_same_are_one_and_threads_of_one_name_are_two() {
    let folder = TempDir::new().expect("a folder");
    let mut story = Story::new(42);
    // Another stack of the same frames, as two loads of a library make it.
    story.records.push(Record::Stack {
        id: 3,
        frames: vec![1, 3],
    });
    for (id, tid) in [(0, 100), (1, 101)] {
        story.records.push(Record::Thread {
            id,
            tid,
            name: "worker".into(),
        });
    }
    let mut story = story.alloc(2, 0x1000, MIB).alloc(3, 0x2000, MIB);
    if let Some(Record::Event(event)) = story.records.last_mut() {
        event.thread = 1;
    }
    let path = story.exits().write(&folder);
    let (_, out, _) = run(&["report", text(&path), "--by", "stack"]);
    assert_eq!(out.matches("libweights.so+0x300").count(), 2, "{out}");
    assert!(out.contains("2.0 MiB  100.0%         2"), "{out}");
    let (_, out, _) = run(&["report", text(&path), "--by", "thread"]);
    for thread in ["worker (tid 100)", "worker (tid 101)"] {
        assert!(out.contains(thread), "{out}");
    }
}

#[test]
fn check_ends_with_the_next_command_and_judges_past_a_bad_file() {
    let folder = TempDir::new().expect("a folder");
    let path = leaky(42).write(&folder);
    let next = format!("next: oomhook report {} --by stack --at", path.display());
    for (gate, at) in [("--max-peak=1MiB", "peak"), ("--fail-on-leak", "exit")] {
        let (code, out, _) = run(&["check", text(folder.path()), gate]);
        assert_eq!(code, 1);
        assert_eq!(out.lines().last(), Some(&*format!("{next} {at}")));
    }
    std::fs::write(folder.path().join("bad.trace"), b"").expect("a file");
    let (code, out, _) = run(&["check", text(folder.path()), "--max-peak=1GiB"]);
    assert_eq!(code, 2, "{out}");
    assert!(out.contains("bad.trace is empty"), "{out}");
    assert_eq!(run(&["check", text(folder.path()), "--max-peak=1MiB"]).0, 1);
}

#[test]
fn a_demo_without_gpu_and_simulator_says_what_is_missing() {
    let folder = TempDir::new().expect("a folder");
    let library = folder.path().join("liboomhook.so");
    std::fs::write(&library, b"").expect("a file");
    let old = folder.path().join("oomhook-demo-old");
    let young = folder.path().join("oomhook-demo-young");
    for made in [&old, &young] {
        std::fs::create_dir(made).expect("a folder");
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let opened = std::fs::File::open(&old).expect("the folder");
    opened.set_modified(long_ago).expect("a time");
    let demo = || {
        let mut command = oomhook(&["demo"]);
        command.env("OOMHOOK_LIB", &library);
        // No driver is found here, whatever the machine has.
        command.env("CUDA_VISIBLE_DEVICES", "");
        command.env("TMPDIR", folder.path());
        ended(&command.output().expect("it starts"))
    };
    let (code, _, err) = demo();
    assert_eq!(code, 2, "{err}");
    assert!(
        err.starts_with("oomhook demo: no GPU with 1 GiB free was found, and the simulated one ("),
        "{err}"
    );
    assert!(old.exists());
    // With a file in its place the demo starts, and takes old folders away.
    std::fs::write(folder.path().join("liboomhook_sim.so"), b"").expect("a file");
    demo();
    assert!(!old.exists() && young.exists());
}
