//! Libraries that come and go: their frames keep their names, and nobody waits for the loader.

mod support;

use std::collections::HashMap;
use std::path::PathBuf;
use support::{Bench, MIB, Ran, Route};

fn run(part: &str) -> Ran {
    let bench = Bench::shared();
    bench.run(&bench.build("loads.c", Route::Shared, &[]), &[part], &[])
}

fn library(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let bench = Bench::shared();
    bench.library(source, name, &[bench.shared_runtime()], flags)
}

#[test]
fn a_leak_stays_with_the_library_that_is_gone() {
    library("plugin.c", "libolder.so", &["-DNAME(f)=older_##f"]);
    library("plugin.c", "libtwin.so", &["-DNAME(f)=twin_##f"]);
    let ran = run("replaced");
    // Else the test shows nothing.
    ran.says(0, "same place\n")
        .is("/devices/0/live_bytes", 6 * MIB);
    let mut leaks = ran.leaks();
    leaks.sort();
    assert_eq!(
        leaks,
        [
            ("older_allocate".into(), 3 * MIB, 1),
            ("twin_allocate".into(), 3 * MIB, 1)
        ]
    );
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        let own = if leak["site"] == "older_allocate" {
            "libolder.so"
        } else {
            "libtwin.so"
        };
        assert_eq!(leak["library"], own);
    }
}

#[test]
fn names_stay_right_while_libraries_take_each_others_places() {
    library("plugin.c", "libolder.so", &["-DNAME(f)=older_##f"]);
    library("plugin.c", "libtwin.so", &["-DNAME(f)=twin_##f"]);
    let ran = run("swapped");
    let printed = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let (same, count) = printed.trim().split_once(' ').expect("two numbers");
    assert_eq!(
        same,
        "1",
        "they never lay at the same place: {}",
        ran.stderr()
    );
    ran.is("/totals/allocs", count.parse().expect("a number"));
    let mut sums: HashMap<(String, String), (u64, u64)> = HashMap::new();
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        let word = |key: &str| leak[key].as_str().expect("a word").to_owned();
        let sum = sums.entry((word("site"), word("library"))).or_default();
        sum.0 += leak["bytes"].as_u64().expect("bytes");
        sum.1 += leak["blocks"].as_u64().expect("blocks");
        let functions: Vec<&str> = leak["stack"]
            .as_array()
            .expect("frames")
            .iter()
            .filter_map(|frame| frame["function"].as_str())
            .collect();
        let site = functions.iter().position(|name| *name == word("site"));
        let outside = &functions[site.expect("the site") + 1..];
        assert!(
            outside.starts_with(&["ask", "swapped", "run_part", "main"]),
            "{functions:?}"
        );
    }
    let expected = |site: &str, library: &str| ((site.into(), library.into()), (200 * 12_288, 400));
    let expected = HashMap::from([
        expected("older_allocate", "libolder.so"),
        expected("twin_allocate", "libtwin.so"),
    ]);
    assert_eq!(sums, expected);
}

#[test]
fn a_library_that_was_asked_for_from_here_is_named_from_anywhere() {
    library("plugin.c", "libolder.so", &["-DNAME(f)=older_##f"]);
    let bench = Bench::shared();
    let ran = bench.run(
        &bench.build("loads.c", Route::Shared, &[]),
        &["from_here"],
        &[],
    );
    ran.says(0, "").leaks_are(&[("older_allocate", 3 * MIB, 1)]);
}

#[test]
fn a_constructor_may_take_memory_while_the_loader_is_locked() {
    library("eager.c", "libeager.so", &[]);
    let ran = run("constructors");
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let printed = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let count: u64 = printed.trim().parse().expect("a number");
    ran.is("/totals/allocs", count)
        .is("/totals/frees", count)
        .leaks_are(&[]);
}
