//! Programs that run out of memory: what kind it was, and what it was about.

mod support;

use serde_json::Value;
use support::{Bench, MIB, Ran, Route, sites};

const GIB: u64 = 1 << 30;

#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.run(
        &bench.build("out_of_memory.c", Route::Shared, &[&simulator]),
        &[part],
        settings,
    )
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
