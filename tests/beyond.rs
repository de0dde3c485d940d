//! Memory beyond plain pointers: arrays, graphs, code, imports. The report's numbers are exact.

mod support;

use serde_json::Value;
use support::{Bench, MIB, Ran, Route};

/// A part of `beyond.c`.
#[track_caller]
fn beyond(route: Route, part: &str) -> Ran {
    let bench = Bench::shared();
    bench.run(&bench.build("beyond.c", route, &[]), &[part], &[])
}

/// The row of a kind of object.
#[track_caller]
fn objects<'a>(ran: &'a Ran, kind: &str) -> &'a Value {
    let rows = ran.report["objects"].as_array().expect("rows");
    rows.iter()
        .find(|row| row["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind} in {rows:#?}"))
}

#[test]
fn arrays_are_computed_and_marked_as_estimates() {
    for route in [Route::Shared, Route::Static] {
        let ran = beyond(route, "arrays");
        ran.says(0, "")
            .is("/totals/allocs", 4)
            .is("/totals/frees", 1)
            .is("/devices/0/peak_bytes", 2_524_500)
            .is("/devices/0/peak_event", 4)
            .is("/devices/0/live_bytes", 2_422_100)
            .is("/devices/0/live_blocks", 3)
            .is("/devices/0/spaces/array/live_bytes", 1_048_576 + 349_524);
        let leaks = ran.report["leaks"].as_array().expect("rows");
        let row = |site: &str| {
            leaks
                .iter()
                .find(|row| row["site"] == site)
                .expect("the site")
        };
        for (site, bytes) in [("texture_array", 1_048_576), ("mipmap", 349_524)] {
            assert_eq!(
                (&row(site)["bytes"], &row(site)["estimated"]),
                (&bytes.into(), &true.into())
            );
        }
        let boxed = row("arrays");
        assert_eq!(
            (&boxed["bytes"], &boxed["requested_bytes"]),
            (&1_024_000.into(), &1_000_000.into())
        );
        assert_eq!(boxed["estimated"], false);
    }
}

#[test]
fn arrays_go_when_they_are_destroyed() {
    let ran = beyond(Route::Shared, "arrays freed");
    ran.says(0, "")
        .is("/totals/frees", 2)
        .is("/devices/0/live_bytes", 0);
    assert_eq!(ran.leaks(), []);
}

#[test]
fn a_captured_allocation_is_a_node_and_its_memory_the_drivers_figure() {
    for route in [Route::Shared, Route::Static] {
        let ran = beyond(route, "graphs");
        // The program's own reading is the witness.
        ran.says(0, "0 33554432 0\n")
            .is("/graphs/alloc_nodes", 1)
            .is("/graphs/failed_captures", 1)
            .is("/graphs/launches", 100)
            .is("/graphs/execs_live", 0)
            .is("/graphs/used_peak_bytes", 33_554_432)
            .is("/graphs/sites/0/nodes", 1)
            .is("/graphs/sites/0/bytes", 16 * MIB)
            .is("/graphs/reserved_bytes", 0)
            .is("/graphs/reserved_peak_bytes", 33_554_432)
            .is("/devices/0/spaces/async/live_bytes", 0)
            .is("/devices/0/spaces/async/peak_bytes", 0)
            .is("/devices/0/spaces/graph/peak_bytes", 33_554_432)
            .is("/devices/0/spaces/graph/live_bytes", 0)
            .is("/devices/0/peak_bytes", 33_554_432)
            .is("/totals/allocs", 0);
        assert_eq!(ran.leaks(), []);
        let node = &ran.report["graphs"]["sites"][0];
        assert_eq!(node["site"], "capture");
        // A runtime that is linked in has no names of its own to put on calls.
        let call = match route {
            Route::Shared => "cudaMallocAsync",
            _ => "cuMemAllocAsync",
        };
        assert_eq!(node["call"], call);
        let exec = objects(&ran, "graph_exec");
        assert_eq!(
            (&exec["live"], &exec["created"], &exec["destroyed"]),
            (&0.into(), &1.into(), &1.into())
        );
    }
}

#[test]
fn graphs_that_are_kept_are_counted_with_their_makers() {
    let ran = beyond(Route::Shared, "graphs kept");
    ran.says(0, "").is("/graphs/alloc_nodes", 3);
    ran.is("/graphs/launches", 3).is("/graphs/execs_live", 3);
    assert_eq!(ran.report["graphs"]["execs"][0]["site"], "keep_graph");
    let exec = objects(&ran, "graph_exec");
    assert_eq!(exec["live"], 3);
    assert_eq!(exec["sites"][0]["site"], "keep_graph");
    assert_eq!(exec["sites"][0]["call"], "cudaGraphInstantiate");
    assert_eq!(objects(&ran, "graph")["sites"][0]["site"], "capture");
    let reserved = ran.report["graphs"]["reserved_bytes"]
        .as_u64()
        .expect("a number");
    assert!(reserved >= 32 * MIB, "{reserved}");
    assert_eq!(
        ran.report["devices"][0]["spaces"]["graph"]["live_bytes"],
        reserved
    );
}

/// A part of `objects.c`, linked with libcuda.
fn objects_program() -> std::path::PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("objects.c", Route::Driver, &[&simulator])
}

#[test]
fn modules_that_are_never_unloaded_are_counted_at_their_site() {
    let settings = [("OOMHOOK_SIM_MODULE", "2MiB")];
    let ran = Bench::shared().run(&objects_program(), &["modules"], &settings);
    ran.says(0, "")
        .is("/cuda_modules/live", 100)
        .is("/cuda_modules/loaded", 101)
        .is("/cuda_modules/unloaded", 1)
        .is("/totals/allocs", 0);
    let modules = objects(&ran, "module");
    assert_eq!(modules["sites"].as_array().expect("rows").len(), 1);
    assert_eq!(modules["sites"][0]["site"], "load");
    assert_eq!(modules["sites"][0]["live"], 100);
}

#[test]
fn streams_and_limits_are_noted() {
    let ran = Bench::shared().run(&objects_program(), &["streams"], &[]);
    ran.says(0, "");
    let streams = objects(&ran, "stream");
    assert_eq!(
        (&streams["live"], &streams["created"]),
        (&7.into(), &9.into())
    );
    assert_eq!(streams["sites"][0]["site"], "open_stream");
    let limit = &ran.report["limits"][0];
    assert_eq!(
        (&limit["limit"], &limit["value"]),
        (&"stack_size".into(), &8192.into())
    );
}

#[test]
fn calls_that_are_no_allocations_can_run_out_of_memory() {
    let odd = [
        "cuLaunchKernel",
        "cuModuleLoadData",
        "cuStreamCreate",
        "cuMemSetAccess",
        "cuMemPoolCreate",
    ];
    let failures = odd.map(|name| format!("{name}#1=2")).join(",");
    let settings = [
        ("OOMHOOK_SIM", "1x16GiB,free=15GiB"),
        ("OOMHOOK_SIM_FAIL", &failures),
    ];
    let ran = Bench::shared().run(&objects_program(), &["no memory"], &settings);
    ran.says(0, "");
    let oom = ran.report["oom"].as_array().expect("rows");
    let calls: Vec<_> = oom
        .iter()
        .map(|row| row["call"].as_str().expect("a name"))
        .collect();
    assert_eq!(calls, [&odd[..], &["cuMemHostAlloc"]].concat());
    assert_eq!(
        oom.iter()
            .map(|row| row["attempts"].as_u64().expect("a number"))
            .sum::<u64>(),
        6
    );
    for row in &oom[..5] {
        assert_eq!(row["requested_bytes"], Value::Null);
        assert_eq!(row["free_bytes"], 15_u64 << 30);
    }
    assert_eq!(oom[5]["requested_bytes"], 1_099_511_627_776_u64);
    assert_eq!(oom[5]["space"], "pinned");
}

#[test]
fn memory_of_another_process_is_owned_by_its_exporter() {
    let bench = Bench::shared();
    let run = bench.start(&objects_program(), &["ipc"]);
    let (output, traces) = run.output();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(traces.len(), 2, "{traces:?}");
    let mut reports: Vec<_> = traces.iter().map(|trace| support::report(trace)).collect();
    reports.sort_by_key(|report| report["totals"]["allocs"].as_u64());
    let (child, parent) = (&reports[0], &reports[1]);
    assert_eq!(
        (&parent["totals"]["allocs"], &parent["totals"]["frees"]),
        (&1.into(), &1.into())
    );
    assert_eq!(parent["devices"][0]["peak_bytes"], 5 * MIB);
    assert_eq!(child["totals"]["allocs"], 0);
    assert_eq!(child["devices"][0]["peak_bytes"], 0);
    // Opened twice, closed once: still open.
    let imported = &child["devices"][0]["spaces"]["imported"];
    assert_eq!(
        (&imported["live_bytes"], &imported["live_blocks"]),
        (&(5 * MIB).into(), &1.into())
    );
}
