//! However little of a trace is kept, its totals, its peak and its leaks stay exact.

mod support;

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use support::{Bench, Ran, Route};

const MIB: u64 = 1 << 20;

fn program() -> PathBuf {
    Bench::shared().build("churn.c", Route::Driver, &[])
}

fn run(events: &str, slots: &str, keep: &str) -> Ran {
    // What a look at the device sees is a matter of time.
    let settings = [("OOMHOOK_KEEP", keep), ("OOMHOOK_SAMPLE", "off")];
    let ran = Bench::shared().run(&program(), &[events, slots], &settings);
    ran.says(0, "");
    ran
}

/// What must not depend on how much is kept. Times and thread ids differ from run to run.
fn figures(report: &Value) -> Value {
    let mut devices = report["devices"].clone();
    devices[0]["peak_time_ns"] = Value::Null;
    devices[0]["peak"]["time_ns"] = Value::Null;
    let mut threads = report["threads"].clone();
    threads[0]["tid"] = Value::Null;
    serde_json::json!({
        "totals": report["totals"], "devices": devices, "leaks": report["leaks"], "complete": report["complete"],
        "threads": threads, "end": report["process"]["end"], "code": report["process"]["exit_code"],
    })
}

fn size(ran: &Ran) -> u64 {
    fs::metadata(&ran.trace).expect("the trace").len()
}

#[test]
fn a_bounded_trace_answers_as_a_whole_one() {
    let whole = run("400000", "500", "all");
    assert!(size(&whole) > MIB, "{}: too small to be cut", size(&whole));
    whole.leaks_are(&[("forget_at_start", 3 * MIB, 1)]);
    let bounded = run("400000", "500", "512KiB");
    assert!(size(&bounded) <= 512 << 10, "{}", size(&bounded));
    assert_eq!(figures(&bounded.report), figures(&whole.report));
    let notes = bounded.report["notes"].to_string();
    assert!(notes.contains("segment"), "{notes}");
    let left = fs::read_dir(bounded.trace.parent().expect("a folder")).expect("the folder");
    assert_eq!(left.count(), 1, "nothing is left beside the trace");
}

#[test]
fn a_summary_has_no_events_and_the_same_figures() {
    let whole = run("40000", "500", "all");
    let summary = run("40000", "500", "summary");
    assert!(size(&summary) < 256 << 10, "{}", size(&summary));
    assert_eq!(figures(&summary.report), figures(&whole.report));
}

#[test]
fn no_trace_at_all_still_gives_the_report() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["4000", "50"]);
    run.command
        .env("OOMHOOK_KEEP", "none")
        .env("OOMHOOK_REPORT", "stderr");
    let (output, traces) = run.output();
    assert!(output.status.success() && traces.is_empty(), "{traces:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("leak: 3.0 MiB in 1 block"), "{said}");
}

#[test]
fn a_malformed_bound_gives_one_line_and_the_default() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["400", "50"]);
    run.command.env("OOMHOOK_KEEP", "12XB");
    let ran = run.finish();
    ran.says(0, "").is("/devices/0/live_bytes", 3 * MIB);
    assert_eq!(
        ran.stderr(),
        "oomhook: OOMHOOK_KEEP=12XB is none of all, summary, none, or a size such as 512MiB; using 2GiB\n"
    );
}
