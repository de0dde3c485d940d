//! `oomhook check` on traces made here: exit codes and what a failure lists.

use oomhook_trace::Encoder;
use oomhook_trace::header::{Header, Process};
use oomhook_trace::record::{EndKind, Event, Library, Record, Space, What};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A process whose two sites (200 MiB, and the rest) make this peak; 0 for a process that allocates nothing.
fn trace(folder: &TempDir, rank: u32, peak: u64) -> PathBuf {
    let header = Header {
        process: Process {
            host: "node7".into(),
            pid: 100 + rank,
            rank: Some(rank),
            command: vec!["/app/trainer".into()],
            start_unix_ns: 1_764_436_380_000_000_000,
            ..Process::default()
        },
        ..Header::default()
    };
    let mut records = vec![Record::Call {
        id: 1,
        name: "cudaMalloc".into(),
    }];
    for (id, path) in [(1, "/app/libweights.so"), (2, "/app/libcache.so")] {
        records.push(Record::Library(Library {
            id,
            path: path.into(),
            build_id: Vec::new(),
            start: 0,
            end: 0,
            bias: 0,
            time_ns: 0,
        }));
        records.push(Record::Frame {
            id,
            library: id,
            offset: 0x10,
        });
        records.push(Record::Stack {
            id,
            frames: vec![id],
        });
    }
    let mut happens = |stack: u32, what: What| {
        records.push(Record::Event(Event {
            time_ns: 1,
            thread: 0,
            device: Some(0),
            call: 1,
            stack,
            what,
        }));
    };
    if peak > 0 {
        for (stack, bytes) in [(1, 200 * MIB), (2, peak - 200 * MIB)] {
            happens(
                stack,
                What::Alloc {
                    space: Space::Device,
                    address: u64::from(stack) << 40,
                    bytes,
                    requested: bytes,
                    context: 0,
                    stream: 0,
                    pool: 0,
                },
            );
        }
    }
    happens(
        0,
        What::End {
            kind: EndKind::Exit,
            code: Some(0),
            signal: None,
        },
    );
    let mut bytes = header.encode().expect("a header");
    let mut encoder = Encoder::default();
    for record in &records {
        encoder.put(record);
    }
    encoder.finish_chunk(&mut bytes);
    let path = folder.path().join(format!("rank{rank}.trace"));
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn check(path: &Path, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("OOMHOOK")) {
        command.env_remove(name);
    }
    let output = command
        .arg("check")
        .arg(path)
        .args(arguments)
        .output()
        .expect("it starts");
    let code = output.status.code().expect("an exit code");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    (code, text)
}

#[test]
fn a_baseline_passes_up_to_its_tolerance_and_a_failure_lists_what_grew() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("baseline.json");
    let file = file.to_str().expect("UTF-8");
    let before = trace(&folder, 0, 314_572_800);
    let (code, text) = check(&before, &["--baseline", file, "--write-baseline"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("baseline written to"), "{text}");

    let (code, text) = check(&trace(&folder, 0, 320_864_256), &["--baseline", file]);
    assert_eq!(code, 0, "{text}");
    let after = trace(&folder, 0, 320_864_257);
    let (code, text) = check(&after, &["--baseline", file]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("320,864,257 > 320,864,256 bytes"), "{text}");
    assert!(text.contains("libcache.so+0x10 [libcache.so]"), "{text}");
    assert!(!text.contains("libweights"), "{text}");
    let (code, _) = check(&after, &["--baseline", file, "--tolerance", "2.1%"]);
    assert_eq!(code, 0);
    let (code, _) = check(&after, &["--baseline", file, "--tolerance", "0"]);
    assert_eq!(code, 1);

    let (code, text) = check(&after, &["--baseline", file, "--json"]);
    assert_eq!(code, 1);
    let judgement: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(judgement["verdict"], "failed");
    assert_eq!(judgement["metric"], "device");
    let gate = &judgement["gates"][0];
    assert_eq!(gate["gate"], "baseline");
    assert_eq!(gate["value_bytes"], 320_864_257);
    assert_eq!(gate["limit_bytes"], 320_864_256);
    assert_eq!(gate["baseline_bytes"], 314_572_800);
    assert_eq!(gate["sites"][0]["after_bytes"], 320_864_257 - 200 * MIB);
}

#[test]
fn limits_are_inclusive() {
    let folder = TempDir::new().expect("a folder");
    let path = trace(&folder, 0, 300 * MIB);
    assert_eq!(check(&path, &["--max-peak", "300MiB"]).0, 0);
    assert_eq!(check(&path, &["--max-peak", "314572799"]).0, 1);
    assert_eq!(check(&path, &["--max-live-at-exit", "300MiB"]).0, 0);
    assert_eq!(check(&path, &["--max-live-at-exit", "299MiB"]).0, 1);
    assert_eq!(check(&path, &["--max-peak", "1GiB", "--fail-on-leak"]).0, 1);
}

#[test]
fn the_worst_process_is_named() {
    let folder = TempDir::new().expect("a folder");
    for (rank, peak) in [(0, 210 * MIB), (1, 400 * MIB), (2, 300 * MIB)] {
        trace(&folder, rank, peak);
    }
    let (code, text) = check(folder.path(), &["--max-peak", "250MiB"]);
    assert_eq!(code, 1);
    assert!(
        text.contains("peak 400.0 MiB > 250.0 MiB  GPU 0, rank 1, pid 101 on node7"),
        "{text}"
    );
    assert!(text.contains("the worst of 2 that failed"), "{text}");
}

#[test]
fn nothing_recorded_is_no_pass() {
    let folder = TempDir::new().expect("a folder");
    let path = trace(&folder, 0, 0);
    let (code, text) = check(&path, &["--max-peak", "1GiB"]);
    assert_eq!(code, 3, "{text}");
    let file = folder.path().join("baseline.json");
    let file = file.to_str().expect("UTF-8");
    let (code, _) = check(&path, &["--baseline", file, "--write-baseline"]);
    assert_eq!(code, 3);
    assert!(!Path::new(file).exists());
    // A helper that allocated nothing does not spoil the others' verdict.
    trace(&folder, 1, 300 * MIB);
    let (code, text) = check(folder.path(), &["--max-peak", "1GiB"]);
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("1 process allocated no CUDA memory"),
        "{text}"
    );
}
