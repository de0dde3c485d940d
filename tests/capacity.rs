//! Devices that are pretended to be smaller (`OOMHOOK_CAPACITY`, `oomhook run --capacity`), and failures by order
//! (`OOMHOOK_FAIL_NTH`). The programs check every code and every figure that they are told.

mod support;

use std::path::PathBuf;
use support::naming::notes;
use support::{Bench, MIB, Ran, Route, artefacts, oomhook, sites};

const GIB: u64 = 1 << 30;

fn program(route: Route) -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("capacity.c", route, &[&simulator])
}

/// A part of `capacity.c` on devices of this capacity.
#[track_caller]
fn run(part: &str, capacity: &str, settings: &[(&str, &str)]) -> Ran {
    let settings = [&[("OOMHOOK_CAPACITY", capacity)], settings].concat();
    let ran = Bench::shared().run(&program(Route::Shared), &[part], &settings);
    ran.says(0, "");
    ran
}

fn pretended(device: u32, size: &str, real: &str) -> String {
    format!("OOMHOOK_CAPACITY: GPU {device} was pretended to have {size} (it has {real})")
}

#[test]
fn the_last_byte_that_fits_and_the_first_that_does_not() {
    for route in [Route::Shared, Route::Static] {
        for names in ["resolver", "dlsym"] {
            let settings = [
                ("OOMHOOK_CAPACITY", "67108865B"),
                ("OOMHOOK_REPORT", "stderr"),
                ("CUDART_DOUBLE_LOOKUP", names),
            ];
            let ran = Bench::shared().run(&program(route), &["to the byte"], &settings);
            ran.says(0, "")
                .is("/totals/allocs", 3)
                .is("/totals/failed_allocs", 4)
                .is("/devices/0/total_bytes", 67_108_865)
                .is("/devices/0/real_total_bytes", 16 * GIB)
                .is("/oom/0/total_bytes", 67_108_865);
            let note = pretended(0, "64.0 MiB", "16.0 GiB");
            assert_eq!(notes(&ran.report)[0], note);
            let text = ran.stderr().replace('\n', " ");
            let text: Vec<_> = text.split_whitespace().collect();
            assert!(text.join(" ").contains(&note), "{}", ran.stderr());
        }
    }
}

#[test]
fn every_door_of_the_driver_is_limited() {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    for door in ["symbol", "dlsym", "resolver"] {
        let flags: &[&str] = match door {
            "symbol" => &["-DLINKED", &simulator],
            _ => &[],
        };
        let program = bench.build("driver.c", Route::Driver, flags);
        let settings = [("OOMHOOK_CAPACITY", "64MiB")];
        let ran = bench.run(&program, &[door, "small device"], &settings);
        ran.says(0, "")
            .is("/totals/allocs", 1)
            .is("/totals/failed_allocs", 2)
            .is("/devices/0/live_bytes", 64 * MIB);
        let asked = ran.report["oom"].as_array().expect("failures").iter();
        let asked: Vec<_> = asked
            .map(|oom| {
                let number = |key: &str| oom[key].as_u64();
                [
                    number("requested_bytes"),
                    number("free_bytes"),
                    number("total_bytes"),
                ]
            })
            .collect();
        let wanted = [(64 * MIB + 1, 64 * MIB), (1, 0)];
        let wanted = wanted.map(|(asked, free)| [Some(asked), Some(free), Some(64 * MIB)]);
        assert_eq!(asked, wanted, "{door}");
    }
}

#[test]
fn a_refused_request_is_a_failure_like_any_other() {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    let program = bench.build("out_of_memory.c", Route::Shared, &[&simulator]);
    let ran = bench.run(&program, &["fatal"], &[("OOMHOOK_CAPACITY", "12GiB")]);
    ran.says(1, "")
        .is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 2)
        .is("/oom/0/attempts", 2)
        .is("/oom/0/requested_bytes", 8 * GIB)
        .is("/oom/0/free_bytes", 2 * GIB)
        .is("/oom/0/total_bytes", 12 * GIB)
        .is("/oom/0/short_by_bytes", 6 * GIB);
    let group = &ran.report["oom"][0];
    assert_eq!(group["class"], "fatal");
    assert_eq!(group["call"], "cudaMalloc");
    assert_eq!(sites(&group["sites"]), [("cache".into(), 10 * GIB, 1)]);
    assert_eq!(notes(&ran.report), [pretended(0, "12.0 GiB", "16.0 GiB")]);
}

#[test]
fn contexts_and_other_processes_count() {
    let ran = run(
        "others",
        "4GiB",
        &[
            ("OOMHOOK_SIM", "1x16GiB,free=15GiB"),
            ("OOMHOOK_SIM_CONTEXT", "256MiB"),
        ],
    );
    ran.is("/totals/allocs", 1).is("/totals/failed_allocs", 1);
}

#[test]
fn more_than_there_is_changes_nothing() {
    let ran = run("larger", "40GiB", &[]);
    ran.is("/totals/failed_allocs", 1)
        .is("/devices/0/total_bytes", 16 * GIB)
        .is("/oom/0/total_bytes", 16 * GIB);
    assert!(ran.report["devices"][0]["real_total_bytes"].is_null());
    assert_eq!(
        notes(&ran.report),
        [
            "OOMHOOK_CAPACITY: nothing was pretended of GPU 0, which has 16.0 GiB, no more than 40.0 GiB"
        ]
    );
}

#[test]
fn old_and_partial_questions_are_answered_alike() {
    run("old questions", "6GiB", &[]).is("/totals/allocs", 1);
}

#[test]
fn each_device_of_a_list_has_its_own_size() {
    let ran = run("list", "0=64MiB", &[]);
    ran.is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 1)
        .is("/devices/0/total_bytes", 64 * MIB)
        .is("/devices/1/total_bytes", 16 * GIB);
    assert_eq!(notes(&ran.report), [pretended(0, "64.0 MiB", "16.0 GiB")]);
}

#[test]
fn physical_memory_counts_on_its_own_device() {
    let ran = run("handles", "64MiB", &[]);
    ran.is("/totals/failed_allocs", 6)
        .is("/devices/0/spaces/vmm/live_bytes", 64 * MIB)
        .is("/devices/1/spaces/vmm/live_bytes", 64 * MIB)
        .is("/host/spaces/pinned/live_bytes", 128 * MIB);
    let there = ran.report["oom"].as_array().expect("failures").iter();
    let there = there.filter(|oom| oom["device"] == 1);
    let there: Vec<_> = there
        .map(|oom| (&oom["free_bytes"], &oom["total_bytes"]))
        .collect();
    let free = [64, 24, 0].map(|mib| (mib * MIB).into());
    let total = (64 * MIB).into();
    assert_eq!(there, free.each_ref().map(|free| (free, &total)));
}

#[test]
fn without_a_context_the_driver_answers() {
    run("no context", "64MiB", &[])
        .is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 2);
}

#[test]
fn what_lies_idle_in_a_pool_is_used_again() {
    run("pools", "64MiB", &[])
        .is("/totals/allocs", 4)
        .is("/totals/failed_allocs", 6)
        .is("/devices/0/spaces/async/live_bytes", 64 * MIB);
}

#[test]
fn arrays_and_pitched_blocks_are_limited() {
    run("arrays", "1MiB", &[])
        .is("/totals/allocs", 2)
        .is("/totals/failed_allocs", 3)
        .is("/devices/0/spaces/array/live_bytes", MIB);
    run("pitched", "1MiB", &[])
        .is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 3);
}

#[test]
fn memory_that_is_not_the_devices_is_not_limited() {
    run("elsewhere", "64MiB", &[])
        .is("/totals/allocs", 2)
        .is("/totals/failed_allocs", 0)
        .is("/devices/0/spaces/managed/live_bytes", GIB);
}

/// Six of eight get something, 25 times over.
#[track_caller]
fn is_shared_exactly(ran: &Ran) {
    ran.says(0, "")
        .is("/totals/allocs", 6 * 25)
        .is("/totals/failed_allocs", 2 * 25)
        .is("/devices/0/peak_bytes", 60 * MIB);
}

#[test]
fn threads_that_race_share_what_there_is_exactly() {
    // With a stall the bytes are in the driver's figure while the call is still under way.
    for stall in ["", "cuMemAlloc_v2#*=2ms"] {
        let ran = run("racing", "64MiB", &[("OOMHOOK_SIM_STALL", stall)]);
        is_shared_exactly(&ran);
    }
}

#[test]
fn what_is_granted_and_not_yet_taken_counts() {
    let bench = Bench::shared();
    let slow = bench.library("slow.c", "libslow.so", &[], &[]);
    let mut run = bench.start(&program(Route::Shared), &["racing"]);
    let ours = artefacts().library.display().to_string();
    run.command
        .env("LD_PRELOAD", format!("{ours}:{}", slow.display()))
        .env("OOMHOOK_CAPACITY", "64MiB");
    is_shared_exactly(&run.finish());
}

#[test]
fn a_capture_survives() {
    for (mode, allocs, failed) in [("global", 0, 2), ("thread", 0, 2), ("relaxed", 3, 3)] {
        run(&format!("capturing {mode}"), "64MiB", &[])
            .is("/totals/allocs", allocs)
            .is("/totals/failed_allocs", failed)
            .is("/graphs/alloc_nodes", 1)
            .is("/graphs/failed_captures", 0);
    }
}

#[test]
fn a_runtime_that_goes_past_the_doors_is_limited_once_it_is_known() {
    let bench = Bench::shared();
    let program = program(Route::Static);
    bench.shared_runtime();
    let run = |settings: &[(&str, &str)]| bench.run(&program, &["deepbind"], settings);
    let ran = run(&[("OOMHOOK_CAPACITY", "64MiB")]);
    ran.says(0, "0 63 64 2 0\n")
        .is("/totals/allocs", 2)
        .is("/totals/failed_allocs", 1);
    // What cannot be refused any more is counted, and the next one fails in its place.
    let ran = run(&[("OOMHOOK_FAIL_NTH", "1")]);
    ran.says(0, "0 16383 16384 2 0\n")
        .is("/totals/failed_allocs", 1);
    let note = "OOMHOOK_FAIL_NTH=1: allocation 2 was made to fail".to_owned();
    assert!(
        notes(&ran.report).contains(&note),
        "{:?}",
        notes(&ran.report)
    );
}

#[test]
fn exactly_the_ordered_allocation_fails() {
    let mut seen = Vec::new();
    for nth in 1..=8 {
        let number = nth.to_string();
        let settings = [("OOMHOOK_FAIL_NTH", number.as_str())];
        let ran = Bench::shared().run(&program(Route::Shared), &["attempts"], &settings);
        let codes: Vec<_> = (1..=8)
            .map(|at| if at == nth { "2" } else { "0" })
            .collect();
        ran.says(0, &format!("{}\n", codes.join(" ")));
        // One is the driver's own refusal of zero bytes, which is no attempt.
        ran.is("/totals/failed_allocs", 2);
        let found = notes(&ran.report);
        let wanted = format!("OOMHOOK_FAIL_NTH={nth}: allocation {nth} was made to fail");
        assert_eq!(found[0], wanted);
        // No guess at another cause.
        assert!(
            !found.iter().any(|note| note.contains("out of memory")),
            "{found:?}"
        );
        let oom = &ran.report["oom"][0];
        seen.push(oom["call"].as_str().expect("a call").to_owned());
    }
    let wanted = "cudaMalloc cudaMallocHost cudaMallocManaged cuMemCreate cuArrayCreate cudaMallocAsync cudaMallocAsync cudaMalloc";
    assert_eq!(seen.join(" "), wanted);
}

#[test]
fn an_order_that_is_not_reached_is_told() {
    let settings = [("OOMHOOK_FAIL_NTH", "9")];
    let ran = Bench::shared().run(&program(Route::Shared), &["attempts"], &settings);
    ran.says(0, "0 0 0 0 0 0 0 0\n")
        .is("/totals/failed_allocs", 1);
    assert_eq!(
        notes(&ran.report)[0],
        "OOMHOOK_FAIL_NTH=9: no allocation was made to fail, since there were fewer"
    );
}

#[test]
fn a_malformed_value_gives_one_line_and_nothing_is_pretended() {
    for (name, value, wanted) in [
        ("OOMHOOK_CAPACITY", "12XB", "nothing is pretended"),
        ("OOMHOOK_CAPACITY", "0=", "nothing is pretended"),
        ("OOMHOOK_CAPACITY", "x=1GiB", "nothing is pretended"),
        ("OOMHOOK_FAIL_NTH", "0", "no allocation is made to fail"),
        ("OOMHOOK_FAIL_NTH", "abc", "no allocation is made to fail"),
    ] {
        let ran = Bench::shared().run(&program(Route::Shared), &["attempts"], &[(name, value)]);
        ran.says(0, "0 0 0 0 0 0 0 0\n")
            .is("/totals/failed_allocs", 1);
        let told = notes(&ran.report);
        assert!(
            !told.iter().any(|note| note.contains("OOMHOOK_")),
            "{told:?}"
        );
        let said = ran.stderr();
        assert!(
            said.starts_with(&format!("oomhook: {name}={value} is ")),
            "{said}"
        );
        assert!(said.ends_with(&format!("; {wanted}\n")), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn switched_off_nothing_is_pretended() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(Route::Shared), &["larger"]);
    run.command
        .env("OOMHOOK", "0")
        .env("OOMHOOK_CAPACITY", "1GiB")
        .env("OOMHOOK_FAIL_NTH", "1");
    let (output, traces) = run.output();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(traces.is_empty());
}

/// `oomhook run --sim --capacity VALUE -- capacity PART`.
fn command(value: &str, part: &str) -> (Option<i32>, String) {
    let output = oomhook()
        .args(["run", "--sim", "--capacity", value, "--"])
        .arg(program(Route::Shared))
        .arg(part)
        .current_dir(Bench::shared().new_folder())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn the_command_sets_the_size() {
    let (code, said) = command("0=64MiB", "list");
    assert_eq!(code, Some(0), "{said}");
    let words: Vec<_> = said.split_whitespace().collect();
    let note = pretended(0, "64.0 MiB", "16.0 GiB");
    assert!(words.join(" ").contains(&note), "{said}");
}

#[test]
fn the_command_refuses_a_malformed_size() {
    for value in ["12XB", "0=", "x=1GiB", "0"] {
        let (code, said) = command(value, "list");
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("--capacity") && said.contains(value),
            "{said}"
        );
    }
}
