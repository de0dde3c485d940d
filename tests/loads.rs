//! Libraries that come and go: their frames keep their names, and nobody waits for the loader.

mod support;

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
