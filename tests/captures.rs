//! While a stream is being captured most calls are forbidden: the library makes none of these, so every code of the
//! program is the one that it gets without the library.

mod support;

use support::{Bench, MIB, Ran, Route};

const MODES: [&str; 3] = ["global", "thread", "relaxed"];

/// A part of `captures.c` in one mode, compared with a run without the library; its codes.
#[track_caller]
fn captures(mode: &str, part: &str) -> (Ran, String) {
    let bench = Bench::shared();
    let program = bench.build("captures.c", Route::Shared, &[]);
    let plain = bench
        .plain(&program, &[mode, part])
        .output()
        .expect("it runs");
    let codes = String::from_utf8(plain.stdout).expect("text");
    let ran = bench.run(&program, &[mode, part], &[]);
    assert_eq!(plain.status.code(), Some(0));
    ran.says(0, &codes);
    assert_eq!(ran.report["complete"], true);
    (ran, codes)
}

#[test]
fn a_captured_allocation_is_no_memory() {
    for mode in MODES {
        let (ran, codes) = captures(mode, "captured");
        assert_eq!(codes, "0 0 0\n");
        // The one that came after the capture.
        ran.is("/totals/allocs", 1)
            .is("/totals/frees", 1)
            .leaks_are(&[]);
        ran.is("/devices/0/spaces/async/peak_bytes", 10 * MIB);
    }
}

#[test]
fn streams_beside_a_capture_are_recorded() {
    for mode in MODES {
        let (ran, codes) = captures(mode, "beside");
        if codes == "0 0\n" {
            ran.is("/totals/allocs", 1)
                .leaks_are(&[("beside", 8 * MIB, 1)]);
        } else {
            ran.is("/totals/allocs", 0).is("/totals/failed_allocs", 1);
        }
    }
}

#[test]
fn a_forbidden_allocation_fails_as_ever() {
    for (mode, wanted) in [
        ("global", "900 901\n"),
        ("thread", "900 901\n"),
        ("relaxed", "0 0\n"),
    ] {
        let (ran, codes) = captures(mode, "plain");
        let allowed = u64::from(mode == "relaxed");
        assert_eq!(codes, wanted, "{mode}");
        ran.is("/totals/allocs", allowed)
            .is("/totals/failed_allocs", 1 - allowed);
        ran.is("/devices/0/live_bytes", 4 * MIB * allowed);
    }
}

#[test]
fn other_threads_are_recorded_during_a_capture() {
    for (mode, wanted) in [
        ("global", "900 901\n"),
        ("thread", "0 0\n"),
        ("relaxed", "0 0\n"),
    ] {
        let (ran, codes) = captures(mode, "elsewhere");
        let allowed = u64::from(mode != "global");
        assert_eq!(codes, wanted, "{mode}");
        ran.is("/totals/allocs", allowed)
            .is("/totals/failed_allocs", 1 - allowed);
        ran.is("/devices/0/live_bytes", 4 * MIB * allowed);
    }
}

#[test]
fn out_of_memory_during_a_capture_is_recorded_and_spoils_nothing() {
    for mode in MODES {
        let (ran, codes) = captures(mode, "out of memory");
        assert_eq!(codes, "2 0\n", "{mode}");
        ran.is("/totals/failed_allocs", 1)
            .is("/oom/0/requested_bytes", 1 << 40);
        ran.is("/oom/0/free_bytes", 16 << 30);
    }
}

#[test]
fn a_capture_left_open_is_not_spoiled_at_the_end() {
    for mode in MODES {
        let (ran, codes) = captures(mode, "left open");
        assert_eq!(codes, "0 0 1\n", "{mode}");
        ran.is("/totals/allocs", 1)
            .is("/totals/frees", 1)
            .leaks_are(&[]);
    }
}
