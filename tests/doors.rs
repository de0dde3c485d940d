//! Every road to the driver is seen, each call is counted once, and whoever looks names up gets what it would have got
//! without the library, but for the hooked functions.

mod support;

use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Bench, MIB, Ran, Route, artefacts, exported, hooked};

fn driver_program(bench: &Bench, door: &str) -> PathBuf {
    let simulator = bench.simulator().display().to_string();
    let flags: &[&str] = if door == "symbol" {
        &["-DLINKED", &simulator]
    } else {
        &[]
    };
    bench.build("driver.c", Route::Driver, flags)
}

#[test]
fn each_road_gives_the_same_leak_once() {
    let bench = Bench::shared();
    let shared = bench.build("leak.c", Route::Shared, &[]);
    let fixed = bench.build("leak.c", Route::Static, &[]);
    let per_thread = ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"];
    let shared_per_thread = bench.build("leak.c", Route::Shared, &per_thread);
    let fixed_per_thread = bench.build("leak.c", Route::Static, &per_thread);
    let opened = bench.build("leak_opened.c", Route::Driver, &[]);
    let by = |door: &str| {
        (
            driver_program(bench, door),
            vec![door.to_owned(), "leak".to_owned()],
        )
    };
    let old_style = [("CUDART_DOUBLE_LOOKUP", "dlsym")];
    // What the program calls is known where the runtime is a library; one that is linked in hides its own names.
    let roads = [
        (
            "shared runtime",
            (shared.clone(), vec![]),
            &[][..],
            "device",
            "cudaMalloc",
        ),
        (
            "shared runtime, names by dlsym",
            (shared, vec![]),
            &old_style,
            "device",
            "cudaMalloc",
        ),
        (
            "static runtime",
            (fixed.clone(), vec![]),
            &[],
            "device",
            "cuMemAlloc",
        ),
        (
            "static runtime, names by dlsym",
            (fixed, vec![]),
            &old_style,
            "device",
            "cuMemAlloc",
        ),
        (
            "own default streams",
            (shared_per_thread.clone(), vec![]),
            &[],
            "async",
            "cudaMallocAsync",
        ),
        (
            "own default streams, names by dlsym",
            (shared_per_thread, vec![]),
            &old_style,
            "async",
            "cudaMallocAsync",
        ),
        (
            "own default streams, static",
            (fixed_per_thread, vec![]),
            &[],
            "async",
            "cuMemAllocAsync",
        ),
        (
            "exported symbols of the driver",
            by("symbol"),
            &[],
            "device",
            "cuMemAlloc",
        ),
        (
            "dlsym on the driver",
            by("dlsym"),
            &[],
            "device",
            "cuMemAlloc",
        ),
        (
            "resolver on the driver",
            by("resolver"),
            &[],
            "device",
            "cuMemAlloc",
        ),
        (
            "dlsym on a local runtime",
            (opened.clone(), vec!["local".to_owned()]),
            &[],
            "device",
            "cudaMalloc",
        ),
    ];
    for (road, (program, arguments), settings, space, call) in roads {
        eprintln!("{road}");
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let ran = bench.run(&program, &arguments, settings);
        is_the_leak(&ran, space, call);
        assert!(
            !notes(&ran).contains("past oomhook's doors"),
            "{road}: {}",
            notes(&ran)
        );
    }
}

#[track_caller]
fn is_the_leak(ran: &Ran, space: &str, call: &str) {
    ran.says(0, "")
        .is("/totals/allocs", 1)
        .is("/totals/frees", 0);
    ran.is("/devices/0/live_bytes", 5_242_880)
        .is("/devices/0/peak_bytes", 5_242_880);
    ran.is(&format!("/devices/0/spaces/{space}/live_bytes"), 5_242_880);
    ran.leaks_are(&[("keep_weights", 5_242_880, 1)]);
    let leak = &ran.report["leaks"][0];
    assert_eq!(
        (&leak["space"], &leak["call"]),
        (&Value::from(space), &Value::from(call)),
        "{leak:#}"
    );
}

fn notes(ran: &Ran) -> String {
    ran.report["notes"].to_string()
}

#[test]
fn python_finds_the_runtime_by_itself() {
    let bench = Bench::shared();
    let runtime = bench.shared_runtime();
    let script = format!(
        "import ctypes\nruntime = ctypes.CDLL({:?})\nblock = ctypes.c_void_p()\n\
         print(runtime.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(5 << 20)))",
        runtime.display().to_string()
    );
    let ran = bench.run(Path::new("python3"), &["-c", &script], &[]);
    ran.says(0, "0\n")
        .is("/totals/allocs", 1)
        .is("/devices/0/live_bytes", 5_242_880);
    assert_eq!(ran.report["leaks"][0]["call"], "cudaMalloc");
}

#[test]
fn a_runtime_that_goes_past_the_driver_doors_is_recorded_itself() {
    let bench = Bench::shared();
    bench.shared_runtime();
    let ran = bench.run(
        &bench.build("leak_opened.c", Route::Driver, &[]),
        &["deepbind"],
        &[],
    );
    is_the_leak(&ran, "device", "cudaMalloc");
    assert!(notes(&ran).contains("libcudart.so.13"), "{}", notes(&ran));
}

#[test]
fn a_deep_bound_library_with_a_runtime_inside_is_named() {
    let bench = Bench::shared();
    bench.library(
        "plugin.c",
        "libdeep.so",
        &[bench.static_runtime()],
        &["-DNAME(f)=deep_##f", "-Wl,--exclude-libs,ALL"],
    );
    let ran = bench.run(&bench.build("deep_plugin.c", Route::Static, &[]), &[], &[]);
    // What the plugin takes goes past every door of a preloaded library; the least is to say so.
    ran.says(0, "").is("/totals/allocs", 1);
    ran.is("/devices/0/live_bytes", 5_242_880);
    let notes = notes(&ran);
    assert!(
        notes.contains("libdeep.so was loaded with RTLD_DEEPBIND"),
        "{notes}"
    );
}

/// Runs a program under this library and another preloaded one, in both orders.
fn with_wrapper(program: &Path, arguments: &[&str]) -> [Ran; 2] {
    let bench = Bench::shared();
    let wrapper = bench.library("wrapper.c", "libwrapper.so", &[], &[]);
    let (ours, wrapper) = (
        artefacts().library.display().to_string(),
        wrapper.display().to_string(),
    );
    [format!("{ours}:{wrapper}"), format!("{wrapper}:{ours}")].map(|order| {
        let mut run = bench.start(program, arguments);
        run.command.env("LD_PRELOAD", &order);
        eprintln!("{order}");
        run.finish()
    })
}

#[test]
fn another_wrapper_of_the_runtime_keeps_its_place_in_the_chain() {
    let program = Bench::shared().build("leak.c", Route::Shared, &[]);
    for ran in with_wrapper(&program, &[]) {
        ran.says(0, "cudaMalloc 1, cuMemAlloc_v2 0, getpgrp 1, a group\n");
        ran.is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", 5_242_880);
    }
}

#[test]
fn a_limiter_below_us_is_seen_through_and_still_limits() {
    let bench = Bench::shared();
    let limiter = bench.library("limiter.c", "liblimiter.so", &[], &[]);
    for (program, arguments) in [
        (bench.build("leak.c", Route::Shared, &[]), &[][..]),
        (bench.build("leak.c", Route::Static, &[]), &[]),
        (driver_program(bench, "dlsym"), &["dlsym", "leak"]),
        (driver_program(bench, "resolver"), &["resolver", "leak"]),
    ] {
        let mut run = bench.start(&program, arguments);
        let ours = artefacts().library.display().to_string();
        run.command
            .env("LD_PRELOAD", format!("{ours}:{}", limiter.display()));
        let ran = run.finish();
        ran.says(0, "limiter: 1\n").is("/totals/allocs", 1);
        ran.is("/devices/0/live_bytes", 5_242_880);
        ran.leaks_are(&[("keep_weights", 5_242_880, 1)]);
    }
}

#[test]
fn another_wrapper_of_the_driver_keeps_its_place_in_the_chain() {
    let program = driver_program(Bench::shared(), "symbol");
    for ran in with_wrapper(&program, &["symbol", "leak"]) {
        ran.says(0, "cudaMalloc 0, cuMemAlloc_v2 1, getpgrp 1, a group\n");
        ran.is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", 5_242_880);
    }
}

#[test]
fn two_runtimes_in_one_process_each_reach_their_own() {
    let bench = Bench::shared();
    let (older, newer) = (bench.shared_runtime_of(12), bench.shared_runtime_of(13));
    let version = ["-DCUDART_VERSION=12000"];
    bench.library(
        "plugin.c",
        "libolder.so",
        &[older],
        &[&["-DNAME(f)=older_##f"], &version[..]].concat(),
    );
    bench.library(
        "plugin.c",
        "libnewer.so",
        &[newer],
        &["-DNAME(f)=newer_##f"],
    );
    let program = bench.build("two_runtimes.c", Route::Driver, &[]);
    for scope in ["local", "global"] {
        let ran = bench.run(&program, &[scope], &[]);
        ran.says(0, "12000 13000\n")
            .is("/totals/allocs", 2)
            .is("/totals/failed_allocs", 2);
        ran.is("/devices/0/live_bytes", 3 * MIB);
        ran.leaks_are(&[("newer_allocate", 2 * MIB, 1), ("older_allocate", MIB, 1)]);
        for leak in 0..2 {
            assert_eq!(ran.report["leaks"][leak]["call"], "cudaMalloc");
        }
    }
}

/// A part of `lookups.c`, without and with the library. The latter must leave this many traces.
#[track_caller]
fn lookups(part: &str, input: &str, traces: usize, adapt: impl Fn(&mut Command)) -> [String; 2] {
    let bench = Bench::shared();
    bench.library("lookalikes.c", "liblookalikes.so", &[], &[]);
    bench.shared_runtime();
    let program = bench.build("lookups.c", Route::Driver, &[]);
    let mut without = bench.plain(&program, &[part]);
    let mut run = bench.start(&program, &[part]);
    adapt(&mut without);
    adapt(&mut run.command);
    let outputs = [feed(&mut without, input), feed(&mut run.command, input)];
    assert_eq!(support::traces_in(&run.folder).len(), traces);
    outputs.map(|output| {
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    })
}

fn feed(command: &mut Command, input: &str) -> Output {
    let pipes = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("it starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())
        .expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_process_without_cuda_finds_no_cuda() {
    let [without, with] = lookups("without cuda", "", 0, |_| {});
    assert!(
        without.starts_with("cuMemAlloc_v2 NULL\ncudaMalloc NULL\n"),
        "{without}"
    );
    assert_eq!(with, without);
}

#[test]
fn names_that_only_begin_like_cuda_are_left_alone() {
    let [without, with] = lookups("lookalikes", "", 0, |_| {});
    assert!(
        without.contains("cudnnCreate liblookalikes.so\ncudnnCreate liblookalikes.so\n"),
        "{without}"
    );
    assert_eq!(with, without);
}

#[test]
fn a_lookup_that_succeeds_leaves_no_error_behind() {
    let bench = Bench::shared();
    let little = bench.library("little_driver.c", "little/libcuda.so.1", &[], &[]);
    let folder = little.parent().expect("a folder").to_owned();
    let [without, with] = lookups("little driver", "", 0, |command| {
        command.env("LD_LIBRARY_PATH", &folder);
    });
    assert!(
        without.starts_with("cuMemAlloc_v2 libcuda.so.1\ncuMemFree_v2 NULL\n"),
        "{without}"
    );
    let with: Vec<_> = with.lines().collect();
    assert_eq!(
        with,
        [
            "cuMemAlloc_v2 liboomhook.so",
            "cuMemFree_v2 NULL",
            "cuInit libcuda.so.1",
            "cuMemAlloc_v2 liboomhook.so"
        ]
    );
}

#[test]
fn a_weak_reference_without_a_driver_is_answered_as_not_initialised() {
    let [without, with] = lookups("weak reference", "", 0, |_| {});
    assert_eq!((without.as_str(), with.as_str()), ("3 77\n", "3 77\n"));
}

#[test]
fn dlsym_answers_hooks_for_the_hooked_names_and_the_real_functions_for_all_others() {
    let bench = Bench::shared();
    let libraries = [bench.simulator(), bench.shared_runtime()];
    let names: Vec<_> = libraries
        .iter()
        .flat_map(|library| exported(library))
        .collect();
    let names: Vec<_> = names
        .into_iter()
        .filter(|name| name.starts_with("cu"))
        .collect();
    let [without, with] = lookups("names", &names.join("\n"), 0, |_| {});
    let mut hooks = hooked();
    assert_eq!(with.lines().count(), names.len());
    for ((name, without), with) in names.iter().zip(without.lines()).zip(with.lines()) {
        let own = if name.starts_with("cuda") {
            "libcudart.so.13"
        } else {
            "libcuda.so.1"
        };
        assert_eq!(without, format!("{name} {own}"));
        let holder = if hooks.remove(name) {
            "liboomhook.so"
        } else {
            own
        };
        assert_eq!(with, format!("{name} {holder}"));
    }
    // Gone since CUDA 13; the older runtime has it.
    hooks.remove("cudaLaunchCooperativeKernelMultiDevice");
    assert!(hooks.is_empty(), "hooked, but not tested: {hooks:?}");
}

#[test]
fn the_resolver_answers_as_the_real_one() {
    let [without, with] = lookups("resolver", "", 0, |_| {});
    let hooks = [
        "cuMemAlloc",
        "cuMemAllocAsync",
        "cuMemFree",
        "cuDevicePrimaryCtxReset",
        "cuStreamBeginCapture",
    ];
    let mut replaced = 0;
    assert_eq!(with.lines().count(), without.lines().count());
    for (without, with) in without.lines().zip(with.lines()) {
        let name = without.split(' ').nth(1).expect("a name");
        if without.contains(" libcuda.so.1")
            && (hooks.contains(&name) || name == "cuGetProcAddress")
        {
            assert_eq!(with, without.replace(" libcuda.so.1", " liboomhook.so"));
            replaced += 1;
        } else {
            assert_eq!(with, without);
        }
        assert!(!with.ends_with("different"), "{with}");
    }
    assert!(replaced >= 27, "{replaced} in\n{with}");
}

#[test]
fn results_that_nobody_wants_are_not_written() {
    let bench = Bench::shared();
    let program = driver_program(bench, "dlsym");
    let plain = bench
        .plain(&program, &["dlsym", "null outputs"])
        .output()
        .expect("it runs");
    let ran = bench.run(&program, &["dlsym", "null outputs"], &[]);
    ran.says(0, &String::from_utf8(plain.stdout).expect("text"));
    ran.is("/totals/allocs", 0)
        .is("/totals/failed_allocs", 5)
        .is("/devices/0/live_bytes", 0);
}
