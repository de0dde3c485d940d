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
        "oomhook: still running, 10.0 MiB live in 1 block; peak 10.0 MiB on GPU 0"
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
        "oomhook: ended by SIGTERM, 10.0 MiB live in 1 block; peak 10.0 MiB on GPU 0"
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
            let most = if width < 80 { 48 } else { 40 };
            assert!(text.lines().count() <= most, "{text}");
            // Neither the headline nor the command is ever cut.
            let cut = text.lines().skip(usize::from(width < 80));
            for line in cut.filter(|line| !line.starts_with("next: ")) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}

#[test]
fn host_memory_that_runs_out_is_not_compared_with_a_device() {
    let mut world = World::new();
    let stage = world.from("stage()", "/src/stage.cpp", 3);
    world.malloc(stage, MIB);
    world.call = 3;
    world.happens(
        stage,
        What::AllocFailed {
            space: Some(Space::Pinned),
            requested: Some(64 * GIB),
            code: 2,
            free: Some(8 * GIB),
            total: Some(16 * GIB),
            address: None,
        },
    );
    world.exits(1);
    let report = world.report();
    let oom = &report.oom[0];
    assert_eq!((oom.free_bytes, oom.short_by_bytes), (None, None));
    let text = text::render(&report, &Style::default());
    assert!(
        text.starts_with("oomhook: OUT OF MEMORY: cudaHostAlloc asked 64.0 GiB of host memory\n"),
        "{text}"
    );
    assert!(text.contains("ran out of host memory"), "{text}");
    assert!(
        !text.contains("short by") && !text.contains("free far above"),
        "{text}"
    );
}

#[test]
fn of_a_process_that_ended_at_once_nothing_is_known() {
    let mut world = World::new();
    world.facts.complete = false;
    let text = text::render(&world.report(), &Style::default());
    assert!(
        text.starts_with("oomhook: the process ended within moments of its first CUDA call"),
        "{text}"
    );
    let mut world = World::new();
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    assert!(
        text.starts_with("oomhook: no CUDA memory was allocated\n"),
        "{text}"
    );
}

#[test]
fn frees_after_the_drivers_end_are_no_bad_frees() {
    let mut world = World::new();
    let keep = world.from("keep()", "/src/keep.cpp", 3);
    // More than details are kept of.
    let blocks: Vec<u64> = (0..300).map(|_| world.malloc(keep, MIB)).collect();
    world.failing_free(keep, 0xdead_0000);
    for address in blocks {
        world.free(keep, address);
        world.happens(0, What::Undo { address, code: 4 });
    }
    world.exits(0);
    let report = world.report();
    let anomalies = &report.anomalies;
    assert_eq!((anomalies.unknown_free, anomalies.failed_free), (1, 0));
    assert_eq!(anomalies.after_shutdown, 300);
    assert_eq!(anomalies.events.len(), 1);
    assert_eq!(
        report.notes,
        ["300 frees came when the driver had shut down with the process: harmless"]
    );
}

#[test]
fn unknown_sites_are_explained_by_the_settings() {
    let mut world = World::new();
    world.malloc(0, MIB);
    world.exits(0);
    assert_eq!(world.report().notes, [""; 0]);
    let set = |world: &mut World, name: &str, value: &str| {
        let environment = &mut world.header.environment;
        environment.clear();
        environment.insert(name.into(), value.into());
    };
    set(&mut world, "OOMHOOK_STACKS", "off");
    assert!(world.report().notes[0].starts_with("OOMHOOK_STACKS=off"));
    set(&mut world, "OOMHOOK_DEPTH", "1");
    assert!(world.report().notes[0].starts_with("OOMHOOK_DEPTH=1"));
    set(&mut world, "OOMHOOK_DEPTH", "64");
    assert_eq!(world.report().notes, [""; 0]);
}

#[test]
fn real_failures_come_before_recovered_ones_and_probes() {
    let mut world = World::new();
    let train = world.from("train()", "/src/train.cpp", 3);
    let probe = world.from("probe()", "/src/probe.cpp", 4);
    world.malloc(train, GIB);
    world.fails(train, 20 * GIB, 15 * GIB);
    for exponent in [3, 2, 1] {
        world.fails(probe, (16 * GIB) << exponent, 15 * GIB);
    }
    world.malloc(probe, GIB);
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    let real = text
        .find("asked by train.cpp:3 train")
        .expect("the failure");
    let probes = text.find("size probe: 3 failures").expect("the probe");
    assert!(real < probes, "{text}");
}

#[test]
fn rows_that_would_look_alike_are_told_apart() {
    let mut world = World::new();
    let long = "serving::kv::cache::PagedAttentionCacheOfTheDecoder";
    for kind in ["float", "double"] {
        let grow = world.from(&format!("{long}<{kind}>::grow_to()"), "/src/cache.cpp", 12);
        world.malloc(grow, GIB);
    }
    let stage = world.from("stage()", "/src/stage.cpp", 3);
    for device in 0..2 {
        world.device = Some(device);
        world.malloc(stage, 2 * GIB);
    }
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    let live = &text[text.find("Live at exit").expect("the section")..];
    for words in ["[float", "[double", "[GPU 0]", "[GPU 1]"] {
        let words = words.replace('[', "");
        assert!(live.contains(&words), "{words}: {text}");
    }
}

#[test]
fn many_gpus_fit_on_a_screen() {
    use oomhook_trace::record::Device;
    let mut world = common::bad_day(false);
    for ordinal in 2..8 {
        world.record(Record::Device(Device {
            ordinal,
            uuid: vec![ordinal as u8 + 1; 16],
            name: "NVIDIA H200".into(),
            pci_bus_id: format!("0000:0{ordinal}:00.0"),
            total_bytes: 16 * GIB,
        }));
    }
    let weights = world.from("load()", "/src/load.cpp", 1);
    for device in 0..8 {
        world.device = Some(device);
        world.alloc(weights, Space::Managed, 20 * GIB);
        world.malloc(weights, GIB);
        world.fails(weights, GIB, 15 * GIB);
    }
    // It lived on: an end that something follows is none, and one that ended without any would have died of the last failure.
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    assert!(
        text.lines().count() <= 44,
        "{} lines\n{text}",
        text.lines().count()
    );
    assert!(text.contains("on 8 GPUs"), "{text}");
    assert!(text.contains("on GPU 7 and on 7 more GPUs"), "{text}");
    assert!(
        text.contains("more GPUs with peaks up to 1.0 GiB"),
        "{text}"
    );
}

#[test]
fn a_search_for_a_size_is_one_line_after_the_real_failure() {
    let mut world = World::new();
    let train = world.from("train()", "/src/train.cpp", 3);
    let search = world.from("search()", "/src/search.cpp", 4);
    world.malloc(train, GIB);
    world.fails(train, 20 * GIB, 15 * GIB);
    for size in [24, 20, 18, 17, 16] {
        world.fails(search, size * GIB, 15 * GIB);
    }
    world.exits(0);
    let text = text::render(&world.report(), &Style::default());
    let real = text.find("asked 20.0 GiB on GPU 0").expect("the failure");
    let found = text.find("cudaMalloc failed 5 times for 16.0 GiB to 24.0 GiB");
    assert!(found.is_some_and(|search| real < search), "{text}");
    assert!(!text.contains("more (--json"), "{text}");
}

#[test]
fn stacks_of_template_instances_show_their_arguments() {
    use oomhook_report::table::{self, At, By, Layer};
    let mut world = World::new();
    for kind in ["0", "1", "1"] {
        let name = format!("void site<{kind}>(unsigned long)");
        let site = world.from(&name, "/src/a.cpp", 4);
        world.malloc(site, MIB);
    }
    let ledger = &world.ledger;
    let mut resolver =
        oomhook_report::Resolver::new(ledger.definitions(), &mut world.names, Depth::Whole);
    let groups = table::group(ledger, &mut resolver, By::Stack, At::Peak, Layer::Driver);
    assert_eq!(groups.len(), 2);
    let text = table::render(&groups, &mut resolver, "", "Title", &Style::default());
    for name in ["a.cpp:4 void site<0>(", "a.cpp:4 void site<1>("] {
        assert!(text.contains(name), "{text}");
    }
}
