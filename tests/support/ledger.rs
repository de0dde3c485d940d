//! Runs of the program whose calls take memory unseen (`ledger.c`), on a simulator where each kind has its price.

use super::{Bench, Ran, Route};
use std::path::PathBuf;

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
