//! NVIDIA's real runtimes acquire their driver's functions through the doors: same names, same answers, and the hooked
//! functions are ours.
//!
//! They refuse a simulated driver once they have all names, so this is as far as they go without a GPU.
//! `OOMHOOK_TEST_WHEELS` names a folder with the wheels nvidia-cuda-runtime-cu12 and nvidia-cuda-runtime, unpacked
//! (`.ci/run` does that).

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use support::{Bench, Route, artefacts, hooked};

/// What a runtime asked and was answered, and what became of it.
struct Acquisition {
    lines: Vec<Line>,
    output: String,
}

#[derive(Debug)]
struct Line {
    /// By which door, which name, version and flags.
    question: String,
    /// Result and status.
    codes: String,
    /// Library of the answer.
    holder: String,
    /// Symbol at the answer.
    symbol: String,
}

fn acquire(program: &Path, watched: bool, settings: &[(&str, &str)]) -> Acquisition {
    let bench = Bench::shared();
    let spy = bench.library("spy.c", "libspy.so", &[], &[]);
    let folder = bench.new_folder();
    let log = folder.join("log");
    let mut preload = spy.display().to_string();
    if watched {
        preload = format!("{preload}:{}", artefacts().library.display());
    }
    let mut command = bench.plain(program, &[]);
    command
        .env("LD_PRELOAD", preload)
        .env("SPY_LOG", &log)
        .envs(settings.iter().copied());
    command.env("OOMHOOK_OUTPUT", folder.join("trace"));
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(&log).expect("the spy's log");
    let lines = text.lines().map(|line| {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let [door, name, result, status, holder, symbol] =
            <[String; 6]>::try_from(words).expect(line);
        Line {
            question: format!("{door} {name}"),
            codes: format!("{result} {status}"),
            holder,
            symbol,
        }
    });
    Acquisition {
        lines: lines.collect(),
        output: String::from_utf8(output.stdout).expect("text"),
    }
}

/// Compares what the program gets without and with the library; the number of hooked answers.
fn compare(program: &Path, settings: &[(&str, &str)]) -> usize {
    let without = acquire(program, false, settings);
    let with = acquire(program, true, settings);
    let hooks = hooked();
    let mut replaced = 0;
    assert_eq!(
        with.output, without.output,
        "the error that the runtime ends with"
    );
    assert_eq!(with.lines.len(), without.lines.len());
    for (plain, ours) in without.lines.iter().zip(&with.lines) {
        assert_eq!(
            (&ours.question, &ours.codes),
            (&plain.question, &plain.codes)
        );
        if hooks.contains(&plain.symbol) {
            assert_eq!(plain.holder, "libcuda.so.1", "{plain:?}");
            assert_eq!(ours.holder, "liboomhook.so", "{plain:?} {ours:?}");
            replaced += 1;
        } else {
            assert_eq!((&ours.holder, &ours.symbol), (&plain.holder, &plain.symbol));
        }
    }
    replaced
}

/// Shared and static runtime of a wheel: the program that uses each.
fn programs(wheel: &str, version: u32) -> Option<[PathBuf; 2]> {
    let Some(wheels) = std::env::var_os("OOMHOOK_TEST_WHEELS") else {
        eprintln!("NOT RUN: OOMHOOK_TEST_WHEELS is not set (.ci/run sets it)");
        return None;
    };
    let inner = if version == 12 {
        "cuda_runtime"
    } else {
        "cu13"
    };
    let folder = Path::new(&wheels)
        .join(wheel)
        .join("nvidia")
        .join(inner)
        .join("lib");
    let shared = folder.join(format!("libcudart.so.{version}"));
    let fixed = folder.join("libcudart_static.a");
    let rpath = format!("-Wl,-rpath,{}", folder.display());
    let bench = Bench::shared();
    let build = |runtime: &Path, extra: &[&str]| {
        assert!(runtime.exists(), "{} is missing", runtime.display());
        let runtime = runtime.display().to_string();
        bench.build(
            "first_call.c",
            Route::Driver,
            &[&[runtime.as_str()], extra].concat(),
        )
    };
    Some([
        build(&shared, &[&rpath]),
        build(&fixed, &["-lrt", "-ldl", "-lpthread"]),
    ])
}

fn check(wheel: &str, version: u32) {
    let Some(programs) = programs(wheel, version) else {
        return;
    };
    for program in programs {
        eprintln!("{}", program.display());
        // Asks the resolver; some three dozen of the hooked functions are among the names.
        let replaced = compare(&program, &[]);
        assert!(replaced >= 30, "{replaced}");
        // A resolver that says that its driver is a stub makes the runtime ask dlsym, by exact names.
        let replaced = compare(
            &program,
            &[("OOMHOOK_SIM_FAIL", "cuGetProcAddress_v2#*=34")],
        );
        assert!(replaced >= 30, "{replaced}");
    }
}

#[test]
fn the_runtime_of_cuda_12_gets_its_names() {
    check("nvidia-cuda-runtime-cu12", 12);
}

#[test]
fn the_runtime_of_cuda_13_gets_its_names() {
    check("nvidia-cuda-runtime", 13);
}

/// NVIDIA's own headers of NVTX reach us as what they take for a tool.
#[test]
fn phases_by_the_headers_of_nvtx() {
    let Some(wheels) = std::env::var_os("OOMHOOK_TEST_WHEELS") else {
        return eprintln!("NOT RUN: OOMHOOK_TEST_WHEELS is not set");
    };
    let include = Path::new(&wheels).join("nvidia-nvtx/nvidia/cu13/include");
    assert!(include.exists(), "{}", include.display());
    let bench = Bench::shared();
    let include = format!("-I{}", include.display());
    let simulator = bench.simulator().display().to_string();
    let program = bench.build("nvtx.cpp", Route::Driver, &[&include, &simulator]);
    let ran = bench.run(&program, &[], &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let phases = ran.report["phases"].as_array().expect("phases");
    let figures: Vec<(&str, u64, u64)> = phases
        .iter()
        .map(|phase| {
            let number = |key: &str| phase[key].as_u64().expect("a number");
            let name = phase["name"].as_str().expect("a name");
            (name, number("count"), number("peak_bytes") >> 20)
        })
        .collect();
    assert_eq!(
        figures,
        [
            ("step #", 3, 3 + 16),
            ("forward", 3, 3 + 8),
            ("app: backward", 3, 3 + 16),
            ("copy", 3, 3 + 2),
            ("request", 3, 3 + 16),
        ]
    );
}
