//! Programs that run out of memory: what kind it was, and what it was about.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;
use support::{Bench, MIB, Ran, Route, sites};

const GIB: u64 = 1 << 30;

fn program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("out_of_memory.c", Route::Shared, &[&simulator])
}

#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    Bench::shared().run(&program(), &[part], settings)
}

/// Lines that are said at once.
fn said_at_once(errors: &str) -> Vec<&str> {
    let is_said = |line: &&str| line.starts_with("oomhook: out of memory: ");
    errors.lines().filter(is_said).collect()
}

#[track_caller]
fn only_group<'a>(ran: &'a Ran, class: &str, attempts: u64) -> &'a Value {
    let groups = ran.report["oom"].as_array().expect("groups");
    assert_eq!(groups.len(), 1, "{groups:#?}");
    assert_eq!(
        (&groups[0]["class"], &groups[0]["attempts"]),
        (&class.into(), &attempts.into())
    );
    &groups[0]
}

#[test]
fn the_same_size_fits_after_frees() {
    let ran = run("recovered", &[]);
    ran.says(0, "")
        .is("/totals/allocs", 2)
        .is("/totals/failed_allocs", 1);
    let group = only_group(&ran, "recovered", 1);
    assert_eq!(group["freed_between_bytes"], 10_737_418_240_u64);
    assert_eq!(sites(&group["sites"]), [("cache".into(), 10 * GIB, 1)]);
}

#[test]
fn attempts_in_vain_are_one_fatal_group() {
    let ran = run("fatal", &[("OOMHOOK_REPORT", "stderr")]);
    ran.says(1, "")
        .is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 2);
    let group = only_group(&ran, "fatal", 2);
    assert_eq!(group["short_by_bytes"], 2_147_483_648_u64);
    assert_eq!(
        (&group["free_bytes"], &group["total_bytes"]),
        (&(6 * GIB).into(), &(16 * GIB).into())
    );
    assert_eq!(sites(&group["sites"]), [("cache".into(), 10 * GIB, 1)]);
    assert!(ran.stderr().contains("OUT OF MEMORY"), "{}", ran.stderr());
}

#[test]
fn halving_until_it_fits_is_a_probe() {
    let ran = run("probe", &[("OOMHOOK_SIM", "2x16GiB,free=15.5GiB")]);
    ran.says(0, "8589934592\n")
        .is("/totals/failed_allocs", 4)
        .is("/devices/0/live_bytes", 8 * GIB);
    let group = only_group(&ran, "probe", 4);
    assert_eq!(
        (&group["requested_bytes"], &group["requested_least_bytes"]),
        (&(1_u64 << 37).into(), &(1_u64 << 34).into())
    );
}

#[test]
fn what_was_made_before_a_failing_step_is_kept() {
    let ran = run("half done", &[("OOMHOOK_SIM_FAIL", "cuMemCreate#2=2")]);
    ran.says(1, "")
        .is("/devices/0/live_bytes", 2 * MIB)
        .is("/oom/0/requested_bytes", 2 * MIB);
    let group = only_group(&ran, "fatal", 1);
    assert_eq!(
        (&group["call"], &group["space"]),
        (&"cuMemCreate".into(), &"vmm".into())
    );
    ran.leaks_are(&[("half_done", 2 * MIB, 1)]);
}

#[test]
fn a_failure_is_said_in_one_line_at_once() {
    let ran = run("fatal", &[("OOMHOOK_REPORT", "stderr")]);
    let errors = ran.stderr();
    let first = errors.lines().next().expect("a line");
    assert_eq!(
        first,
        "oomhook: out of memory: cudaMalloc asked 8.0 GiB on GPU 0, by ask"
    );
    assert_eq!(said_at_once(&errors).len(), 1, "{errors}");
    // The whole story is the report's.
    assert_eq!(errors.matches("OUT OF MEMORY").count(), 1, "{errors}");
    let ran = run(
        "probe",
        &[
            ("OOMHOOK_SIM", "2x16GiB,free=15.5GiB"),
            ("OOMHOOK_REPORT", "stderr"),
        ],
    );
    assert_eq!(said_at_once(&ran.stderr()).len(), 1, "{}", ran.stderr());
    let ran = run("fatal", &[("OOMHOOK_REPORT", "off")]);
    assert_eq!(ran.stderr(), "");
}

#[test]
fn routine_retries_do_not_shout() {
    let ran = run("retries", &[("OOMHOOK_REPORT", "stderr")]);
    let errors = ran.says(0, "").stderr();
    assert_eq!(said_at_once(&errors).len(), 1, "{errors}");
    assert!(!errors.contains("OUT OF MEMORY"), "{errors}");
    let group = only_group(&ran, "recovered", 40);
    assert_eq!(group["freed_between_bytes"], 10 * GIB);
}

#[test]
fn the_whole_story_follows_where_the_program_does_not_recover() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["caught"]);
    run.command
        .env("OOMHOOK_REPORT", "stderr")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = run.command.spawn().expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut text = String::new();
    // It lives until we have seen the last line.
    while !text.contains("Asked from") {
        let mut line = String::new();
        assert_ne!(
            errors.read_line(&mut line).expect("a line"),
            0,
            "it has ended: {text}"
        );
        text.push_str(&line);
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let story = [
        "OUT OF MEMORY: cudaMalloc asked 8.0 GiB on GPU 0, short by 2.0 GiB",
        "asked by ask",
        "free     6.0 GiB of 16.0 GiB, short by 2.0 GiB",
        "+10.0 GiB cache",
        "This process held 10.0 GiB",
    ];
    for line in story {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(rest.contains("program went on"), "{rest}");
    let traces = support::traces_in(&run.folder);
    let report = support::report(&traces[0]);
    assert_eq!(report["oom"][0]["class"], "caught");
}

#[test]
fn a_framework_that_gives_up_is_told_of_at_once() {
    let bench = Bench::shared();
    let library = bench.library(
        "framework.c",
        "libc10.so",
        &[bench.shared_runtime()],
        &["-DLIBRARY"],
    );
    let library = library.display().to_string();
    let program = bench.build("framework.c", Route::Shared, &[&library]);
    let mut run = bench.start(&program, &[]);
    run.command
        .env("OOMHOOK_REPORT", "stderr")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = run.command.spawn().expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("OUT OF MEMORY") {
        let mut line = String::new();
        assert_ne!(errors.read_line(&mut line).expect("a line"), 0, "{text}");
        text.push_str(&line);
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("the rest");
    let output = child.wait_with_output().expect("it ends");
    // The framework's own function was called, with its own arguments.
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(stdout, "8589934592 10 20 257\n");
    assert_eq!(said_at_once(&text).len(), 1, "{text}");
    let report = support::report(&support::traces_in(&run.folder)[0]);
    assert_eq!(
        (&report["oom"][0]["class"], &report["oom"][0]["attempts"]),
        (&"caught".into(), &2.into())
    );
}

#[test]
fn the_story_is_in_the_reports_file_before_the_program_learns_of_it() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["killed"]);
    let path = run.folder.join("report.txt");
    run.command.env("OOMHOOK_REPORT", &path);
    let ran = run.finish();
    assert_eq!(ran.stderr(), "");
    let text = fs::read_to_string(&path).expect("the report");
    assert!(
        text.starts_with("oomhook: OUT OF MEMORY: cudaMalloc asked 8.0 GiB on GPU 0"),
        "{text}"
    );
    assert!(text.contains("10.0 GiB  100.0%         1  cache"), "{text}");
    let group = only_group(&ran, "fatal", 1);
    assert_eq!(sites(&group["sites"]), [("cache".into(), 10 * GIB, 1)]);

    // The report at the end comes into the same file.
    let mut run = bench.start(&program(), &["fatal"]);
    let path = run.folder.join("report.txt");
    run.command.env("OOMHOOK_REPORT", &path);
    let folder = run.folder.clone();
    run.finish();
    let text = fs::read_to_string(&path).expect("the report");
    assert_eq!(text.matches("OUT OF MEMORY").count(), 2, "{text}");
    assert!(text.contains("twice, fatal"), "{text}");
    assert!(!folder.join("report.txt.1").exists());
}

#[test]
fn every_byte_of_the_device_is_accounted_for() {
    let ran = run("accounts", &[("OOMHOOK_SIM_CONTEXT", "512MiB")]);
    let group = only_group(&ran, "caught", 1);
    let line = |name: &str, bytes: u64, estimated: bool| json!({"name": name, "bytes": bytes, "estimated": estimated});
    let free = 16 * GIB - 4 * GIB - 512 * MIB - 32 * MIB;
    assert_eq!(
        group["ledger"],
        json!([
            line("device", 4 * GIB, false),
            line("pool_idle", 32 * MIB, false),
            line("contexts", 512 * MIB, false),
            line("rest", 0, true),
            line("free", free, false),
        ])
    );
    assert_eq!(group["free_bytes"], free);
    let sum: u64 = group["ledger"]
        .as_array()
        .expect("lines")
        .iter()
        .map(|line| line["bytes"].as_u64().expect("a number"))
        .sum();
    assert_eq!(group["total_bytes"], sum);
    assert_eq!(ran.report["devices"][0]["ledger"]["oom"], group["ledger"]);
    assert_eq!(
        (&group["changed"][0]["site"], &group["changed"][0]["bytes"]),
        (&"cache".into(), &(4 * GIB).into())
    );
    assert_eq!(group["changed"].as_array().map(Vec::len), Some(1));
    let frees: Vec<_> = group["last_frees"]
        .as_array()
        .expect("frees")
        .iter()
        .map(|free| (free["bytes"].as_u64(), free["freed_by"].as_str()))
        .collect();
    let by = |free: &Option<&str>| free.is_some_and(|by| by.ends_with("accounts"));
    assert_eq!(frees.len(), 2);
    assert_eq!((frees[0].0, frees[1].0), (Some(2 * GIB), Some(10 * MIB)));
    assert!(frees.iter().all(|free| by(&free.1)), "{frees:?}");
}

#[test]
fn what_the_host_has_is_known_where_the_host_ran_out() {
    let ran = run("on the host", &[("OOMHOOK_REPORT", "stderr")]);
    let group = only_group(&ran, "caught", 1);
    assert_eq!(
        (&group["call"], &group["space"]),
        (&"cudaHostAlloc".into(), &"pinned".into())
    );
    let meminfo = fs::read_to_string("/proc/meminfo").expect("it");
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .expect("a number");
    assert_eq!(group["host"]["total"], total * 1024);
    assert!(group["host"]["available"].as_u64() <= Some(total * 1024));
    assert_eq!(group["ledger"], json!([]));
    // A device that has no room needs no word about the host.
    let ran = run("fatal", &[]);
    assert_eq!(only_group(&ran, "fatal", 2)["host"], Value::Null);
}

#[test]
fn a_child_that_runs_out_tells_its_own_story() {
    let ran = run("in a child", &[]);
    ran.says(0, "");
    assert_eq!(ran.report["process"]["end"], "_exit");
    let group = only_group(&ran, "fatal", 1);
    assert_eq!(group["short_by_bytes"], 2 * GIB);
}

#[test]
fn a_report_that_cannot_be_written_is_one_line() {
    let ran = run("fatal", &[("OOMHOOK_REPORT", "/proc/nowhere/report")]);
    ran.says(1, "");
    let errors = ran.stderr();
    // Once at the failure, and at the end, where the report comes all the same.
    let is_complaint = |line: &&str| line.contains("cannot write the report");
    assert_eq!(errors.lines().filter(is_complaint).count(), 2, "{errors}");
    assert!(errors.contains("twice, fatal"), "{errors}");
}
