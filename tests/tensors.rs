//! What PyTorch's cache hands out is recorded as the cache itself counts it: to the byte, by site, under every name that its
//! report functions have had; where there is room in it; and what it says when it gives up.

mod support;

use serde_json::Value;
use std::path::PathBuf;
use support::naming::reported;
use support::{Bench, Ran, Route, sites};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Report functions as PyTorch 2.x has them, and as 1.10 to 1.13 had.
const NAMES: [[&str; 2]; 2] = [
    [
        "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE",
        "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE",
    ],
    [
        "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE",
        "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE",
    ],
];

/// The program on the stand-in for PyTorch's cache, whose report functions are named so.
fn program(names: usize) -> PathBuf {
    let bench = Bench::shared();
    let [report, refuse] = NAMES[names];
    let report = format!("-DREPORT=\"{report}\"");
    let refuse = format!("-DREFUSE=\"{refuse}\"");
    let flags = [report.as_str(), refuse.as_str()];
    let folder = format!("names{names}");
    let rpath = format!("-Wl,-rpath,{}", bench.path(&folder).display());
    let with_c10 = [&flags[..], &["-DC10"]].concat();
    let c10 = bench.library(
        "torch_cache.c",
        &format!("{folder}/libc10.so"),
        &[],
        &with_c10,
    );
    let cache = bench.library(
        "torch_cache.c",
        &format!("{folder}/libc10_cuda.so"),
        &[bench.shared_runtime(), c10.clone()],
        &[&flags[..], &[&rpath]].concat(),
    );
    let (c10, cache) = (c10.display().to_string(), cache.display().to_string());
    bench.build("tensors.c", Route::Shared, &[&rpath, &cache, &c10])
}

fn run(case: &str, settings: &[(&str, &str)]) -> Ran {
    Bench::shared().run(&program(0), &[case], settings)
}

/// What the cache says of itself at the end.
struct Own {
    allocated: u64,
    allocated_peak: u64,
    reserved: u64,
    reserved_peak: u64,
    segments: u64,
    largest_hole: u64,
    reports: u64,
    refusals: u64,
}

fn own(ran: &Ran) -> Own {
    let text = String::from_utf8_lossy(&ran.output.stdout);
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap_or_else(|_| panic!("{text}")))
        .collect();
    let [
        allocated,
        allocated_peak,
        reserved,
        reserved_peak,
        segments,
        largest_hole,
        reports,
        refusals,
    ] = numbers[..]
    else {
        panic!("{text}")
    };
    Own {
        allocated,
        allocated_peak,
        reserved,
        reserved_peak,
        segments,
        largest_hole,
        reports,
        refusals,
    }
}

fn tensors(ran: &Ran) -> &Value {
    &ran.report["devices"][0]["tensors"]
}

/// The trace's figures are the cache's own, and every report reached the framework's own function.
fn agrees(ran: &Ran) -> Own {
    let own = own(ran);
    let tensors = tensors(ran);
    assert_eq!(tensors["allocated_bytes"], own.allocated);
    assert_eq!(tensors["allocated_peak_bytes"], own.allocated_peak);
    assert_eq!(tensors["reserved_bytes"], own.reserved);
    assert_eq!(tensors["reserved_peak_bytes"], own.reserved_peak);
    assert_eq!(tensors["idle_bytes"], own.reserved - own.allocated);
    assert_eq!(tensors["segments"]["count"], own.segments);
    assert_eq!(tensors["segments"]["bytes"], own.reserved);
    assert_eq!(
        tensors["segments"]["idle_bytes"],
        own.reserved - own.allocated
    );
    assert_eq!(tensors["segments"]["largest_hole_bytes"], own.largest_hole);
    assert_eq!(tensors["segments"]["outside_bytes"], 0);
    let calls = tensors["allocs"].as_u64().zip(tensors["frees"].as_u64());
    assert_eq!(
        calls.map(|(allocs, frees)| allocs + frees),
        Some(own.reports)
    );
    assert_eq!(tensors["unknown_frees"], 0);
    assert_eq!(tensors["failures"], own.refusals);
    let of_peak: u64 = sites(&tensors["peak"]["sites"])
        .iter()
        .map(|site| site.1)
        .sum();
    assert_eq!(of_peak, own.allocated_peak);
    own
}

#[test]
fn every_step_is_seen_and_the_peak_is_the_caches_own() {
    for names in 0..NAMES.len() {
        let ran = Bench::shared().run(&program(names), &["steps"], &[]);
        assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
        let own = agrees(&ran);
        assert_eq!(own.allocated, 100 * MIB + 20 * 1_500_160);
        assert_eq!(own.allocated_peak, 130 * MIB + 1024 + 20 * 1_500_160);
        let tensors = tensors(&ran);
        assert_eq!(
            (&tensors["allocs"], &tensors["frees"]),
            (&61.into(), &40.into())
        );
        assert_eq!(
            sites(&tensors["live_sites"]),
            [
                ("weights".into(), 100 * MIB, 1),
                ("kept".into(), 20 * 1_500_160, 20)
            ]
        );
        // Blocks of the cache are no blocks of the driver.
        assert_eq!(ran.report["devices"][0]["live_bytes"], own.reserved);
    }
}

#[test]
fn roles_add_up_to_what_the_device_held() {
    let ran = run("steps", &[]);
    let own = agrees(&ran);
    // The device held nothing but the cache's segments, of which so much was never handed out at once.
    assert_eq!(own.reserved_peak, 172 * MIB);
    assert_eq!(ran.report["devices"][0]["peak_bytes"], 172 * MIB);
    assert_eq!(own.allocated_peak, 172 * MIB - 14_035_968);
    let table = reported(&ran.trace, &["--by", "role"]);
    for line in [
        " 158.6 MiB   92.2%        23  other\n",
        "  13.4 MiB    7.8%            held by the cache beyond these blocks\n",
    ] {
        assert!(table.contains(line), "{table}");
    }
}

#[test]
fn many_threads_and_sizes_add_up() {
    let ran = run("threads", &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let own = agrees(&ran);
    assert_eq!((own.allocated, own.reports), (0, 2 * 16_000));
}

#[test]
fn tensors_can_be_left_out() {
    let ran = run("steps", &[("OOMHOOK_TENSORS", "off")]);
    assert!(tensors(&ran).is_null());
    assert_eq!(own(&ran).reports, 101);
}

#[test]
fn a_limit_of_the_cache_itself_is_no_failure_of_the_driver() {
    let ran = run("limit", &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    agrees(&ran);
    let oom = &ran.report["oom"];
    assert_eq!(oom.as_array().map(Vec::len), Some(1), "{oom:#}");
    assert_eq!(ran.report["totals"]["failed_allocs"], 0);
    let cache = &oom[0]["cache"];
    assert_eq!(
        (&oom[0]["call"], &oom[0]["requested_bytes"]),
        (&"PyTorch's cache".into(), &(60 * MIB).into())
    );
    assert_eq!(
        (&oom[0]["class"], &cache["by_own_limit"]),
        (&"caught".into(), &true.into())
    );
    assert_eq!(
        (&cache["asked_bytes"], &cache["allocated_bytes"]),
        (&(60 * MIB).into(), &(40 * MIB).into())
    );
    assert_eq!(sites(&cache["sites"]), [("kept".into(), 40 * MIB, 1)]);
}

#[test]
fn a_retry_after_giving_back_is_recovered_from() {
    let ran = run("retry", &[]);
    agrees(&ran);
    let oom = &ran.report["oom"][0];
    assert_eq!(
        (&oom["class"], &oom["freed_between_bytes"]),
        (&"recovered".into(), &(10 * GIB).into())
    );
    assert_eq!(oom["cache"]["asked_bytes"], Value::Null);
    assert_eq!(oom["cache"]["segments"]["empty_bytes"], 10 * GIB);
    // Nothing was handed out, and there is no table of nothing.
    let text = reported(&ran.trace, &[]);
    let cache = "  cache    PyTorch held 10.0 GiB, handed out 0 B, 10.0 GiB idle in 1 segment,\n";
    assert!(text.contains(cache), "{text}");
    assert!(!text.contains("This process held"), "{text}");
    assert!(
        !ran.stderr().contains("This process held"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn what_the_cache_gave_up_and_gave_out_later_is_recovered_from() {
    let ran = run("caught", &[]);
    agrees(&ran);
    let oom = &ran.report["oom"];
    assert_eq!(oom.as_array().map(Vec::len), Some(1), "{oom:#}");
    assert_eq!(
        (&oom[0]["class"], &oom[0]["cache"]["asked_bytes"]),
        (&"recovered".into(), &(8 * GIB).into())
    );
    // The cache kept the segment, but the program freed what was in it.
    assert_eq!(oom[0]["freed_between_bytes"], 10 * GIB);
    let text = reported(&ran.trace, &[]);
    assert!(
        text.contains("recovered after 10.0 GiB were freed"),
        "{text}"
    );
}

#[test]
fn phases_say_that_their_bytes_lie_inside_the_cache() {
    let ran = run("phase", &[]);
    let text = reported(&ran.trace, &[]);
    // Of the segment of 20 MiB that the driver's peak is.
    for line in [
        "Peak 20.0 MiB on GPU 0",
        "Phases  1 name, bytes inside PyTorch's cache\n",
        "     3.0 MiB at most in forward\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn an_emptied_cache_holds_what_is_left() {
    for stacks in ["native", "off"] {
        let ran = run("emptied", &[("OOMHOOK_STACKS", stacks)]);
        assert_eq!(own(&ran).reserved, 300 * MIB);
        if stacks == "off" {
            // The program's own block is as good as a segment: the cache's last word stands.
            assert_eq!(tensors(&ran)["reserved_bytes"], 800 * MIB);
            continue;
        }
        agrees(&ran);
        let table = reported(&ran.trace, &["--by", "role", "--at", "exit"]);
        assert!(!table.contains("idle"), "{table}");
        let text = reported(&ran.trace, &[]);
        assert!(
            text.contains("PyTorch held 800.0 MiB at most; at the end 300.0 MiB, nothing idle\n"),
            "{text}"
        );
    }
    agrees(&run("empties", &[]));
}

#[test]
fn a_fatal_failure_names_what_was_handed_out() {
    let ran = run("fatal", &[]);
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.stderr());
    agrees(&ran);
    let oom = &ran.report["oom"];
    assert_eq!(oom.as_array().map(Vec::len), Some(1), "{oom:#}");
    assert_eq!(
        (&oom[0]["class"], &oom[0]["call"]),
        (&"fatal".into(), &"cudaMalloc".into())
    );
    let cache = &oom[0]["cache"];
    assert_eq!(
        sites(&cache["sites"]),
        [
            ("kept".into(), 10 * GIB, 1),
            ("weights".into(), 100 * MIB, 1),
            ("kept".into(), 20 * 1_500_160, 20)
        ]
    );
}

#[test]
fn room_that_lies_in_pieces_is_found() {
    let ran = run("fragmented", &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let own = agrees(&ran);
    let oom = &ran.report["oom"][0];
    let segments = &oom["cache"]["segments"];
    // Of every second segment a part is idle, and no piece holds what was asked for.
    assert_eq!(own.reserved - own.allocated, 330 * 11 * MIB);
    assert_eq!(
        (&segments["idle_in"], &segments["holes"]),
        (&330.into(), &330.into())
    );
    assert_eq!(
        segments["sizes"],
        serde_json::json!([{"bytes": 24 * MIB, "count": 660}])
    );
    assert_eq!(segments["largest_hole_bytes"], own.largest_hole);
    assert_eq!(segments["empty"], 0);
    assert!(own.largest_hole < 2048 * MIB, "{}", own.largest_hole);
    assert_eq!(segments["idle_bytes"], own.reserved - own.allocated);
}
