//! Runs of the program whose calls take memory unseen (`ledger.c`), on a simulator where each kind has its price.

use super::{Bench, Ran, Route};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes of a device.
pub const TOTAL: u64 = 16 << 30;

/// What everything takes, but for the limit of the stack.
const COSTS: [(&str, &str); 6] = [
    ("OOMHOOK_SIM_CONTEXT", "512MiB"),
    ("OOMHOOK_SIM_MODULE", "2MiB"),
    ("OOMHOOK_SIM_LAUNCH", "90MiB"),
    ("OOMHOOK_SIM_FUNCTION", "1MiB"),
    ("OOMHOOK_SIM_STREAM", "3MiB"),
    ("OOMHOOK_SIM_GRAPH_EXEC", "8MiB"),
];

fn program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("ledger.c", Route::Driver, &[&simulator])
}

/// A part of the program; `stack` is what a byte of a thread's stack takes. It ends well and says nothing.
#[track_caller]
pub fn run(part: &str, stack: &str, settings: &[(&str, &str)]) -> Ran {
    let settings = [&COSTS[..], &[("OOMHOOK_SIM_STACK", stack)], settings].concat();
    let ran = Bench::shared().run(&program(), &[part], &settings);
    ran.says(0, "");
    ran
}

/// The lines of an account as (name, bytes); all of them make the device's total.
#[track_caller]
pub fn closed(lines: &Value) -> Vec<(&str, u64)> {
    let lines = lines.as_array().expect("lines").iter();
    let lines: Vec<_> = lines
        .map(|line| {
            let name = line["name"].as_str().expect("a name");
            (name, line["bytes"].as_u64().expect("a number"))
        })
        .collect();
    let sum: u64 = lines.iter().map(|line| line.1).sum();
    assert_eq!(sum, TOTAL, "{lines:?}");
    lines
}

/// Asserts that a device's account at an instant is this (lines of 0 left out), and what is left is free.
#[track_caller]
pub fn account_is(ran: &Ran, device: usize, when: &str, wanted: &[(&str, u64)]) {
    let mut lines = closed(&ran.report["devices"][device]["ledger"][when]);
    lines.retain(|line| line.1 > 0);
    let used: u64 = wanted.iter().map(|line| line.1).sum();
    let wanted = [wanted, &[("free", TOTAL - used)]].concat();
    assert_eq!(lines, wanted, "{:#}", costs(ran));
}

/// What calls took on the first device, as (name, call, site, bytes, calls).
pub fn costs(ran: &Ran) -> Value {
    let rows = ran.report["devices"][0]["costs"].as_array().expect("rows");
    let row = |row: &Value| {
        json!([
            row["name"],
            row["call"],
            row["site"],
            row["bytes"],
            row["calls"]
        ])
    };
    rows.iter().map(row).collect()
}

/// All notes.
pub fn notes(ran: &Ran) -> String {
    ran.report["notes"].to_string()
}

/// The lines of an account by name, 0 where there is none; all of them make the total.
#[track_caller]
pub fn by_name<'a>(ran: &'a Ran, device: usize, when: &str) -> impl Fn(&str) -> u64 + 'a {
    let lines = closed(&ran.report["devices"][device]["ledger"][when]);
    move |name| {
        let found = lines.iter().find(|line| line.0 == name);
        found.map_or(0, |line| line.1)
    }
}
