//! Programs that leak, peak, free twice, use pools and virtual memory: the report's numbers are exact.

mod support;

use serde_json::{Value, json};
use support::{Bench, MIB, Ran, Route, sites};

const PER_THREAD: [&str; 1] = ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"];

/// A part of `runtime.c`, built with flags.
#[track_caller]
fn built(build: (Route, &[&str]), part: &str, settings: &[(&str, &str)]) -> Ran {
    let bench = Bench::shared();
    bench.run(
        &bench.build("runtime.c", build.0, build.1),
        &[part],
        settings,
    )
}

/// A part of `runtime.c`.
#[track_caller]
fn runtime(route: Route, part: &str, settings: &[(&str, &str)]) -> Ran {
    built((route, &[]), part, settings)
}

/// A part of `driver.c`, with the driver found through a door.
#[track_caller]
fn driver(door: &str, part: &str, settings: &[(&str, &str)]) -> Ran {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    let flags: &[&str] = if door == "symbol" {
        &["-DLINKED", &simulator]
    } else {
        &[]
    };
    bench.run(
        &bench.build("driver.c", Route::Driver, flags),
        &[door, part],
        settings,
    )
}

/// The program ended well, its trace is complete, and no event is unexplained.
#[track_caller]
fn is_clean(ran: &Ran) {
    assert_eq!(ran.report["complete"], true, "{:#}", ran.report);
    assert_eq!(ran.report["process"]["end"], "exit");
    assert_eq!(ran.is("/process/exit_code", 0).stderr(), "");
    for anomaly in [
        "unknown_free",
        "double_free",
        "interior_free",
        "failed_free",
        "free_after_reset",
    ] {
        ran.is(&format!("/anomalies/{anomaly}"), 0);
    }
}

#[test]
fn a_leak_is_charged_to_its_site_by_whatever_door() {
    let runs = [
        (
            "shared runtime",
            runtime(Route::Shared, "leak by site", &[]),
        ),
        (
            "static runtime",
            runtime(Route::Static, "leak by site", &[]),
        ),
        ("exported symbols", driver("symbol", "leak by site", &[])),
        ("dlsym", driver("dlsym", "leak by site", &[])),
        ("resolver", driver("resolver", "leak by site", &[])),
    ];
    for (door, ran) in runs {
        eprintln!("{door}");
        is_clean(ran.says(0, ""));
        ran.is("/totals/allocs", 14)
            .is("/totals/frees", 12)
            .is("/totals/cumulative_bytes", 22 * MIB);
        ran.is("/devices/0/peak_bytes", 23_068_672)
            .is("/devices/0/peak_event", 14);
        ran.is("/devices/0/live_bytes", 2_097_152)
            .is("/devices/0/live_blocks", 2);
        ran.leaks_are(&[("requests", 2_097_152, 2)]);
        ran.is("/leaks/0/allocs", 10);
    }
}

#[test]
fn the_first_of_two_equal_peaks_counts() {
    let ran = runtime(Route::Shared, "equal peaks", &[]);
    is_clean(&ran);
    ran.is("/totals/allocs", 3).is("/totals/frees", 3);
    ran.is("/devices/0/peak_bytes", 314_572_800)
        .is("/devices/0/peak_event", 2);
    ran.is("/devices/0/peak/bytes", 314_572_800)
        .is("/devices/0/peak/event", 2);
    assert_eq!(
        sites(&ran.report["devices"][0]["peak"]["sites"]),
        [
            ("activations".into(), 200 * MIB, 1),
            ("weights".into(), 100 * MIB, 1)
        ]
    );
    ran.is("/devices/0/live_bytes", 0).leaks_are(&[]);
}

/// A thread's counters by its name.
#[track_caller]
fn thread(ran: &Ran, name: &str) -> (u64, u64, bool) {
    let threads = ran.report["threads"].as_array().expect("threads");
    let thread = threads.iter().find(|thread| thread["name"] == name);
    let thread = thread.unwrap_or_else(|| panic!("no thread {name} in {threads:#?}"));
    let number = |key: &str| thread[key].as_u64().expect("a number");
    (number("allocs"), number("frees"), thread["exited"] == true)
}

#[test]
fn another_thread_may_free() {
    let ran = runtime(Route::Shared, "other thread frees", &[]);
    is_clean(&ran);
    ran.is("/totals/allocs", 64).is("/totals/frees", 64);
    ran.is("/devices/0/peak_bytes", 67_108_864)
        .is("/devices/0/live_bytes", 0);
    assert_eq!(thread(&ran, "producer"), (64, 0, true));
    assert_eq!(thread(&ran, "consumer"), (0, 64, true));
}

#[test]
fn a_thread_that_ended_keeps_its_name() {
    let ran = runtime(Route::Shared, "thread ends", &[]);
    is_clean(&ran);
    ran.is("/totals/allocs", 4)
        .is("/devices/0/live_bytes", 4_194_304);
    assert_eq!(thread(&ran, "leaker"), (4, 0, true));
    for row in ran.report["leaks"].as_array().expect("leaks") {
        assert_eq!(row["thread"], "leaker");
    }
    assert_eq!(
        ran.leaks().iter().map(|leak| leak.1).sum::<u64>(),
        4_194_304
    );
}

#[test]
fn an_address_that_comes_back_while_its_free_is_under_way_is_a_new_block() {
    let stall = [("OOMHOOK_SIM_STALL", "cuMemFree_v2#1=500ms")];
    let ran = runtime(Route::Shared, "address reused at once", &stall);
    is_clean(ran.says(0, ""));
    ran.is("/totals/allocs", 2).is("/totals/frees", 2);
    ran.is("/devices/0/peak_bytes", 8_388_608)
        .is("/devices/0/live_bytes", 0)
        .leaks_are(&[]);
}

#[test]
fn a_block_whose_free_failed_is_still_live() {
    let ran = runtime(
        Route::Shared,
        "free fails once",
        &[("OOMHOOK_SIM_FAIL", "cuMemFree_v2#1=1")],
    );
    ran.says(0, "1\n")
        .is("/totals/allocs", 1)
        .is("/totals/frees", 0)
        .is("/totals/failed_frees", 1);
    ran.is("/anomalies/failed_free", 1)
        .is("/anomalies/unknown_free", 0);
    ran.is("/devices/0/live_bytes", 4_194_304)
        .leaks_are(&[("take", 4_194_304, 1)]);
}

/// The only event of this kind.
#[track_caller]
fn anomaly<'a>(ran: &'a Ran, kind: &str) -> &'a Value {
    let events = ran.report["anomalies"]["events"]
        .as_array()
        .expect("events");
    let mut found = events.iter().filter(|event| event["kind"] == kind);
    let first = found
        .next()
        .unwrap_or_else(|| panic!("no {kind} in {events:#?}"));
    assert!(found.next().is_none(), "{events:#?}");
    first
}

#[test]
fn frees_that_fail_are_told_apart() {
    for route in [Route::Shared, Route::Static] {
        let ran = runtime(route, "bad frees", &[]);
        ran.says(0, "1 1 1\n");
        ran.is("/totals/allocs", 2)
            .is("/totals/frees", 2)
            .is("/totals/failed_frees", 3);
        ran.is("/anomalies/unknown_free", 1)
            .is("/anomalies/double_free", 1);
        ran.is("/anomalies/interior_free", 1)
            .is("/anomalies/failed_free", 0);
        ran.is("/devices/0/live_bytes", 0)
            .is("/devices/0/peak_bytes", MIB)
            .leaks_are(&[]);
        let double = anomaly(&ran, "double_free");
        assert_eq!(
            (&double["site"], &double["block"]["site"]),
            (&"free_twice".into(), &"take".into())
        );
        assert_eq!(
            (&double["ended"]["site"], &double["code"]),
            (&"free_twice".into(), &1.into())
        );
        let interior = anomaly(&ran, "interior_free");
        assert_eq!(interior["site"], "free_inside");
        assert_eq!(
            (&interior["block"]["event"], &interior["block"]["bytes"]),
            (&2.into(), &MIB.into())
        );
        let unknown = anomaly(&ran, "unknown_free");
        assert_eq!(
            (&unknown["address"], &unknown["block"]),
            (&"0xdead0000".into(), &Value::Null)
        );
        assert_eq!(unknown["site"], "free_of_unknown");
        // A runtime that is linked in keeps frees of NULL to itself.
        ran.is(
            "/totals/null_frees",
            if route == Route::Shared { 3 } else { 0 },
        );
    }
}

#[test]
fn zero_bytes_are_no_allocation() {
    let ran = runtime(Route::Shared, "zero bytes", &[]);
    ran.is("/totals/zero_size", 1)
        .is("/totals/allocs", 0)
        .is("/totals/failed_allocs", 0);
    let ran = driver("dlsym", "zero bytes", &[]);
    ran.says(0, "1\n")
        .is("/totals/zero_size", 0)
        .is("/totals/allocs", 0);
    ran.is("/totals/failed_allocs", 1);
    assert_eq!(ran.report["oom"], json!([]));
}

#[test]
fn what_is_handed_out_and_what_was_asked_for_are_both_kept() {
    let ran = runtime(Route::Shared, "pitched", &[]);
    is_clean(ran.says(0, "1024 1024\n"));
    ran.is("/totals/allocs", 2).is("/totals/frees", 1);
    ran.is("/devices/0/peak_bytes", 102_400 + 1_024_000)
        .is("/devices/0/peak_event", 2);
    ran.leaks_are(&[("pitched", 1_024_000, 1)])
        .is("/leaks/0/requested_bytes", 1_000_000);
}

#[test]
fn the_32_bit_functions_write_4_bytes() {
    let ran = driver("dlsym", "narrow addresses", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/totals/allocs", 2)
        .is("/totals/frees", 1)
        .is("/devices/0/live_bytes", 4_194_304);
    ran.leaks_are(&[("take", 4_194_304, 1)]);
}

#[test]
fn the_idle_reserve_of_a_pool_is_no_leak() {
    for (part, says, reserved) in [
        ("pool", "33554432 0\n", 0),
        ("pool that keeps", "33554432 33554432\n", 33_554_432),
        ("pool trimmed", "33554432 33554432\n0\n", 0),
    ] {
        for build in [
            (Route::Shared, &[][..]),
            (Route::Static, &[]),
            (Route::Shared, &PER_THREAD),
        ] {
            let ran = built(build, part, &[]);
            is_clean(ran.says(0, says));
            ran.is("/totals/allocs", 3)
                .is("/totals/frees", 3)
                .leaks_are(&[]);
            ran.is("/devices/0/spaces/async/peak_bytes", 31_457_280);
            ran.is("/devices/0/spaces/async/live_bytes", 0)
                .is("/devices/0/peak_bytes", 31_457_280);
            assert_eq!(
                ran.report["pools"].as_array().map(Vec::len),
                Some(1),
                "{:#}",
                ran.report["pools"]
            );
            ran.is("/pools/0/used_bytes", 0)
                .is("/pools/0/used_peak_bytes", 31_457_280);
            ran.is("/pools/0/reserved_bytes", reserved)
                .is("/pools/0/reserved_peak_bytes", 33_554_432);
        }
    }
}

#[test]
fn physical_memory_lives_until_its_last_mapping_goes() {
    for door in ["symbol", "dlsym", "resolver"] {
        let ran = driver(door, "mapped twice", &[]);
        is_clean(ran.says(0, ""));
        ran.is("/devices/0/spaces/vmm/allocs", 1)
            .is("/devices/0/spaces/vmm/live_bytes", 0);
        ran.is("/devices/0/spaces/vmm/peak_bytes", 2_097_152);
        // The marker was taken while one mapping was left.
        ran.is("/devices/0/peak_bytes", 2_097_152 + MIB);
        ran.is("/va/live_bytes", 0)
            .is("/va/peak_bytes", 4_194_304)
            .leaks_are(&[]);
    }
}

#[test]
fn physical_memory_needs_no_context() {
    let ran = driver("resolver", "handle without context", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/devices/0/device", 1)
        .is("/devices/0/spaces/vmm/live_bytes", 6 * MIB);
    ran.leaks_are(&[("handle_without_context", 6 * MIB, 1)])
        .is("/leaks/0/device", 1);
}

#[test]
fn a_reset_takes_all_but_stream_ordered_memory() {
    let ran = runtime(Route::Shared, "reset", &[]);
    ran.says(0, "1\n")
        .is("/anomalies/free_after_reset", 1)
        .is("/anomalies/unknown_free", 0);
    ran.is("/released/by_reset/device/bytes", 5_242_880)
        .is("/released/by_reset/device/blocks", 5);
    ran.is("/released/by_reset/pinned/bytes", 2_097_152);
    ran.is("/released/by_reset/async/bytes", 0);
    ran.is("/devices/0/spaces/async/live_bytes", 8_388_608);
    ran.is("/devices/0/spaces/device/live_bytes", MIB)
        .is("/host/spaces/pinned/live_bytes", 0);
    ran.leaks_are(&[("reset", 8_388_608, 1), ("take", MIB, 1)]);
}

#[test]
fn a_destroyed_context_takes_its_own_memory_only() {
    let ran = driver("dlsym", "context destroyed", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/devices/0/peak_bytes", 10_485_760);
    ran.is("/released/by_context_destroy/device/bytes", 4_194_304);
    ran.is("/devices/0/live_bytes", 6_291_456)
        .leaks_are(&[("take", 6_291_456, 1)]);
}

#[test]
fn host_memory_is_no_device_memory() {
    let ran = runtime(Route::Shared, "host", &[]);
    ran.says(0, "712\n")
        .is("/host/spaces/pinned/peak_bytes", 34_359_738_368);
    ran.is("/host/spaces/pinned/live_bytes", 0)
        .is("/host/spaces/registered/live_bytes", 0);
    ran.is("/host/spaces/registered/peak_bytes", 4_194_304)
        .is("/anomalies/failed_register", 1);
    ran.leaks_are(&[]);
    let failed = anomaly(&ran, "failed_register");
    assert_eq!(
        (&failed["site"], &failed["code"]),
        (&"register_twice".into(), &712.into())
    );
    assert_eq!(failed["block"]["bytes"], 4 * MIB);
    let devices = ran.report["devices"].as_array().expect("devices");
    assert!(
        devices.iter().all(|device| device["peak_bytes"] == 0),
        "{devices:#?}"
    );
}

#[test]
fn managed_memory_may_exceed_the_device() {
    let ran = runtime(Route::Shared, "managed beyond the device", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/devices/0/spaces/managed/live_bytes", 25_769_803_776);
    ran.is("/devices/0/live_bytes", 0)
        .is("/devices/0/peak_bytes", 0);
    assert_eq!(ran.report["oom"], json!([]));
}

#[test]
fn a_free_counts_for_the_device_of_its_block() {
    let ran = runtime(Route::Shared, "two devices", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/devices/0/device", 0)
        .is("/devices/0/live_bytes", 0)
        .is("/devices/0/peak_bytes", MIB);
    ran.is("/devices/1/device", 1)
        .is("/devices/1/live_bytes", 4 * MIB)
        .is("/devices/1/peak_bytes", 6 * MIB);
    ran.leaks_are(&[("take", 4 * MIB, 1)])
        .is("/leaks/0/device", 1);
}

#[test]
fn a_channel_that_fills_up_loses_nothing() {
    let ran = runtime(Route::Shared, "many threads", &[]);
    is_clean(ran.says(0, ""));
    ran.is("/totals/allocs", 160_000)
        .is("/totals/frees", 160_000)
        .is("/totals/untracked_frees", 0);
    ran.is("/devices/0/live_bytes", 0)
        .is("/devices/0/live_blocks", 0)
        .leaks_are(&[]);
    // Each thread takes 20,000 blocks of one, two and three pages in turn.
    ran.is(
        "/totals/cumulative_bytes",
        8 * 4096 * (6667 + 2 * 6667 + 3 * 6666),
    );
}
