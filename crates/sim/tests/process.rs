//! Real programs in C on the simulated driver: what only a whole process shows.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A fresh directory with `libcuda.so.1`, the test program, and both shapes of the runtime double.
fn workplace() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let driver = build_driver(place.parent().unwrap());
        let link = place.join("libcuda.so.1");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&driver, &link).unwrap();
        assert!(link.exists(), "{} is not built", driver.display());
        let link = place.join("libnvidia-ml.so.1");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&driver, &link).unwrap();
        for program in ["driver", "objects", "processes", "nvml"] {
            let source = format!("tests/{program}.c");
            cc(
                &["-rdynamic", "-Icudart", &source, "-o"],
                &place.join(program),
                &["-ldl", "-lpthread"],
            );
        }
        place
    })
}

/// Builds the driver: cargo builds no cdylib for tests of its own accord.
fn build_driver(target: &Path) -> PathBuf {
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .status()
        .expect("cargo");
    assert!(built.success());
    target.join("debug/liboomhook_sim.so")
}

/// Runs the C compiler in the crate's folder.
fn cc(before: &[&str], output: &Path, after: &[&str]) {
    let compiled = Command::new("cc")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "-std=gnu11",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-fPIC",
            "-Iinclude",
        ])
        .args(before)
        .arg(output)
        .args(after)
        .output()
        .expect("a C compiler");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
}

fn run(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", workplace())
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn holds(check: &str, environment: &[(&str, &str)]) -> Output {
    holds_in("driver", check, environment)
}

fn holds_in(program: &str, check: &str, environment: &[(&str, &str)]) -> Output {
    let output = run(&workplace().join(program), &[check], environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{check}: {} {errors}",
        output.status
    );
    output
}

#[test]
fn the_resolver_gives_the_addresses_that_dlsym_gives_whatever_is_preloaded() {
    holds("resolver", &[]);
}

#[test]
fn codes_and_garbage_are_those_of_the_driver() {
    holds("codes", &[]);
}

#[test]
fn functions_of_32_bits_write_32_bits() {
    holds("narrow", &[]);
}

#[test]
fn host_memory_is_real_and_device_memory_is_not() {
    holds("host", &[]);
}

#[test]
fn the_driver_ends_with_the_handler_that_its_first_init_registered() {
    holds("at_exit", &[]);
}

#[test]
fn a_forked_child_is_told_so_and_never_hangs() {
    holds("forks", &[]);
}

#[test]
fn ordered_failures_and_stalls_happen() {
    let fail = ("OOMHOOK_SIM_FAIL", "cuMemFree_v2#2=999");
    let stall = ("OOMHOOK_SIM_STALL", "cuMemFree_v2#1=50ms");
    holds("faults", &[fail, stall]);
}

#[test]
fn devices_and_version_are_settable() {
    let devices = ("OOMHOOK_SIM", "1x24GiB,free=8GiB");
    holds("settings", &[devices, ("OOMHOOK_SIM_DRIVER", "12040")]);
}

#[test]
fn arrays_have_the_structs_of_the_header_in_both_widths() {
    holds_in("objects", "arrays", &[]);
    holds_in("objects", "sparse", &[]);
}

#[test]
fn graphs_have_their_memory_from_the_first_launch_on() {
    holds_in("objects", "graphs", &[]);
    holds_in("objects", "nodes", &[]);
}

#[test]
fn modules_take_what_the_setting_says_and_hold_their_variables() {
    holds_in("objects", "modules", &[("OOMHOOK_SIM_MODULE", "2MiB")]);
}

#[test]
fn handles_have_no_memory_and_a_stack_what_the_setting_says() {
    holds_in("objects", "handles", &[("OOMHOOK_SIM_STACK", "270336")]);
}

#[test]
fn places_have_pools_and_devices_form_teams() {
    holds_in("objects", "places", &[]);
    holds_in("objects", "multicast", &[]);
}

#[test]
fn one_process_opens_the_memory_of_another() {
    holds_in("processes", "ipc", &[]);
}

#[test]
fn pools_and_physical_memory_cross_processes_as_files() {
    holds_in("processes", "pool", &[]);
    holds_in("processes", "physical", &[]);
}

#[test]
fn nvml_agrees_with_the_driver() {
    let neighbours = "0:4711:2GiB:train.py,G0:12:1GiB:/usr/bin/Xorg :0";
    let settings = [
        ("OOMHOOK_SIM_NEIGHBOURS", neighbours),
        ("OOMHOOK_SIM_RESERVE", "600MiB"),
        ("OOMHOOK_SIM_CONTEXT", "500MiB"),
        ("OOMHOOK_SIM_MODULE", "4MiB"),
    ];
    holds_in("nvml", "figures", &settings);
    holds_in("nvml", "names", &settings);
    holds_in("nvml", "forks", &settings);
}

#[test]
fn nvml_has_its_own_beginning_and_its_own_failures() {
    holds_in("nvml", "begins", &[]);
    let fail = "nvmlDeviceGetComputeRunningProcesses_v3#*=3,nvmlDeviceGetMemoryInfo#2=15";
    holds_in("nvml", "failures", &[("OOMHOOK_SIM_FAIL", fail)]);
    let settings = [
        ("OOMHOOK_SIM_NEIGHBOURS", "0:4711:2GiB:train.py"),
        ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "16MiB"),
        ("OOMHOOK_SIM_PROCESS_BYTES", "off"),
        ("OOMHOOK_SIM_MIG", "on"),
        ("OOMHOOK_SIM_COMPUTE_MODE", "3"),
    ];
    holds_in("nvml", "slices", &settings);
    holds_in("nvml", "nothing", &[("OOMHOOK_SIM", "0x16GiB")]);
}

#[test]
fn a_malformed_setting_is_one_line_on_stderr() {
    let output = holds("codes", &[("OOMHOOK_SIM", "many")]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("OOMHOOK_SIM=\"many\""), "{errors}");
}

/// Builds `tests/double.c` against a double that was built with `flags`, and runs it.
fn double_works(name: &str, flags: &[&str], shared: bool, environment: &[(&str, &str)]) {
    let place = workplace();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cudart");
    let sources: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().display().to_string())
        .filter(|path| path.ends_with(".c"))
        .collect();
    let mut parts: Vec<&str> = flags.to_vec();
    parts.extend(sources.iter().map(String::as_str));
    let program = place.join(name);
    let (source, place) = ("tests/double.c", place.to_str().unwrap());
    if shared {
        let library = format!("{place}/lib{name}.so");
        parts.extend(["-shared", "-Wl,-Bsymbolic", "-o"]);
        cc(&parts, Path::new(&library), &["-ldl", "-lpthread"]);
        let soname = flags
            .iter()
            .find_map(|flag| flag.strip_prefix("-Wl,-soname,"))
            .unwrap();
        std::fs::copy(&library, format!("{place}/{soname}")).unwrap();
        let version: Vec<&str> = flags
            .iter()
            .copied()
            .filter(|f| f.starts_with("-D"))
            .collect();
        cc(
            &[&version[..], &[source, "-o"]].concat(),
            &program,
            &[&library, &format!("-Wl,-rpath,{place}")],
        );
    } else {
        parts.extend(["-fvisibility=hidden", source, "-o"]);
        cc(&parts, &program, &["-ldl", "-lpthread"]);
    }
    let output = run(&program, &[], environment);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{name}: {errors}");
    assert_eq!(output.stdout, b"cudaErrorMemoryAllocation\n");
}

#[test]
fn the_shared_double_of_version_12_works() {
    let flags = [
        "-DCUDART_VERSION=12090",
        "-Wl,-soname,libcudart.so.12",
        "-Wl,--version-script=cudart/libcudart.so.12.map",
    ];
    double_works("shared12", &flags, true, &[]);
}

#[test]
fn the_shared_double_of_version_13_works() {
    let flags = [
        "-Wl,-soname,libcudart.so.13",
        "-Wl,--version-script=cudart/libcudart.so.13.map",
    ];
    double_works("shared13", &flags, true, &[]);
}

#[test]
fn the_static_double_works() {
    double_works("static", &[], false, &[]);
}

#[test]
fn the_double_finds_exact_names_too() {
    double_works("old", &["-DCUDART_DOUBLE_OLD"], false, &[]);
    double_works("asked", &[], false, &[("CUDART_DOUBLE_LOOKUP", "dlsym")]);
}
