//! What is kept apart from blocks: pools and their books, halves of physical memory, memory that processes share. Exact.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Bench, MIB, Ran, oomhook};

/// `pools.c`, linked with libcuda.
fn program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("pools.c", support::Route::Driver, &[&simulator])
}

#[track_caller]
fn pools(part: &str, settings: &[(&str, &str)]) -> Ran {
    let ran = Bench::shared().run(&program(), &[part], settings);
    ran.says(0, "");
    ran
}

/// The notes, one a line.
fn notes(ran: &Ran) -> String {
    let notes = ran.report["notes"].as_array().expect("notes");
    let notes = notes.iter().map(|note| note.as_str().expect("a note"));
    notes.collect::<Vec<_>>().join("\n")
}

/// A command's output.
#[track_caller]
fn output(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    String::from_utf8(output.stdout).expect("text")
}

/// The report for people, its paragraphs unwrapped.
#[track_caller]
fn text(traces: &[&Path]) -> String {
    let text = output(oomhook().arg("report").args(traces));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_pool_has_its_own_books_beside_the_drivers_figures() {
    let ran = pools("books", &[]);
    assert_eq!(ran.report["pools"].as_array().map(Vec::len), Some(2));
    let own = "/pools/0";
    for (key, wanted) in [
        ("device", 0),
        ("live_bytes", 8 * MIB),
        ("live_blocks", 2),
        ("live_peak_bytes", 16 * MIB),
        ("allocs", 3),
        ("used_bytes", 8 * MIB),
        ("used_peak_bytes", 16 * MIB),
        ("reserved_bytes", 32 * MIB),
        ("idle_bytes", 24 * MIB),
        ("pending_bytes", 0),
        ("release_threshold_bytes", u64::MAX),
        ("trims", 0),
    ] {
        ran.is(&format!("{own}/{key}"), wanted);
    }
    let pool = &ran.report["pools"][0];
    assert_eq!(pool["kind"], "own");
    assert_eq!(pool["made"]["site"], "make_pool");
    assert_eq!(pool["made"]["call"], "cuMemPoolCreate");
    assert_eq!(pool["threshold_set"]["site"], "keep_all");
    assert_eq!(pool["destroyed"], Value::Null);
    ran.is("/pools/1/live_bytes", 4 * MIB)
        .is("/pools/1/live_blocks", 1)
        .is("/pools/1/used_bytes", 4 * MIB)
        .is("/pools/1/release_threshold_bytes", 0);
    let default = &ran.report["pools"][1];
    assert_eq!(default["kind"], "default");
    assert_eq!(default["made"], Value::Null);
    assert!(
        notes(&ran).contains("retained, not leaked"),
        "{}",
        notes(&ran)
    );
    assert!(text(&[&ran.trace]).contains("retained, not leaked"));
}

/// The peak's account: (name, bytes) without the rest and what is free.
#[track_caller]
fn peak(ran: &Ran) -> Vec<(&str, u64)> {
    let lines = ran.report["devices"][0]["ledger"]["peak"].as_array();
    let lines = lines.expect("lines").iter().map(|line| {
        let name = line["name"].as_str().expect("a name");
        (name, line["bytes"].as_u64().expect("a number"))
    });
    let lines: Vec<_> = lines.filter(|line| line.1 > 0).collect();
    let sum: u64 = lines.iter().map(|line| line.1).sum();
    assert_eq!(sum, 16 << 30, "{lines:?}");
    lines.into_iter().filter(|line| line.0 != "free").collect()
}

#[test]
fn the_reserve_is_counted_beside_what_lived_of_it_and_never_twice() {
    for sample in ["20ms", "1h", "off"] {
        let ran = pools("rounds", &[("OOMHOOK_SAMPLE", sample)]);
        // 64 blocks of 22 MiB are 44 steps of the reserve to the byte.
        if sample == "off" {
            // Nobody has looked at the whole device.
            let lines = &ran.report["devices"][0]["ledger"]["peak"];
            assert_eq!(lines.as_array().map(Vec::len), Some(1), "{lines}");
            assert_eq!(lines[0]["bytes"], 64 * 22 * MIB);
        } else {
            assert_eq!(peak(&ran), [("async", 64 * 22 * MIB)], "{sample}");
        }
        let exit = &ran.report["devices"][0]["ledger"]["exit"][0];
        assert_eq!(exit["name"], "pool_idle");
        assert_eq!(exit["bytes"], 64 * 22 * MIB);
    }
}

#[test]
fn a_reserve_that_was_given_back_is_told_by_its_high_mark() {
    for sample in ["20ms", "1h"] {
        let ran = pools("given back", &[("OOMHOOK_SAMPLE", sample)]);
        let wanted = [("async", 30 * MIB), ("pool_idle", 2 * MIB)];
        assert_eq!(peak(&ran), wanted, "{sample}");
    }
}

#[test]
fn a_trim_says_what_it_gave_back_where_the_pool_may_be_asked() {
    let ran = pools("trims", &[]);
    ran.is("/pools/0/trims", 3)
        .is("/pools/0/trimmed_bytes", 64 * MIB)
        .is("/pools/0/trims_unmeasured", 1)
        .is("/pools/0/reserved_bytes", 0)
        .is("/pools/0/reserved_peak_bytes", 64 * MIB);
    ran.is("/graphs/failed_captures", 0)
        .is("/graphs/captures", 1);
    assert!(!notes(&ran).contains("retained"), "{}", notes(&ran));
}

#[test]
fn freed_memory_that_waits_for_a_synchronisation_is_told_apart_from_the_reserve() {
    let ran = pools("waiting", &[]);
    ran.is("/pools/0/live_bytes", 0)
        .is("/pools/0/idle_bytes", 32 * MIB)
        .is("/pools/0/pending_bytes", 32 * MIB);
    let notes = notes(&ran);
    assert!(
        notes.contains("about 32.0 MiB of memory pools on GPU 0 are freed but not yet given back"),
        "{notes}"
    );
    assert!(!notes.contains("retained"), "{notes}");
    ran.leaks_are(&[]);
}

#[test]
fn a_pool_on_the_host_is_no_context() {
    let ran = pools("host pool", &[]);
    assert_eq!(ran.report["contexts"].as_array().map(Vec::len), Some(1));
    assert_eq!(ran.report["pools"][0]["device"], Value::Null);
    ran.is("/pools/0/live_bytes", MIB)
        .is("/host/spaces/pinned/live_bytes", MIB);
}

#[test]
fn a_pool_destroyed_with_blocks_in_it_is_named_with_both_sites() {
    let ran = pools("destroyed early", &[]);
    ran.is("/pools/0/destroyed/left_blocks", 2)
        .is("/pools/0/destroyed/left_bytes", 16 * MIB)
        .is("/pools/0/live_blocks", 1)
        .is("/pools/1/destroyed/left_blocks", 0)
        .is("/pools/1/reserved_bytes", 0);
    let end = &ran.report["pools"][0]["destroyed"];
    assert_eq!(
        (&end["site"], &end["left_from"]["site"]),
        (&"destroy".into(), &"take".into())
    );
    let notes = notes(&ran);
    let told = notes
        .lines()
        .filter(|note| note.contains("was destroyed by"));
    let told: Vec<_> = told.collect();
    assert_eq!(told.len(), 1, "{notes}");
    for part in [
        "make_pool",
        "destroy",
        "take",
        "2 blocks of 16.0 MiB",
        "lives on with 1 block",
    ] {
        assert!(told[0].contains(part), "{part} in {}", told[0]);
    }
    // Its figures are from before its end.
    assert!(!notes.contains("idle"), "{notes}");
    ran.leaks_are(&[("take", 6 * MIB, 1)]);
}

#[test]
fn frees_on_another_stream_are_counted_with_their_sites() {
    let ran = pools(
        "other stream",
        &[("OOMHOOK_SIM_FAIL", "cuMemFreeAsync#6=1")],
    );
    ran.is("/other_stream_frees/frees", 3)
        .is("/pools/0/other_stream_frees", 3)
        .is("/totals/frees", 6)
        .is("/anomalies/failed_free", 1);
    let sites = ran.report["other_stream_frees"]["sites"].as_array();
    let sites = sites.expect("sites");
    assert_eq!(sites.len(), 1, "{sites:#?}");
    assert_eq!(
        (
            &sites[0]["site"],
            &sites[0]["freed_by"]["site"],
            &sites[0]["frees"]
        ),
        (&"take_default".into(), &"free_elsewhere".into(), &3.into())
    );
    let notes = notes(&ran);
    assert!(
        notes.contains("3 stream-ordered frees on another stream"),
        "{notes}"
    );
}

#[test]
fn physical_memory_that_lost_one_of_its_two_holds_is_told() {
    let ran = pools("half released", &[]);
    for (key, wanted) in [
        ("handles", 4),
        ("physical_bytes", 16 * MIB),
        ("references", 3),
        ("mappings", 4),
        ("mapped_bytes", 12 * MIB),
        ("va_bytes", 64 * MIB),
        ("only_mapped/0/handles", 2),
        ("only_mapped/0/bytes", 8 * MIB),
        ("only_referenced/0/handles", 1),
        ("only_referenced/0/bytes", 6 * MIB),
    ] {
        ran.is(&format!("/vmm/{key}"), wanted);
    }
    let notes = notes(&ran);
    for part in [
        "2 physical handles of 8.0 MiB",
        "released but still mapped",
        "1 physical handle of 6.0 MiB",
        "not mapped and never released",
    ] {
        assert!(notes.contains(part), "{part} in {notes}");
    }
    ran.is("/devices/0/live_bytes", 16 * MIB);
}

/// Both traces of a part that forks, the exporter's first, and their merged report.
#[track_caller]
fn two(part: &str) -> ([PathBuf; 2], Value) {
    let run = Bench::shared().start(&program(), &[part]);
    let (end, traces) = run.output();
    let said = String::from_utf8_lossy(&end.stderr).into_owned();
    assert!(end.status.success(), "{said}");
    let mut traces: Vec<_> = traces
        .into_iter()
        .map(|trace| (support::report(&trace)["totals"]["allocs"].as_u64(), trace))
        .collect();
    traces.sort_by_key(|(allocs, _)| std::cmp::Reverse(*allocs));
    let [owner, user] = [0, 1].map(|at| traces[at].1.clone());
    let merged = output(oomhook().args(["report", "--json"]).args([&owner, &user]));
    let merged = serde_json::from_str(&merged).expect("JSON");
    ([owner, user], merged)
}

#[test]
fn memory_freed_while_another_process_has_it_open_is_found_in_the_merged_view() {
    let ([owner, user], report) = two("ipc");
    let (parent, child) = (&report["processes"][0], &report["processes"][1]);
    assert_eq!(parent["ipc"]["exported"], 3);
    assert_eq!(parent["ipc"]["exports"][1]["bytes"], 5 * MIB);
    assert_eq!(parent["ipc"]["exports"][1]["from"]["site"], "own");
    let ipc = &child["ipc"];
    assert_eq!((&ipc["opened"], &ipc["closed"]), (&4.into(), &3.into()));
    let merged = &report["merged"];
    let device = &merged["devices"][0];
    // The owner's alone: three blocks at its peak, none at its end.
    assert_eq!(device["processes"], 1);
    assert_eq!(device["peak_bytes"], 15 * MIB);
    assert_eq!(device["live_bytes"], 0);
    assert_eq!(device["imported_bytes"], 5 * MIB);
    assert_eq!(merged["totals"]["allocs"], 3);
    assert_eq!(merged["imports_unmatched"], 0);
    let shared = merged["shared"].as_array().expect("rows");
    let rows: Vec<_> = shared
        .iter()
        .map(|row| {
            (
                row["opens"].as_u64(),
                row["closes"].as_u64(),
                row["freed_while_open"].as_bool(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (Some(2), Some(2), Some(false)),
            (Some(1), Some(1), Some(true)),
            (Some(1), Some(0), Some(false)),
        ]
    );
    assert_eq!(shared[1]["freed_by"]["site"], "free_too_early");
    assert_eq!(shared[1]["opened_by"]["site"], "borrow");
    assert_eq!(shared[1]["estimated"], false, "{shared:#?}");
    assert_eq!(shared[1]["owner_pid"], parent["process"]["pid"]);
    let both = text(&[&owner, &user]);
    assert!(both.contains("5.0 MiB of process"), "{both}");
    assert!(both.contains("free_too_early"), "{both}");
    // One alone knows only that it did not close what it opened.
    let alone = text(&[&user]);
    assert!(!alone.contains("free_too_early"), "{alone}");
    assert!(
        alone.contains("a block of other processes still open: opened once, never closed"),
        "{alone}"
    );
}

#[test]
fn pools_and_handles_of_another_process_are_its_own() {
    let (_, report) = two("shared files");
    let (parent, child) = (&report["processes"][0], &report["processes"][1]);
    assert_eq!(parent["ipc"]["exported"], 3);
    assert_eq!(child["ipc"]["opened"], 2);
    assert_eq!(child["ipc"]["closed"], 2);
    assert_eq!(child["pools"][0]["kind"], "imported");
    assert_eq!(child["devices"][0]["peak_bytes"], 0);
    let merged = &report["merged"];
    assert_eq!(merged["devices"][0]["peak_bytes"], 5 * MIB);
    // The pointer is known by its bytes; a file has another number in each process.
    assert_eq!(merged["shared"].as_array().map(Vec::len), Some(1));
    assert_eq!(merged["shared"][0]["bytes"], 3 * MIB);
    assert_eq!(merged["imports_unmatched"], 1);
}
