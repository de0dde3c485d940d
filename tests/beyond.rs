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
            .is("/graphs/reserved_bytes", 0)
            .is("/graphs/reserved_peak_bytes", 33_554_432)
            .is("/devices/0/spaces/async/live_bytes", 0)
            .is("/devices/0/spaces/async/peak_bytes", 0)
            .is("/devices/0/spaces/graph/peak_bytes", 33_554_432)
            .is("/devices/0/spaces/graph/live_bytes", 0)
            .is("/devices/0/peak_bytes", 33_554_432)
            .is("/totals/allocs", 0);
        assert_eq!(ran.leaks(), []);
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
