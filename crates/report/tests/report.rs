//! What a report says about a small world: classes of leaks, attribution, verdicts.

mod common;

use common::{APP, C10, CUDART, GIB, LIBC, MIB, TORCH, World};
use oomhook_report::schema::{LeakClass, Report};
use oomhook_report::text::{self, Style};
use oomhook_report::{Depth, Suppressions};
use oomhook_trace::record::EndKind;
use oomhook_trace::{Record, Space, What};

fn first_line(report: &Report) -> String {
    let text = text::render(report, &Style::default());
    text.lines().next().unwrap_or_default().to_owned()
}

fn classes(report: &Report) -> Vec<(String, LeakClass)> {
    let leaks = report.leaks.iter();
    leaks
        .map(|leak| (leak.site.site.to_string(), leak.class))
        .collect()
}

#[test]
fn a_site_that_leaks_from_the_first_third_to_the_last_grows() {
    let mut world = World::new();
    let work = world.from("work()", "/src/a.cpp", 1);
    let leak = world.from("leak()", "/src/a.cpp", 2);
    for _ in 0..20 {
        let scratch = world.malloc(work, 100 * MIB);
        world.malloc(leak, 2 * MIB);
        world.free(work, scratch);
    }
    world.exits(0);
    let report = world.report();
    assert_eq!(classes(&report), [("leak".into(), LeakClass::Growing)]);
    assert_eq!(report.leaks[0].site.bytes, 41_943_040);
    assert_eq!(report.devices[0].peak_bytes, 146_800_640);
    assert_eq!(report.devices[0].peak_event, 40);
    assert_eq!(
        first_line(&report),
        "oomhook: growing leak: 40.0 MiB in 20 blocks from a.cpp:2 leak"
    );
}

#[test]
fn seven_blocks_or_one_burst_do_not_grow_and_ever_larger_ones_do() {
    let mut world = World::new();
    let few = world.from("few()", "/src/a.cpp", 1);
    let burst = world.from("burst()", "/src/a.cpp", 2);
    let larger = world.from("larger()", "/src/a.cpp", 3);
    let noise = world.from("noise()", "/src/a.cpp", 4);
    for _ in 0..6 {
        world.malloc(few, MIB);
    }
    for _ in 0..100 {
        let address = world.malloc(noise, MIB);
        world.free(noise, address);
    }
    for _ in 0..20 {
        world.malloc(burst, MIB);
    }
    for size in 1..=8 {
        world.malloc(larger, size * MIB);
    }
    world.malloc(few, MIB);
    world.exits(0);
    let mut found = classes(&world.report());
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        found,
        [
            ("burst".into(), LeakClass::OneTime),
            ("few".into(), LeakClass::OneTime),
            ("larger".into(), LeakClass::Growing),
        ]
    );
}

#[test]
fn what_a_cache_holds_is_cached_and_credited_to_its_caller() {
    let mut world = World::new();
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let cache = world.frame(C10, &[("c10::cuda::f(bool)", "", 0)]);
    let torch = world.frame(TORCH, &[("at::empty(int)", "", 0)]);
    let stack = world.stack(&[runtime, cache, torch]);
    for _ in 0..20 {
        world.malloc(stack, 2 * MIB);
    }
    world.exits(0);
    let report = world.report();
    let leak = &report.leaks[0];
    assert_eq!(leak.class, LeakClass::Cached);
    assert_eq!(&*leak.site.site, "at::empty");
    assert_eq!(&*leak.site.library, "libtorch_cuda.so");
    assert_eq!(leak.site.via, Some("libc10_cuda"));
    assert_eq!(leak.site.site_frame, Some(2));
    assert_eq!(
        first_line(&report),
        "oomhook: no leak (only caches are live); peak 40.0 MiB on GPU 0"
    );
    assert!(text::is_unremarkable(&report));
}

#[test]
fn what_is_made_at_exit_is_told_apart() {
    for depth in [Depth::Whole, Depth::ToSite] {
        let mut world = World::new();
        world.facts.depth = depth;
        let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
        let last = world.frame(APP, &[("flush()", "/src/a.cpp", 9)]);
        let handlers = world.frame(LIBC, &[("__run_exit_handlers", "", 0)]);
        let exit = world.frame(LIBC, &[("exit", "", 0)]);
        let stack = world.stack(&[runtime, last, handlers, exit]);
        world.malloc(stack, MIB);
        world.exits(0);
        assert_eq!(
            classes(&world.report()),
            [("flush".into(), LeakClass::DuringExit)]
        );
    }
}

#[test]
fn an_inlined_site_is_found_and_a_stack_without_one_is_unknown() {
    let mut world = World::new();
    let frame = world.frame(
        APP,
        &[
            (
                "cudaError cudaMalloc<float>(float**, unsigned long)",
                "/cuda/cuda_runtime.h",
                600,
            ),
            ("Buffer::grow(int)", "/src/buffer.h", 12),
            ("main", "/src/main.cpp", 40),
        ],
    );
    let stack = world.stack(&[frame]);
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let lost = world.stack(&[runtime]);
    world.malloc(stack, 4 * MIB);
    world.malloc(lost, 2 * MIB);
    world.malloc(0, MIB);
    world.exits(0);
    let report = world.report();
    let labels: Vec<_> = report.leaks.iter().map(|leak| &*leak.site.label).collect();
    assert_eq!(labels, ["buffer.h:12 Buffer::grow", "unknown", "unknown"]);
    assert_eq!(report.leaks[0].site.stack.len(), 3);
    assert_eq!(report.leaks[0].site.site_frame, Some(1));
}

#[test]
fn threads_of_one_stack_are_one_row() {
    let mut world = World::new();
    let stack = world.from("work()", "/src/a.cpp", 1);
    world.malloc(stack, MIB);
    world.call = 2;
    world.malloc(stack, 3 * MIB);
    world.exits(0);
    let report = world.report();
    assert_eq!(report.leaks.len(), 1);
    let site = &report.leaks[0].site;
    assert_eq!((site.bytes, site.blocks, site.allocs), (4 * MIB, 2, 2));
    // The larger part names the call.
    assert_eq!(&*site.call, "cudaFree");
}

#[test]
fn a_death_for_want_of_memory_is_the_headline() {
    let mut world = World::new();
    let hold = world.from("hold()", "/src/a.cpp", 1);
    let ask = world.from("ask()", "/src/a.cpp", 2);
    world.malloc(hold, 10 * GIB);
    world.fails(ask, 8 * GIB, 6 * GIB);
    world.fails(ask, 8 * GIB, 6 * GIB);
    world.exits(1);
    let report = world.report();
    assert_eq!(report.oom.len(), 1);
    assert_eq!(report.oom[0].attempts, 2);
    assert_eq!(report.oom[0].short_by_bytes, Some(2_147_483_648));
    assert_eq!(&*report.oom[0].sites[0].site, "hold");
    assert_eq!(
        first_line(&report),
        "oomhook: OUT OF MEMORY: cudaMalloc asked 8.0 GiB on GPU 0, short by 2.0 GiB"
    );
    let wide = Style {
        width: 120,
        ..Style::default()
    };
    assert!(text::render(&report, &wide).starts_with(
        "oomhook: OUT OF MEMORY: cudaMalloc asked 8.0 GiB on GPU 0, 6.0 GiB free (short by 2.0 GiB)\n"
    ));
}

#[test]
fn a_probe_is_one_line_and_no_disaster() {
    let mut world = World::new();
    let ask = world.from("ask()", "/src/a.cpp", 2);
    for power in [37, 36, 35, 34] {
        world.fails(ask, 1 << power, 15 * GIB + GIB / 2);
    }
    let address = world.malloc(ask, 1 << 33);
    world.free(ask, address);
    world.exits(0);
    let report = world.report();
    let text = text::render(&report, &Style::default());
    assert!(
        text.contains("\n  size probe: 4 failures, 128.0 GiB down to 16.0 GiB\n"),
        "{text}"
    );
    assert!(
        text.starts_with(
            "oomhook: no leak, out of memory 4 times, survived, peak 8.0 GiB on GPU 0\n"
        ),
        "{text}"
    );
}

#[test]
fn running_and_killed_processes_do_not_leak() {
    let mut world = World::new();
    let hold = world.from("hold()", "/src/a.cpp", 1);
    world.malloc(hold, 10 * MIB);
    world.facts.complete = false;
    world.facts.running = true;
    let report = world.report();
    assert_eq!(
        first_line(&report),
        "oomhook: running, 10.0 MiB live in 1 block; peak 10.0 MiB on GPU 0"
    );
    assert_eq!(
        serde_json::to_value(report.process.end).ok(),
        Some("running".into())
    );
    world.happens(
        0,
        What::End {
            kind: EndKind::Signal,
            code: None,
            signal: Some(15),
        },
    );
    assert_eq!(
        first_line(&world.report()),
        "oomhook: ended by signal 15, 10.0 MiB live in 1 block; peak 10.0 MiB on GPU 0"
    );
}

#[test]
fn host_leaks_are_told_when_the_device_is_clean() {
    let mut world = World::new();
    let stage = world.from("stage()", "/src/a.cpp", 1);
    world.alloc(stage, Space::Pinned, 4 * MIB);
    world.alloc(stage, Space::Registered, 8 * MIB);
    world.exits(0);
    let report = world.report();
    // Registered memory is the program's own.
    assert_eq!(report.leaks.len(), 1);
    assert_eq!(report.host.spaces["registered"].live_bytes, 8 * MIB);
    assert_eq!(
        first_line(&report),
        "oomhook: leak: 4.0 MiB in 1 block from a.cpp:1 stage"
    );
}

#[test]
fn managed_memory_above_the_device_is_noted() {
    let mut world = World::new();
    let stack = world.from("big()", "/src/a.cpp", 1);
    world.alloc(stack, Space::Managed, 24 * GIB);
    world.exits(0);
    let report = world.report();
    assert_eq!(
        report.devices[0].spaces["managed"].live_bytes,
        25_769_803_776
    );
    assert_eq!(report.devices[0].live_bytes, 0);
    assert!(report.notes[0].contains("exceeds device by 8,589,934,592 bytes"));
}

#[test]
fn suppressions_look_at_the_whole_stack_whatever_the_depth() {
    let mut world = World::new();
    let stack = world.from("leak()", "/src/a.cpp", 1);
    world.malloc(stack, MIB);
    world.exits(0);
    world.facts.depth = Depth::ToSite;
    world.facts.suppressions = Suppressions::parse("leak:^main$\n").expect("a list");
    let report = world.report();
    assert!(report.leaks.is_empty());
    assert_eq!(report.notes, ["1.0 MiB in 1 block suppressed"]);
}

#[test]
fn notes_of_the_recording_come_first_and_once() {
    let mut world = World::new();
    for _ in 0..2 {
        world.record(Record::Note {
            time_ns: 1,
            text: "the disk is full: the trace stops here".into(),
        });
    }
    assert_eq!(
        world.report().notes,
        ["the disk is full: the trace stops here"]
    );
    assert!(first_line(&world.report()).ends_with("no CUDA memory was allocated"));
}

#[test]
fn bad_days_fit_on_a_screen() {
    for fatal in [false, true] {
        let report = common::bad_day(fatal).report();
        for width in [60, 80, 160] {
            let style = Style {
                width,
                trace: Some("oomhook.node7.4242.trace".into()),
                ..Style::default()
            };
            let text = text::render(&report, &style);
            let most = if width < 80 { 45 } else { 38 };
            assert!(text.lines().count() <= most, "{text}");
            // Neither the headline nor the command is ever cut.
            let cut = text.lines().skip(usize::from(width < 80));
            for line in cut.filter(|line| !line.starts_with("next: ")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
