//! Many events, many living blocks, many stacks: nothing is lost, and the library's own memory stays small.

mod support;

use std::process::Command;
use support::{Bench, Route};

/// A tenth of what a long run has: a hundredth of a million and more is for a person to try.
const PAIRS: u64 = 1_000_000;
const LIVE: u64 = 100_000;

/// The two figures of `volume.c`, in KiB.
fn resident(stdout: &[u8]) -> [u64; 2] {
    let text = String::from_utf8_lossy(stdout);
    let mut numbers = text
        .split_whitespace()
        .map(|number| number.parse().expect("a number"));
    [numbers.next(), numbers.next()].map(|number| number.expect("two numbers"))
}

#[test]
fn many_events_are_counted_to_the_last_and_cost_little_memory() {
    let bench = Bench::shared();
    let program = bench.build("volume.c", Route::Driver, &["-O2"]);
    let arguments = [PAIRS.to_string(), LIVE.to_string()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plain: &mut Command = &mut bench.plain(&program, &arguments);
    let plain = resident(&plain.output().expect("it runs").stdout);
    let ran = bench.run(&program, &arguments, &[]);
    assert!(ran.output.status.success(), "{}", ran.stderr());
    ran.is("/totals/allocs", PAIRS + LIVE)
        .is("/totals/frees", PAIRS + LIVE)
        .is("/totals/cumulative_bytes", (PAIRS + LIVE) * 256)
        .is("/devices/0/peak_bytes", LIVE * 256)
        .is("/devices/0/peak_event", PAIRS + LIVE)
        .is("/devices/0/live_bytes", 0);
    let watched = resident(&ran.output.stdout);
    let added = [0, 1].map(|at| watched[at].saturating_sub(plain[at]));
    eprintln!(
        "KiB added: {} after the pairs, {} with {LIVE} living blocks",
        added[0], added[1]
    );
    assert!(added[0] <= 32 << 10, "{} KiB after the pairs", added[0]);
    assert!(
        added[1] <= (32 << 10) + LIVE * 100 / 1024,
        "{} KiB with living blocks",
        added[1]
    );
}

#[test]
fn very_many_stacks_are_shortened_and_that_is_said() {
    const STACKS: u64 = 120_000;
    let bench = Bench::shared();
    let program = bench.build("stacks.c", Route::Driver, &["-O2"]);
    let number = STACKS.to_string();
    let plain = bench.plain(&program, &[&number]).output().expect("it runs");
    let ran = bench.run(&program, &[&number], &[]);
    assert!(ran.output.status.success(), "{}", ran.stderr());
    ran.is("/totals/allocs", STACKS)
        .is("/totals/frees", STACKS)
        .is("/devices/0/live_bytes", 0);
    let notes = ran.report["notes"].to_string();
    assert!(notes.contains("very many different stacks"), "{notes}");
    let kib = |stdout: &[u8]| -> u64 {
        String::from_utf8_lossy(stdout)
            .trim()
            .parse()
            .expect("a number")
    };
    let added = kib(&ran.output.stdout).saturating_sub(kib(&plain.stdout));
    eprintln!("KiB added with {STACKS} different stacks: {added}");
    assert!(added < 96 << 10, "{added} KiB");
}
