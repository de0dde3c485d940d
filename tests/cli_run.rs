//! `oomhook run`: finds the traces of its command wherever they are, passes signals on, and says what it saw.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Bench, Route, oomhook, traces_in};

fn program() -> PathBuf {
    Bench::shared().build("leak.c", Route::Shared, &[])
}

/// `oomhook run --sim OPTIONS -- COMMAND` in a folder.
fn run_in(folder: &Path, options: &[&str], command: &[&str]) -> Command {
    let mut run = oomhook();
    run.args(["run", "--sim"])
        .args(options)
        .arg("--")
        .args(command);
    run.current_dir(folder);
    run
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_per_cent_sign_in_a_folder_is_no_pattern() {
    let folder = Bench::shared().new_folder().join("50% done %p");
    std::fs::create_dir(&folder).expect("a folder");
    let program = program();
    for options in [&[][..], &["-o", "100%"]] {
        let output = run_in(&folder, options, &[text(&program)]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(0));
        assert!(said(&output).contains("leak: 5.0 MiB"), "{}", said(&output));
    }
    assert_eq!(traces_in(&folder).len(), 1);
    assert_eq!(traces_in(&folder.join("100%")).len(), 1);
}

#[test]
fn traces_are_found_below_a_folder_that_is_a_pattern() {
    let folder = Bench::shared().new_folder();
    let program = program();
    let name = program.file_name().expect("a name");
    std::fs::create_dir_all(folder.join(name).join("x")).expect("a folder");
    let output = run_in(&folder, &[], &[text(&program)])
        .env("OOMHOOK_OUTPUT", "%c/x/a.trace")
        .output()
        .expect("it starts");
    assert!(said(&output).contains("leak: 5.0 MiB"), "{}", said(&output));
}

#[test]
fn a_run_inside_a_run_is_reported_by_both() {
    let folder = Bench::shared().new_folder();
    let program = program();
    let inner = env!("CARGO_BIN_EXE_oomhook");
    let output = run_in(&folder, &[], &[inner, "run", "--", text(&program)]).output();
    let text_of_both = said(&output.expect("it starts"));
    assert_eq!(
        text_of_both.matches("leak: 5.0 MiB").count(),
        2,
        "{text_of_both}"
    );
    let output = run_in(&folder, &[], &[inner, "run", "--", text(&program)])
        .env("OOMHOOK_REPORT", "off")
        .output();
    assert_eq!(said(&output.expect("it starts")), "");
}

#[test]
fn where_nothing_was_recorded_reasons_are_guesses() {
    let folder = Bench::shared().new_folder();
    let output = run_in(&folder, &[], &["true"]).output().expect("it starts");
    assert!(
        said(&output).starts_with(
            "oomhook run: nothing was recorded. Perhaps the command made no CUDA call, or"
        ),
        "{}",
        said(&output)
    );
    let output = run_in(&folder, &[], &["sh", "-c", "kill -9 $$"]).output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(
        said(&output),
        "oomhook run: nothing was recorded before signal 9 ended the command\n"
    );
}

#[test]
fn ignored_signals_stay_ignored_and_others_are_passed_on() {
    let folder = Bench::shared().new_folder();
    let command = env!("CARGO_BIN_EXE_oomhook");
    // The shell's `trap ''` is what nohup does. The command sends the signal to `run`, its parent.
    let script = format!(
        "trap '' HUP; '{command}' run -- sh -c 'kill -HUP $PPID; sleep 0.2; kill -HUP $$; exit 5'"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("OOMHOOK_LIB", &support::artefacts().library)
        .current_dir(&folder)
        .output()
        .expect("a shell");
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    for (signal, number) in [("USR1", 10), ("USR2", 12), ("QUIT", 3), ("TERM", 15)] {
        let script = format!(
            "trap 'exit {}' {signal}; kill -{signal} $PPID; while :; do sleep 0.05; done",
            20 + number
        );
        let output = run_in(&folder, &[], &["sh", "-c", &script]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(20 + number), "{signal}");
    }
}

#[test]
fn the_runtime_of_a_sanitizer_stays_the_first_library() {
    let bench = Bench::shared();
    let probe = bench.path("asan-probe.c");
    std::fs::write(&probe, "int main(void) { return 0; }").expect("a file");
    let program = bench.path("asan-probe");
    let built = Command::new("cc")
        .arg("-fsanitize=address")
        .arg(&probe)
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("no AddressSanitizer here: not tested");
        return;
    }
    let folder = bench.new_folder();
    let output = run_in(&folder, &[], &[text(&program)])
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output();
    let output = output.expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_report_goes_to_a_new_file_of_its_owner() {
    let folder = Bench::shared().new_folder();
    let program = program();
    std::fs::write(folder.join("precious"), "mine").expect("a file");
    std::os::unix::fs::symlink("precious", folder.join("report")).expect("a link");
    let output = run_in(&folder, &[], &[text(&program)])
        .env("OOMHOOK_REPORT", "report")
        .output()
        .expect("it starts");
    assert!(said(&output).contains("report is taken, the report is in report.1"));
    let made = folder.join("report.1");
    let report = std::fs::read_to_string(&made).expect("a report");
    assert!(report.contains("leak: 5.0 MiB"), "{report}");
    let mode = made.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let precious = std::fs::read_to_string(folder.join("precious"));
    assert_eq!(precious.expect("a file"), "mine");
}

#[test]
fn what_is_wrong_is_said_before_the_command_starts() {
    let folder = Bench::shared().new_folder();
    let touch = &["sh", "-c", "touch started"];
    let script = folder.join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").expect("a file");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let output = run_in(&folder, &[], touch)
        .env("OOMHOOK_SUPPRESS", "/no/such/list")
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("OOMHOOK_SUPPRESS=/no/such/list cannot be read"),
        "{}",
        said(&output)
    );
    let missing = ["--baseline", "/no/such/b.json", "--write-baseline"];
    for (options, command, code, words) in [
        (&["--sim=foo"][..], &touch[..], 2, "--sim"),
        (&["--sim=0x1GiB"], touch, 2, "--sim"),
        (&missing, touch, 2, "there is no folder /no/such"),
        (
            &[],
            &["./script"],
            127,
            "/no/such/interpreter, which is missing",
        ),
        (&[], &["no-such-program"], 127, "no such program"),
    ] {
        let mut run = oomhook();
        run.arg("run").args(options).arg("--").args(command);
        let output = run.current_dir(&folder).output().expect("it starts");
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).contains(words), "{}", said(&output));
        assert!(!said(&output).contains("os error"), "{}", said(&output));
    }
    assert!(!folder.join("started").exists());
}

/// Runs `out_of_memory PART` under `run`, with its input held open until `until` is seen in its words.
#[track_caller]
fn run_until(
    folder: &Path,
    adapt: impl FnOnce(&mut Command),
    until: impl Fn(&str) -> bool,
) -> String {
    use std::io::Read;
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    let program = bench.build("out_of_memory.c", Route::Shared, &[&simulator]);
    let mut run = run_in(folder, &[], &[text(&program), "caught"]);
    adapt(&mut run);
    run.stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped());
    let mut child = run.spawn().expect("it starts");
    let mut errors = child.stderr.take().expect("a pipe");
    let mut seen = String::new();
    let mut some = [0; 4096];
    while !until(&seen) {
        let length = errors.read(&mut some).expect("words");
        assert_ne!(length, 0, "it has ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&some[..length]));
    }
    drop(child.stdin.take());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("the rest");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    seen + &rest
}

#[test]
fn a_failure_is_told_while_the_command_runs() {
    let folder = Bench::shared().new_folder();
    let said = run_until(&folder, |_| {}, |said| said.contains("Asked from"));
    assert!(
        said.starts_with("oomhook: out of memory: cudaMalloc asked 8.0 GiB on GPU 0, by ask\n"),
        "{said}"
    );
    assert_eq!(said.matches("OUT OF MEMORY").count(), 1, "{said}");
    assert_eq!(said.matches("\nnext: ").count(), 1, "{said}");
}

#[test]
fn the_story_and_the_report_of_a_run_are_one_file() {
    let folder = Bench::shared().new_folder();
    let report = folder.join("report.txt");
    let is_there = |_: &str| {
        let text = std::fs::read_to_string(&report).unwrap_or_default();
        text.contains("Asked from")
    };
    // Nothing is said on stderr; the story is in the file while the command runs.
    let said = run_until(
        &folder,
        |run| {
            run.env("OOMHOOK_REPORT", &report);
        },
        |said| {
            while !is_there(said) {
                std::thread::yield_now();
            }
            true
        },
    );
    assert_eq!(said, "");
    let text = std::fs::read_to_string(&report).expect("the report");
    assert!(text.starts_with("oomhook: OUT OF MEMORY"), "{text}");
    assert_eq!(text.matches("\nnext: ").count(), 1, "{text}");
    assert_eq!(std::fs::read_dir(&folder).expect("it").count(), 2);
}

#[test]
fn the_caches_of_frameworks_are_switched_off_and_that_is_said() {
    let folder = Bench::shared().new_folder();
    let switches = [
        "PYTORCH_NO_CUDA_MEMORY_CACHING=1",
        "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
        "XLA_PYTHON_CLIENT_PREALLOCATE=false",
        "TF_GPU_ALLOCATOR=cuda_malloc",
    ];
    let lines_of = |options: &[&str]| {
        let output = run_in(&folder, options, &["env"]).output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let set = switches.map(|switch| text.lines().any(|line| line == switch));
        (set, said(&output))
    };
    let (set, text) = lines_of(&["--no-framework-cache"]);
    assert_eq!(set, [true; 4]);
    for switch in switches {
        assert!(text.contains(switch), "{text}");
    }
    let (set, text) = lines_of(&[]);
    assert_eq!(set, [false; 4]);
    assert!(!text.contains("caches"), "{text}");
}
