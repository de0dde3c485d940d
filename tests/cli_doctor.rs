//! `oomhook doctor`: what it says of GPUs and of who uses them, on the simulator. Every answer of NVML may be missing.

mod support;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use support::doctor::{
    GIB, NOBODY, Sleeper, doctor, flowing, json_of, me, part, sleep_named, text_of,
};
use support::{Bench, MIB, artefacts, oomhook};

#[test]
fn gpus_and_their_users_are_shown_in_80_columns() {
    let sleeper = Sleeper::new(Path::new("sleep"));
    let neighbours = format!(
        "0:{NOBODY}:2GiB:train.py,0:{}:300MiB:x,CG1:{}:64MiB:x",
        sleeper.pid(),
        sleeper.pid()
    );
    let settings = [("OOMHOOK_SIM_NEIGHBOURS", neighbours.as_str())];
    let text = text_of(&doctor(&[], &settings), 0);
    assert!(
        text.starts_with("oomhook doctor: nothing stands in the way\n\n"),
        "{text}"
    );
    assert_eq!(
        part(&text, "driver")[0],
        "driver    580.95.05 (oomhook's simulator), CUDA up to 13.0, NVML 13.580.95.05"
    );
    assert_eq!(
        part(&text, "GPU  name"),
        [
            "GPU  name                       total       used       free  MIG   mode",
            "  0  oomhook simulated GPU   16.0 GiB    2.3 GiB   13.7 GiB  off   default",
            "     GPU-006f6f6d-686f-6f6b-2d73-696d2d677075  00000000:10:00.0",
            "  1  oomhook simulated GPU   16.0 GiB   64.0 MiB   15.9 GiB  off   default",
            "     GPU-016f6f6d-686f-6f6b-2d73-696d2d677075  00000000:11:00.0",
        ]
    );
    let (pid, me) = (sleeper.pid(), me());
    let width = me.len().clamp(4, 12);
    assert_eq!(
        part(&text, "GPU      pid"),
        [
            format!("GPU      pid  {:<width$}      bytes  process", "user"),
            format!(
                "  0  {NOBODY}  {:<width$}    2.0 GiB  train.py (another container or a leftover)",
                "-"
            ),
            format!("  0 {pid:>8}  {me:<width$}  300.0 MiB  sleep"),
            format!("  1 {pid:>8}  {me:<width$}   64.0 MiB  sleep"),
        ]
    );
    assert!(text.ends_with("\nNext: oomhook run -- CMD\n"), "{text}");
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 80 || line.starts_with("library"))
    );
}

#[test]
fn json_has_the_exact_figures() {
    let sleeper = Sleeper::new(Path::new("sleep"));
    let neighbours = format!("0:{NOBODY}:2GiB:train.py,G0:{}:1MiB:x", sleeper.pid());
    let found = json_of(
        &[],
        &[
            ("OOMHOOK_SIM", "1x16GiB,free=15GiB"),
            ("OOMHOOK_SIM_RESERVE", "600MiB"),
            ("OOMHOOK_SIM_DRIVER", "12040"),
            ("OOMHOOK_SIM_COMPUTE_MODE", "3"),
            ("OOMHOOK_SIM_NEIGHBOURS", &neighbours),
        ],
        0,
    );
    assert_eq!(found["schema_version"], 1);
    assert_eq!(
        (&found["ready"], &found["obstacles"]),
        (&json!(true), &json!([]))
    );
    let driver = &found["driver"];
    assert_eq!(driver["version"], "580.95.05");
    assert_eq!(
        (&driver["cuda"], &driver["nvml"]),
        (&json!("12.4"), &json!("ok"))
    );
    assert_eq!(driver["simulated"], true);
    let processes = json!([
        {"pid": NOBODY, "name": "train.py", "user": null, "bytes": 2 * GIB, "kind": "compute", "standing": "not_here"},
        {"pid": sleeper.pid(), "name": "sleep", "user": me(), "bytes": MIB, "kind": "graphics", "standing": "yours"},
    ]);
    assert_eq!(
        found["gpus"],
        json!([{
            "index": 0,
            "name": "oomhook simulated GPU",
            "uuid": "GPU-006f6f6d-686f-6f6b-2d73-696d2d677075",
            "pci_bus_id": "00000000:10:00.0",
            "total_bytes": 16 * GIB + 600 * MIB,
            "used_bytes": 3 * GIB + MIB,
            "free_bytes": 13 * GIB - MIB,
            "reserved_bytes": 600 * MIB,
            "mig": "off",
            "compute_mode": "exclusive",
            "processes": processes,
            "unlisted_bytes": GIB,
            "unknown": {},
        }])
    );
    let notes = found["notes"].to_string();
    let taken =
        format!("GPU 0 serves one process at a time (exclusive), and process {NOBODY} has it");
    assert!(notes.contains(&taken), "{notes}");
    assert_eq!(found["next"], "oomhook run -- CMD");
}

#[test]
fn without_nvml_the_rest_is_said() {
    let folder = Bench::shared().new_folder();
    symlink(&artefacts().simulator, folder.join("libcuda.so.1")).expect("a link");
    // Where the machine has an NVML of its own, it is found.
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("a real NVML is here: not tested");
        return;
    }
    let settings = [("LD_LIBRARY_PATH", folder.to_str().expect("UTF-8"))];
    let text = text_of(&doctor(&[], &settings), 0);
    let said = flowing(&text);
    assert!(said.contains(
        "NVML (libnvidia-ml.so.1) is not here: GPUs, their memory and who uses them are not known"
    ));
    assert_eq!(
        part(&text, "driver")[0],
        "driver    version not known (oomhook's simulator)"
    );
    let found = json_of(&[], &settings, 0);
    assert_eq!(
        (&found["gpus"], &found["driver"]["nvml"]),
        (&Value::Null, &json!("missing"))
    );

    let empty = Bench::shared().new_folder();
    let settings = [("LD_LIBRARY_PATH", empty.to_str().expect("UTF-8"))];
    let text = text_of(&doctor(&[], &settings), 1);
    assert!(text.starts_with("oomhook doctor: one thing stands in the way\n  - there is no NVIDIA driver (no libcuda.so.1): "), "{text}");
    assert!(text.ends_with("\nNext: oomhook demo\n"), "{text}");
}

#[test]
fn each_answer_of_nvml_may_be_missing() {
    let cases = [
        ("nvmlDeviceGetName", 3, "name", "not available here", "name"),
        ("nvmlDeviceGetUUID", 4, "uuid", "not permitted", "UUID"),
        (
            "nvmlDeviceGetPciInfo_v3",
            999,
            "pci_bus_id",
            "unknown error of NVML",
            "PCI bus",
        ),
        (
            "nvmlDeviceGetMemoryInfo_v2",
            13,
            "memory",
            "this driver is too old to tell",
            "memory",
        ),
        (
            "nvmlDeviceGetMigMode",
            4,
            "mig",
            "not permitted",
            "MIG mode",
        ),
        (
            "nvmlDeviceGetComputeMode",
            3,
            "compute_mode",
            "not available here",
            "compute mode",
        ),
        (
            "nvmlDeviceGetComputeRunningProcesses_v3",
            3,
            "processes",
            "not available here",
            "who uses it",
        ),
        (
            "nvmlDeviceGetComputeRunningProcesses_v3",
            1234,
            "processes",
            "error 1234 of NVML",
            "who uses it",
        ),
    ];
    for (function, code, key, reason, words) in cases {
        let fail = format!("{function}#*={code}");
        let settings = [
            ("OOMHOOK_SIM", "1x16GiB"),
            ("OOMHOOK_SIM_FAIL", fail.as_str()),
        ];
        let found = json_of(&[], &settings, 0);
        assert_eq!(found["gpus"][0]["unknown"], json!({key: reason}), "{fail}");
        let text = text_of(&doctor(&[], &settings), 0);
        let line = format!("\nGPU 0: not known: {words} ({reason})\n");
        assert!(text.contains(&line), "{text}");
    }
    // What it can do without.
    let harmless = "nvmlDeviceGetGraphicsRunningProcesses_v3#*=3,nvmlDeviceGetMigMode#*=3,nvmlSystemGetProcessName#*=6,\
                    nvmlSystemGetDriverVersion#*=999,nvmlSystemGetNVMLVersion#*=999,nvmlSystemGetCudaDriverVersion_v2#*=999";
    let neighbour = format!("0:{NOBODY}:2GiB:train.py");
    let settings = [
        ("OOMHOOK_SIM", "1x16GiB"),
        ("OOMHOOK_SIM_FAIL", harmless),
        ("OOMHOOK_SIM_NEIGHBOURS", &neighbour),
    ];
    let found = json_of(&[], &settings, 0);
    assert_eq!(found["gpus"][0]["unknown"], json!({}));
    assert_eq!(found["gpus"][0]["mig"], "unsupported");
    assert_eq!(found["gpus"][0]["processes"][0]["name"], Value::Null);
    assert_eq!(found["driver"]["cuda"], Value::Null);
    let text = text_of(&doctor(&[], &settings), 0);
    assert!(
        text.contains("  2.0 GiB  - (another container or a leftover)\n"),
        "{text}"
    );
}

#[test]
fn a_lost_gpu_is_in_the_way_only_if_there_is_no_other() {
    let lost = ("OOMHOOK_SIM_FAIL", "nvmlDeviceGetHandleByIndex_v2#1=15");
    let found = json_of(&[], &[lost], 0);
    let reason = "the GPU is lost (it no longer answers; see dmesg for Xid)";
    assert_eq!(found["gpus"][0]["unknown"], json!({"gpu": reason}));
    assert_eq!(found["gpus"][0]["total_bytes"], Value::Null);
    assert_eq!(found["gpus"][1]["total_bytes"], 16 * GIB);
    let said = format!("GPU 0 cannot be used: {reason}");
    assert!(found["notes"].to_string().contains(&said));
    let found = json_of(&[], &[("OOMHOOK_SIM", "1x16GiB"), lost], 1);
    assert_eq!(found["obstacles"], json!([said]));
    let text = text_of(&doctor(&[], &[("OOMHOOK_SIM", "1x16GiB"), lost]), 1);
    assert!(
        text.contains("\n  0  -             -          -          -  -     -\n"),
        "{text}"
    );
    let prohibited = [("OOMHOOK_SIM_COMPUTE_MODE", "2")];
    let found = json_of(&[], &prohibited, 1);
    assert_eq!(found["obstacles"].as_array().map(Vec::len), Some(2));
}

#[test]
fn nvml_that_does_not_begin_is_told_apart_from_a_driver_that_does_not() {
    for (code, exit, words) in [
        (
            9,
            1,
            "the NVIDIA driver does not work: the driver's kernel module is not loaded",
        ),
        (
            18,
            1,
            "the NVIDIA driver does not work: the driver's libraries and its kernel module have different versions",
        ),
        (4, 0, "NVML does not begin: not permitted"),
        (999, 0, "NVML does not begin: unknown error of NVML"),
    ] {
        let fail = format!("nvmlInit_v2#*={code}");
        let text = text_of(&doctor(&[], &[("OOMHOOK_SIM_FAIL", &fail)]), exit);
        assert!(flowing(&text).contains(words), "{text}");
    }
    let fail = [("OOMHOOK_SIM_FAIL", "nvmlDeviceGetCount_v2#*=999")];
    let found = json_of(&[], &fail, 0);
    assert_eq!(found["gpus"], Value::Null);
    assert!(
        found["notes"]
            .to_string()
            .contains("NVML cannot count the GPUs: unknown error of NVML")
    );
}

#[test]
fn bytes_that_nvml_does_not_give_are_no_figure() {
    let neighbour = format!("0:{NOBODY}:2GiB:train.py");
    let settings = [
        ("OOMHOOK_SIM", "1x16GiB"),
        ("OOMHOOK_SIM_NEIGHBOURS", neighbour.as_str()),
        ("OOMHOOK_SIM_PROCESS_BYTES", "off"),
        ("OOMHOOK_SIM_MIG", "on"),
    ];
    let found = json_of(&[], &settings, 0);
    let gpu = &found["gpus"][0];
    assert_eq!(
        (&gpu["mig"], &gpu["processes"][0]["bytes"]),
        (&json!("on"), &Value::Null)
    );
    // Whose the 2 GiB are is not known, so nobody is blamed.
    assert_eq!(gpu["unlisted_bytes"], Value::Null);
    let text = text_of(&doctor(&[], &settings), 0);
    assert!(text.contains("  (not available here)  train.py"), "{text}");
    assert!(!text.contains("18446744073709551615") && !text.contains("16.0 EiB"));
    assert!(flowing(&text).contains("MIG is on (GPU 0): NVML's figures are the whole GPU's"));
}

#[test]
fn no_gpu_and_sixteen() {
    let found = json_of(&[], &[("OOMHOOK_SIM", "0x16GiB")], 1);
    assert_eq!(found["gpus"], json!([]));
    assert_eq!(found["obstacles"], json!(["the driver sees no GPU"]));
    assert_eq!(found["next"], "oomhook demo");
    let name = "NVIDIA GeForce RTX 5090 D Laptop GPU with Max-Q Design and more";
    let settings = [("OOMHOOK_SIM", "16x16GiB"), ("OOMHOOK_SIM_NAME", name)];
    for columns in ["80", "160"] {
        let settings = [&settings[..], &[("COLUMNS", columns)]].concat();
        let text = text_of(&doctor(&[], &settings), 0);
        let most: usize = columns.parse().expect("a number");
        let is_fine = |line: &str| line.chars().count() <= most || line.starts_with("library");
        assert!(text.lines().all(is_fine), "{text}");
        assert!(text.contains("\n 15  NVIDIA G"), "{text}");
        let lines = part(&text, "GPU  name").len();
        assert_eq!(lines, if most == 80 { 33 } else { 17 });
        assert!(text.contains("\nno process uses a GPU\n"), "{text}");
    }
}

#[test]
fn gpus_that_differ_may_be_numbered_otherwise() {
    let named = ("OOMHOOK_SIM_NAME", "NVIDIA T4|NVIDIA H200");
    let note = "the GPUs differ: CUDA, and so oomhook's reports, may number them otherwise";
    let text = text_of(&doctor(&[], &[named]), 0);
    assert!(flowing(&text).contains(note), "{text}");
    assert!(text.contains("\n  0  NVIDIA T4     16.0 GiB"), "{text}");
    for order in [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ("OOMHOOK_SIM_NAME", "a"),
    ] {
        let text = text_of(&doctor(&[], &[named, order]), 0);
        assert!(!flowing(&text).contains(note), "{text}");
    }
}

#[test]
fn names_cannot_move_the_cursor_and_need_not_be_text() {
    let name = OsStr::from_bytes(b"tr\xff\x1b[31min");
    let sleeper = Sleeper::new(&sleep_named(name));
    let neighbours = format!("0:{}:1GiB:x,0:{NOBODY}:2GiB:a\x1b[2J\nb", sleeper.pid());
    let settings = [
        ("OOMHOOK_SIM_NEIGHBOURS", neighbours.as_str()),
        ("OOMHOOK_SIM_NAME", "GPU\x1b[31m"),
    ];
    let text = text_of(&doctor(&[], &settings), 0);
    assert!(
        text.contains("  1.0 GiB  tr\u{fffd}\\u{1b}[31min\n"),
        "{text}"
    );
    assert!(text.contains("  2.0 GiB  a\\u{1b}[2J\\u{a}b\n"), "{text}");
    assert!(text.contains("\n  0  GPU\\u{1b}[31m "), "{text}");
    assert!(!text.contains('\x1b'));
}

#[test]
fn a_process_that_has_ended_is_a_leftover() {
    let mut child = Command::new("true").spawn().expect("it starts");
    // Until it is waited for it stays as it ended.
    let stat = format!("/proc/{}/stat", child.id());
    while !std::fs::read_to_string(&stat)
        .expect("a process")
        .contains(") Z ")
    {
        std::thread::yield_now();
    }
    let neighbours = format!("0:{}:1GiB:x", child.id());
    let found = json_of(&[], &[("OOMHOOK_SIM_NEIGHBOURS", &neighbours)], 0);
    let process = &found["gpus"][0]["processes"][0];
    assert_eq!(
        (&process["standing"], &process["name"]),
        (&json!("ended"), &json!("true"))
    );
    child.wait().expect("its end");
}

#[test]
fn it_works_under_run_sim() {
    let folder = Bench::shared().new_folder();
    let output = oomhook()
        .args([
            "run",
            "--sim=1x2GiB",
            "--",
            env!("CARGO_BIN_EXE_oomhook"),
            "doctor",
            "--json",
        ])
        .current_dir(folder)
        .output()
        .expect("it starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(found["gpus"][0]["total_bytes"], 2 * GIB);
}

#[test]
fn the_library_knows_nothing_of_the_commands_way_to_nvml() {
    let output = Command::new("nm")
        .arg(&artefacts().library)
        .output()
        .expect("nm");
    let symbols = String::from_utf8_lossy(&output.stdout);
    assert!(symbols.contains("oomhook") && !symbols.contains("nvml_wrapper"));
}
