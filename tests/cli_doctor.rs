//! `oomhook doctor`: what it says of GPUs, of who uses them, of the place and of a command, on the simulator. Every answer of
//! NVML may be missing.

mod support;

use serde_json::{Value, json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::{Bench, MIB, Route, artefacts, oomhook, root};

const GIB: u64 = 1 << 30;
/// A number that no process of this machine has.
const NOBODY: u32 = 4_999_999;

/// `oomhook doctor ARGUMENTS` on the simulator, in a folder that can be written, 80 columns wide.
fn doctor(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let bench = Bench::shared();
    let mut command = oomhook();
    command.arg("doctor").args(arguments);
    for name in ["LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "COLUMNS", "TMPDIR"] {
        command.env_remove(name);
    }
    command
        .current_dir(bench.new_folder())
        .env("LD_LIBRARY_PATH", bench.path("sim"))
        .envs(settings.iter().copied());
    command.output().expect("it starts")
}

#[track_caller]
fn text_of(output: &Output, code: i32) -> String {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}{errors}");
    assert_eq!(errors, "");
    text
}

#[track_caller]
fn json_of(arguments: &[&str], settings: &[(&str, &str)], code: i32) -> Value {
    let arguments = [&["--json"], arguments].concat();
    let text = text_of(&doctor(&arguments, settings), code);
    serde_json::from_str(&text).expect("JSON")
}

/// The lines of a text from the one that begins so to the next empty one.
#[track_caller]
fn part<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| !line.starts_with(begin));
    let lines: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    assert!(!lines.is_empty(), "{begin} in\n{text}");
    lines
}

/// A text of several lines as one.
fn flowing(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A process that lives until it is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new(program: &Path) -> Sleeper {
        let mut command = Command::new(program);
        command.arg("1000").stdin(Stdio::null());
        Sleeper(command.spawn().expect("it starts"))
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of a name, in a new folder.
fn executable(name: &OsStr, contents: &[u8]) -> PathBuf {
    let path = Bench::shared().new_folder().join(name);
    std::fs::write(&path, contents).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    path
}

fn sleep_named(name: &OsStr) -> PathBuf {
    executable(name, &std::fs::read("/bin/sleep").expect("sleep"))
}

fn me() -> String {
    let output = Command::new("id").arg("-un").output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

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
fn settings_are_judged_as_the_library_judges_them() {
    let settings = [
        ("OOMHOOK_KEEP", "12XB"),
        ("OOMHOOK_DEPTH", "8"),
        ("OOMHOOK_STACK", "off"),
        ("OOMHOOK_SUPPRESS", "/no/such/list"),
        ("OOMHOOK_LABELS", "a=b"),
        ("OOMHOOK_ONLY", "train*"),
        ("CUDA_VISIBLE_DEVICES", "1"),
    ];
    let text = text_of(&doctor(&[], &settings), 0);
    let lines = flowing(&part(&text, "settings").join("\n"));
    assert_eq!(
        lines,
        "settings OOMHOOK_DEPTH=8 wrong: OOMHOOK_KEEP=12XB is none of all, summary, none, or a size such as 512MiB; using \
         2GiB OOMHOOK_ONLY=train* wrong: OOMHOOK_STACK is no setting of oomhook (README lists them) wrong: \
         OOMHOOK_SUPPRESS=/no/such/list cannot be read: No such file or directory; correct its path or unset it"
    );
    let said = flowing(&text);
    assert!(said.contains("OOMHOOK_ONLY=train*: only commands of such a name are watched"));
    assert!(
        said.contains(
            "CUDA_VISIBLE_DEVICES=1: programs see only these GPUs, and number them from 0"
        )
    );
    let found = json_of(&[], &[("OOMHOOK_DEPTH", "many")], 0);
    assert_eq!(
        found["settings"],
        json!([{
            "name": "OOMHOOK_DEPTH",
            "value": "many",
            "problem": "OOMHOOK_DEPTH=many is no number from 1 to 256; using 64",
        }])
    );
    for (name, value, obstacle) in [
        ("OOMHOOK", "0", "OOMHOOK=0 switches recording off: unset it"),
        (
            "CUDA_VISIBLE_DEVICES",
            "-1",
            "CUDA_VISIBLE_DEVICES hides every GPU: unset it",
        ),
        (
            "CUDA_VISIBLE_DEVICES",
            "",
            "CUDA_VISIBLE_DEVICES hides every GPU: unset it",
        ),
    ] {
        assert_eq!(
            json_of(&[], &[(name, value)], 1)["obstacles"],
            json!([obstacle])
        );
    }
}

#[test]
fn every_setting_that_readme_lists_is_known() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    let rows = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| `OOMHOOK"));
    let names: Vec<_> = rows
        .filter_map(|row| row.split('`').next())
        .map(|rest| format!("OOMHOOK{rest}"))
        .collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let found = json_of(&[], &[(&name, "1")], 0);
        let problem = &found["settings"][0]["problem"];
        assert!(!problem.to_string().contains("is no setting"), "{problem}");
    }
}

#[test]
fn the_place_for_traces_is_looked_at_and_left_alone() {
    let folder = Bench::shared().new_folder();
    let taken = folder.join("file");
    std::fs::write(&taken, "").expect("a file");
    for (pattern, reason) in [
        (
            "/no/such/%p.trace".to_owned(),
            "/no/such: there is no such folder",
        ),
        (
            format!("{}/%p.trace", taken.display()),
            "file: it is no folder",
        ),
        (
            "/proc/%p.trace".to_owned(),
            "/proc: it belongs to the kernel",
        ),
    ] {
        let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 1);
        assert_eq!(found["traces"]["writable"], false, "{pattern}");
        assert_eq!(found["traces"]["instead"], "/dev/shm");
        let obstacle = found["obstacles"][0].as_str().expect("an obstacle");
        assert!(
            obstacle.starts_with("traces cannot be written in "),
            "{obstacle}"
        );
        assert!(
            obstacle.ends_with(&format!("{reason}; traces would go to /dev/shm")),
            "{obstacle}"
        );
        assert_eq!(found["next"], "oomhook run -o /tmp/traces -- CMD");
        let quiet = [
            ("OOMHOOK_OUTPUT", pattern.as_str()),
            ("OOMHOOK_KEEP", "none"),
        ];
        let text = text_of(&doctor(&[], &quiet), 0);
        assert!(
            text.contains("\ntraces    no file is kept (OOMHOOK_KEEP=none)\n"),
            "{text}"
        );
    }
    let place = folder.join("50%% done");
    std::fs::create_dir(folder.join("50% done")).expect("a folder");
    let pattern = place.join("%h/%p.trace").display().to_string();
    let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 0);
    let wanted = folder.join("50% done").display().to_string();
    assert_eq!(
        (&found["traces"]["folder"], &found["traces"]["varies"]),
        (&json!(wanted), &json!(true))
    );
    assert!(
        found["traces"]["free_bytes"]
            .as_u64()
            .is_some_and(|free| free > 0)
    );
    let left: Vec<_> = std::fs::read_dir(folder.join("50% done"))
        .expect("a folder")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let pattern = folder.display().to_string();
    let found = json_of(&[], &[("OOMHOOK_OUTPUT", &pattern)], 0);
    assert!(
        found["notes"]
            .to_string()
            .contains("is a folder: the trace would lie beside it")
    );
}

#[test]
fn the_library_and_the_preload_are_named() {
    let library = artefacts().library.canonicalize().expect("a path");
    let other = "/no/such/lib.so";
    let preload = format!("{} {other}", library.display());
    let mut command = oomhook();
    command
        .args(["doctor", "--json"])
        .env("LD_LIBRARY_PATH", Bench::shared().path("sim"))
        .env("LD_PRELOAD", preload);
    // The loader itself complains about the missing one.
    let output = command.output().expect("it starts");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["library"]["path"], json!(library));
    assert_eq!(
        found["ld_preload"][1],
        json!({"path": other, "missing": true})
    );
    assert_eq!(found["ld_preload"][0]["missing"], false);
    assert!(
        found["notes"]
            .to_string()
            .contains("LD_PRELOAD names /no/such/lib.so, which is missing")
    );
    let found = json_of(&[], &[("OOMHOOK_LIB", other)], 1);
    assert_eq!(found["library"]["path"], Value::Null);
    assert_eq!(found["next"], "export OOMHOOK_LIB=/path/to/liboomhook.so");
}

#[test]
fn how_a_program_reaches_cuda_is_read_from_its_file() {
    let bench = Bench::shared();
    for (route, said) in [
        (Route::Shared, "links libcudart.so.13"),
        (Route::Static, "a static CUDA runtime is inside"),
    ] {
        let program = bench.build("leak.c", route, &[]);
        let program = program.to_str().expect("UTF-8");
        let text = text_of(&doctor(&["--", program, "it's"], &[]), 0);
        assert!(
            text.contains(&format!("\n          CUDA: {said}\n")),
            "{text}"
        );
        assert!(flowing(&text).contains(&format!("{program}: can be watched")));
        assert!(
            text.ends_with(&format!("\nNext: oomhook run -- {program} 'it'\\''s'\n")),
            "{text}"
        );
    }
    let driver = bench.build("driver.c", Route::Driver, &[]);
    let text = text_of(&doctor(&["--", driver.to_str().expect("UTF-8")], &[]), 0);
    assert!(
        text.contains("\n          CUDA: opens libcuda.so.1 by itself\n"),
        "{text}"
    );
    let text = text_of(&doctor(&["--", "true"], &[]), 0);
    assert!(flowing(&text).contains("CUDA: nothing visible in the file; it may load CUDA later"));
}

#[test]
fn what_cannot_be_watched_is_said_with_its_reason() {
    let bench = Bench::shared();
    let source = bench.path("nothing.c");
    std::fs::write(&source, "int main(void) { return 0; }").expect("a file");
    let program = bench.path("nothing-static");
    let built = Command::new("cc")
        .arg("-static")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("cc").success());
    let setuid = sleep_named(OsStr::new("setuid-sleep"));
    std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).expect("a mode");
    assert_eq!(setuid.metadata().expect("a file").mode() & 0o4000, 0o4000);
    let docker = executable(OsStr::new("docker"), b"#!/bin/sh\n");
    let script = executable(
        OsStr::new("script"),
        format!("#!{}\n", program.display()).as_bytes(),
    );
    let missing = executable(OsStr::new("orphan"), b"#!/no/such/interpreter\n");
    // The first 20 bytes of an ELF file tell the machine.
    let mut elf = std::fs::read("/bin/sleep").expect("sleep");
    elf[18..20].copy_from_slice(&243u16.to_le_bytes());
    let foreign = executable(OsStr::new("foreign"), &elf);
    for (path, words, next) in [
        (
            &program,
            "is statically linked: LD_PRELOAD has no effect there",
            "oomhook doctor -- ",
        ),
        (
            &script,
            "is statically linked: LD_PRELOAD has no effect there",
            "oomhook doctor -- ",
        ),
        (
            &setuid,
            "is setuid or setgid: the loader ignores LD_PRELOAD there",
            "oomhook doctor -- ",
        ),
        (
            &foreign,
            "is built for another machine (ELF number 243), and the library for",
            "oomhook doctor -- ",
        ),
        (
            &docker,
            "docker starts the work in a container: put oomhook inside it",
            "oomhook env",
        ),
        (
            &missing,
            "is a script for /no/such/interpreter, which is missing",
            "oomhook doctor -- ",
        ),
    ] {
        let path = path.to_str().expect("UTF-8");
        let found = json_of(&["--", path], &[], 1);
        assert_eq!(found["command"]["watchable"], false, "{path}");
        assert!(
            found["obstacles"][0].to_string().contains(words),
            "{found:#}"
        );
        assert!(
            found["next"]
                .as_str()
                .is_some_and(|said| said.starts_with(next)),
            "{found:#}"
        );
        let text = text_of(&doctor(&["--", path], &[]), 1);
        assert!(
            text.starts_with("oomhook doctor: one thing stands in the way\n  - "),
            "{text}"
        );
    }
    let text = text_of(&doctor(&["--", "no-such-program"], &[]), 1);
    assert!(
        text.contains("no-such-program: no such program; check the name and PATH"),
        "{text}"
    );
    let wrong = doctor(&["--nonsense"], &[]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_command_is_never_started() {
    let folder = Bench::shared().new_folder();
    let trace = folder.join("started");
    let script = executable(
        OsStr::new("script"),
        format!("#!/bin/sh\ntouch {}\n", trace.display()).as_bytes(),
    );
    text_of(&doctor(&["--", script.to_str().expect("UTF-8")], &[]), 0);
    assert!(!trace.exists());
}

/// A stand-in for an interpreter that tells its version as Python would.
fn false_python(name: &str, answer: &str) -> PathBuf {
    executable(
        OsStr::new(name),
        format!("#!/bin/sh\n{answer}\n").as_bytes(),
    )
}

#[test]
fn python_is_asked_for_its_version_and_no_more() {
    let asked = Command::new("python3")
        .args([
            "-c",
            "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)",
        ])
        .output()
        .expect("python3");
    let asked = String::from_utf8(asked.stdout).expect("text");
    let mut lines = asked.lines();
    let (version, path) = (
        lines.next().expect("a version"),
        lines.next().expect("a path"),
    );
    let script = executable(
        OsStr::new("train.py"),
        b"#!/usr/bin/env python3\nraise SystemExit(1)\n",
    );
    for command in [
        &["python3", "train.py"][..],
        &[script.to_str().expect("UTF-8")],
        &["env", "A=1", "python3"],
    ] {
        let found = json_of(&[&["--"], command].concat(), &[], 0);
        let python = &found["command"]["python"];
        assert_eq!(
            (&python["version"], &python["frames"]),
            (&json!(version), &json!(true)),
            "{found:#}"
        );
        assert_eq!(python["implementation"], "cpython");
    }
    let text = text_of(&doctor(&["--", "python3", "train.py"], &[]), 0);
    let said = format!("Python: CPython {version} ({path}): its frames are read");
    assert!(flowing(&text).contains(&said), "{text}");
    let without = [("OOMHOOK_STACKS", "native")];
    let text = text_of(&doctor(&["--", "python3"], &without), 0);
    assert!(
        text.contains("OOMHOOK_STACKS leaves Python frames out"),
        "{text}"
    );

    for (answer, words) in [
        (
            "echo cpython 3.13.1 -t /opt/my python/bin/python",
            "CPython 3.13.1 (/opt/my python/bin/python): native frames only, since those of a free-threaded build cannot be read",
        ),
        (
            "echo cpython 3.7.16 -m ''",
            "native frames only, since only those of CPython 3.8 to 3.14 can be read",
        ),
        (
            "echo pypy 3.10.13 - /p",
            "Python: pypy 3.10.13 (/p): native frames only, since only CPython's frames can be read",
        ),
        (
            "exit 1",
            "native frames only, since it did not tell its version within 5 s",
        ),
    ] {
        let python = false_python("python3", answer);
        let text = text_of(&doctor(&["--", python.to_str().expect("UTF-8")], &[]), 0);
        assert!(flowing(&text).contains(words), "{text}");
    }
}

#[test]
fn an_interpreter_that_hangs_is_left() {
    let folder = Bench::shared().new_folder();
    let pid = folder.join("pid");
    // A grandchild holds the pipe.
    let python = false_python(
        "python3",
        &format!("sleep 1000 & echo $! > {}; wait", pid.display()),
    );
    let begun = std::time::Instant::now();
    let text = text_of(&doctor(&["--", python.to_str().expect("UTF-8")], &[]), 0);
    assert!(
        flowing(&text).contains("it did not tell its version within 5 s"),
        "{text}"
    );
    assert!(begun.elapsed().as_secs() < 60);
    // Nothing of it is left, once the kernel has ended it.
    let pid = std::fs::read_to_string(pid).expect("its number");
    let stat = PathBuf::from(format!("/proc/{}/stat", pid.trim()));
    while std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains("(sleep) S")) {
        assert!(begun.elapsed().as_secs() < 60, "it lives");
        std::thread::yield_now();
    }
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
