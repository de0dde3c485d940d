//! The verdict on programs with one planted fault each, from Python to the report: its kind and its line. They run on a stand-in
//! for PyTorch and the simulated driver; `tests/gpu/test_diagnosis.py` has the real ones.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::{Bench, Ran};

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// The stand-in for PyTorch's cache.
fn cache() -> PathBuf {
    let bench = Bench::shared();
    let rpath = format!("-Wl,-rpath,{}", bench.path("planted").display());
    let c10 = bench.library("torch_cache.c", "planted/libc10.so", &[], &["-DC10"]);
    bench.library(
        "torch_cache.c",
        "planted/libc10_cuda.so",
        &[bench.shared_runtime(), c10],
        &[&rpath],
    )
}

fn run(name: &str, settings: &[(&str, &str)]) -> Ran {
    let script = programs().join("planted.py");
    let packages = programs().join("site-packages");
    let cache = cache();
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (script, packages, cache) = (text(&script), text(&packages), text(&cache));
    let settings = [
        &[
            ("CACHE", cache.as_str()),
            ("PYTHONPATH", packages.as_str()),
            ("PYTHONDONTWRITEBYTECODE", "1"),
        ],
        settings,
    ]
    .concat();
    Bench::shared().run(
        Path::new("/usr/bin/env"),
        &["python3", &script, name],
        &settings,
    )
}

/// The verdict's line is the one that is marked with this name.
#[track_caller]
fn is_at(verdict: &Value, name: &str) {
    let text = std::fs::read_to_string(programs().join("planted.py")).expect("the program");
    let marked = text.lines().position(|line| {
        line.split_once("  # ")
            .is_some_and(|(_, marks)| marks.split(' ').any(|mark| mark == name))
    });
    let line = format!("planted.py:{} ", marked.expect("a mark") + 1);
    let place = verdict["place"].as_str().expect("a place");
    assert!(place.starts_with(&line), "{place}, not {line}");
}

/// With 1 GiB it dies, and the verdict is this, at the line that is marked with its name.
fn is_told(name: &str, class: &str) -> Value {
    let ran = run(name, &[("OOMHOOK_CAPACITY", "1GiB")]);
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.stderr());
    let all = ran.report["oom"].as_array().expect("failures");
    let verdict = all.last().expect("a failure")["verdict"].clone();
    assert_eq!(verdict["class"], class, "{verdict:#}");
    is_at(&verdict, name);
    for part in ["evidence", "advice"] {
        assert_ne!(verdict[part], serde_json::json!([]), "{part}");
    }
    assert_eq!(ran.report["findings"], serde_json::json!([]));
    verdict
}

#[test]
fn too_large_a_model() {
    is_told("too_large", "capacity");
}

#[test]
fn one_long_sequence() {
    let verdict = is_told("long_sequence", "activation_peak");
    let evidence = verdict["evidence"].to_string();
    for part in [
        "where seq_len went 128 → 4800 (step 35)",
        "held at most 32.0 MiB before",
    ] {
        assert!(evidence.contains(part), "{evidence}");
    }
}

#[test]
fn enough_memory_in_pieces() {
    let verdict = is_told("fragmentation", "fragmentation");
    let evidence = &verdict["evidence"];
    // 200 blocks of 4 MiB, five to a segment, and one of five kept.
    assert_eq!(
        evidence[0],
        "asked 512.0 MiB; 640.0 MiB idle in 40 segments, largest hole 16.0 MiB"
    );
}

#[test]
fn outputs_in_a_list() {
    is_told("kept_list", "retention");
}

#[test]
fn samples_that_refer_to_themselves() {
    is_told("cycle", "retention");
}

#[test]
fn results_that_keep_their_graph() {
    is_told("loss_with_graph", "retention");
}

#[test]
fn a_cache_that_is_taken_up_front() {
    is_told("reservation", "reservation");
}

#[test]
fn what_stays_is_found_in_a_program_that_ends_well() {
    let ran = run("kept_list", &[]);
    assert!(ran.output.status.success(), "{}", ran.stderr());
    let finding = &ran.report["findings"][0];
    assert_eq!(finding["class"], "retention");
    is_at(finding, "kept_list");
}

#[test]
fn a_healthy_training_hears_nothing() {
    let ran = run("healthy", &[]);
    assert!(ran.output.status.success(), "{}", ran.stderr());
    assert_eq!(ran.report["oom"], serde_json::json!([]));
    assert_eq!(ran.report["findings"], serde_json::json!([]));
    let roles = ran.report["devices"][0]["tensors"]["peak"]["roles"].as_array();
    let of = |name: &str| {
        let mut all = roles.expect("roles").iter();
        all.find(|role| role["role"] == name)
            .and_then(|role| role["bytes"].as_u64())
    };
    // Three parameters of 16 MiB, and twice as much for Adam.
    assert_eq!(of("weights"), Some(48 << 20));
    assert_eq!(of("optimizer_state"), Some(96 << 20));
}

#[test]
fn emptying_the_cache_in_each_step_is_called_out() {
    let ran = run("empties", &[]);
    let notes = ran.report["notes"].to_string();
    assert!(
        notes.contains("Take torch.cuda.empty_cache() out of the step"),
        "{notes}"
    );
    let ran = run("healthy", &[]);
    assert!(!ran.report["notes"].to_string().contains("empty_cache"));
}

/// The tables of the command, as a person sees them.
fn table(ran: &Ran, options: &[&str]) -> String {
    let mut command = support::oomhook();
    command.arg("report").arg(&ran.trace).args(options);
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tables_of_blocks_and_of_what_they_are_for() {
    let ran = run("healthy", &[]);
    let tensors = table(&ran, &["--tensors"]);
    assert!(
        tensors.starts_with("Inside the framework's cache when most was handed out\n"),
        "{tensors}"
    );
    assert!(tensors.contains("planted.py:"), "{tensors}");
    let peak = &ran.report["devices"][0]["tensors"]["allocated_peak_bytes"];
    // Twelve blocks of 16 MiB (parameters, gradients and twice the state), and what one step needs.
    assert!(
        peak.as_u64().is_some_and(|bytes| bytes > 192 << 20),
        "{peak}"
    );
    let roles = table(&ran, &["--by", "role"]);
    for line in [
        "96.0 MiB",
        "optimizer state",
        "48.0 MiB",
        "weights",
        "note: roles are estimated",
    ] {
        assert!(roles.contains(line), "no {line:?} in\n{roles}");
    }
    let none = table(
        &run("fragmentation", &[("OOMHOOK_TENSORS", "off")]),
        &["--tensors"],
    );
    assert!(
        none.contains("no blocks inside a framework's cache were seen"),
        "{none}"
    );
}

#[test]
fn segments_are_not_judged_as_blocks() {
    // The cache's blocks are not told: whose line needed the next segment says nothing of who keeps what.
    let settings = [("OOMHOOK_CAPACITY", "1GiB"), ("OOMHOOK_TENSORS", "off")];
    let ran = run("kept_list", &settings);
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.stderr());
    let verdict = &ran.report["oom"]
        .as_array()
        .expect("failures")
        .last()
        .expect("one")["verdict"];
    assert_eq!(verdict["class"], "not_clear", "{verdict:#}");
    assert_eq!(verdict["advice"], serde_json::json!([]));
    let ran = run("kept_list", &[("OOMHOOK_TENSORS", "off")]);
    assert_eq!(ran.report["findings"], serde_json::json!([]));
}
