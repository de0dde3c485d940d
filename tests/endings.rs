//! However a process ends, its trace holds what it should, and the program ends as it would have ended alone.

mod support;

use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Bench, MIB, Ran, Route, report};

const GIB: u64 = 1 << 30;

fn program() -> PathBuf {
    Bench::shared().build("endings.c", Route::Shared, &[])
}

#[track_caller]
fn endings(part: &str, settings: &[(&str, &str)]) -> Ran {
    Bench::shared().run(&program(), &[part], settings)
}

#[track_caller]
fn is_complete(ran: &Ran, end: &str, code: u64) {
    assert_eq!(
        (&ran.report["complete"], &ran.report["process"]["end"]),
        (&true.into(), &end.into())
    );
    ran.is("/process/exit_code", code);
}

#[track_caller]
fn is_cut(ran: &Ran) {
    let (complete, end) = (&ran.report["complete"], &ran.report["process"]["end"]);
    assert_eq!((complete, end), (&false.into(), &"unfinished".into()));
}

#[test]
fn ordinary_ends_close_the_trace() {
    for (part, code, bytes, site) in [
        ("return", 3, MIB, "by_return"),
        ("exit", 4, MIB, "by_exit"),
        ("exit in a thread", 5, 2 * MIB, "by_exit_in_thread_part"),
    ] {
        let ran = endings(part, &[]);
        ran.says(code, "");
        is_complete(&ran, "exit", code as u64);
        ran.is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", bytes);
        ran.leaks_are(&[("take", bytes, 1)]);
        let stack = ran.report["leaks"][0]["stack"].as_array().expect("a stack");
        assert!(
            stack.iter().any(|frame| frame["function"] == site),
            "{stack:#?}"
        );
    }
}

#[test]
fn ends_that_run_no_handlers_close_the_trace_all_the_same() {
    for (part, code, bytes) in [("quick exit", 6, MIB), ("immediate exit", 7, MIB)] {
        let ran = endings(part, &[("OOMHOOK_REPORT", "stderr")]);
        ran.says(code, "");
        is_complete(&ran, "_exit", code as u64);
        ran.is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", bytes)
            .leaks_are(&[("take", bytes, 1)]);
        assert!(
            ran.stderr().contains("oomhook: leak: 1.0 MiB"),
            "{}",
            ran.stderr()
        );
    }
}

#[test]
fn a_child_of_vfork_ends_without_its_parent() {
    let ran = endings("vfork", &[]);
    ran.says(0, "");
    is_complete(&ran, "exit", 0);
    ran.is("/totals/allocs", 2).is("/totals/frees", 1);
}

#[test]
fn threads_may_be_at_it_when_the_process_ends() {
    for _ in 0..5 {
        let ran = endings("exits under load", &[]);
        ran.says(10, "");
        is_complete(&ran, "exit", 10);
        let allocs = ran.report["totals"]["allocs"].as_u64().expect("a number");
        assert!(allocs > 1);
        ran.is("/anomalies/unknown_free", 0)
            .is("/anomalies/double_free", 0);
    }
}

#[test]
fn ends_that_run_no_handlers_leave_what_was_written() {
    for (part, code, signal) in [("abort", None, Some(6)), ("signal", None, Some(15))] {
        let ran = endings(part, &[]);
        let status = ran.output.status;
        assert_eq!(
            (status.code(), status.signal()),
            (code, signal),
            "{part}: {}",
            ran.stderr()
        );
        ran.is("/totals/allocs", 1)
            .is("/devices/0/live_bytes", MIB)
            .leaks_are(&[("take", MIB, 1)]);
    }
}

#[test]
fn a_free_at_exit_is_seen_while_the_driver_answers() {
    let ran = endings("late free", &[]);
    // The destructor frees it again, when the driver is gone.
    ran.says(0, "at exit: 0\nin the destructor: 4\n");
    is_complete(&ran, "exit", 0);
    ran.is("/totals/frees", 1)
        .is("/devices/0/live_bytes", 0)
        .leaks_are(&[]);
}

#[test]
fn a_free_that_comes_too_late_has_failed() {
    let ran = endings("too late free", &[]);
    ran.says(0, "in the destructor: 4\n");
    is_complete(&ran, "exit", 0);
    ran.is("/totals/frees", 0)
        .is("/totals/failed_frees", 1)
        .is("/devices/0/live_bytes", 2 * MIB);
    ran.leaks_are(&[("take", 2 * MIB, 1)]);
}

#[test]
fn the_report_comes_on_stderr_unless_told_otherwise() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["return"]);
    run.command.env_remove("OOMHOOK_REPORT");
    let on_stderr = run.finish().says(3, "").stderr();
    assert!(
        on_stderr.contains("take") && on_stderr.contains("1.0 MiB"),
        "{on_stderr}"
    );
    assert!(on_stderr.lines().count() <= 30, "{on_stderr}");

    let ran = endings("return", &[("OOMHOOK_REPORT", "off")]);
    assert_eq!(ran.says(3, "").stderr(), "");

    let folder = bench.new_folder();
    let pattern = folder.join("%c.%%.txt").display().to_string();
    let ran = endings("return", &[("OOMHOOK_REPORT", &pattern)]);
    assert_eq!(ran.says(3, "").stderr(), "");
    let name = program()
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let text = fs::read_to_string(folder.join(format!("{name}.%.txt"))).expect("the report");
    assert!(text.contains("take") && text.contains("1.0 MiB"), "{text}");
}

#[test]
fn recording_can_be_switched_off() {
    for setting in [("OOMHOOK", "0"), ("OOMHOOK_ONLY", "another*")] {
        let mut run = Bench::shared().start(&program(), &["return"]);
        run.command.env(setting.0, setting.1);
        // Proof that the library is there, and has been asked.
        run.command.env("LD_DEBUG", "bindings");
        let (output, traces) = run.output();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            errors.contains("liboomhook.so [0]: normal symbol `cudaMalloc'"),
            "{setting:?}"
        );
        assert!(!errors.lines().any(|line| line.starts_with("oomhook:")));
        assert_eq!((output.status.code(), traces), (Some(3), vec![]));
    }
}

#[test]
fn a_malformed_setting_is_one_line_and_the_default() {
    let ran = endings("return", &[("OOMHOOK_DEPTH", "deep")]);
    let errors = ran.says(3, "").stderr();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("oomhook: OOMHOOK_DEPTH=deep "),
        "{errors}"
    );
    ran.is("/totals/allocs", 1);
}

// --- where the trace is put ---

/// Runs the simplest part with an output pattern; its stderr.
fn put(output: &Path, adapt: impl Fn(&mut Command)) -> String {
    let mut command = Bench::shared().watched(&program(), &["return"]);
    command
        .env("OOMHOOK_OUTPUT", output)
        .env("OOMHOOK_REPORT", "off");
    adapt(&mut command);
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    String::from_utf8(output.stderr).expect("text")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn a_place_that_cannot_be_written_is_replaced_and_said_once() {
    let folder = Bench::shared().new_folder();
    let nowhere = folder.join("nowhere");
    let name = format!("fallback-{}.trace", std::process::id());
    let said = put(&nowhere.join(&name), |command| {
        command.env("TMPDIR", &folder);
    });
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].starts_with("oomhook: cannot write "), "{said}");
    assert!(
        lines[0].contains(&folder.join(&name).display().to_string()),
        "{said}"
    );
    assert_eq!(report(&folder.join(&name))["totals"]["allocs"], 1);

    let said = put(&nowhere.join(&name), |command| {
        command.env("TMPDIR", &nowhere);
    });
    let shared = Path::new("/dev/shm").join(&name);
    let found = report(&shared);
    fs::remove_file(&shared).expect("the trace");
    assert_eq!(
        (said.lines().count(), &found["totals"]["allocs"]),
        (1, &Value::from(1)),
        "{said}"
    );
}

#[test]
fn a_trace_is_a_new_file_for_its_owner_alone() {
    let folder = Bench::shared().new_folder();
    let wanted = folder.join("x.trace");
    fs::write(&wanted, "kept").expect("a file");
    let open_to_all = |command: &mut Command| {
        // The shell's umask is the program's.
        let program = command.get_program().to_owned();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "umask 0; exec \"$0\" return"])
            .arg(program);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        *command = shell;
    };
    assert_eq!(put(&wanted, open_to_all), "");
    assert_eq!(fs::read_to_string(&wanted).expect("the file"), "kept");
    let numbered = folder.join("x.1.trace");
    assert_eq!(report(&numbered)["totals"]["allocs"], 1);
    assert_eq!(mode(&numbered), 0o600);
    put(&wanted, |_| {});
    assert_eq!(report(&folder.join("x.2.trace"))["totals"]["allocs"], 1);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = Bench::shared().new_folder();
    fs::write(folder.join("victim"), "kept").expect("a file");
    symlink(folder.join("victim"), folder.join("a.trace")).expect("a link");
    symlink(folder.join("absent"), folder.join("b.trace")).expect("a link");
    for name in ["a", "b"] {
        assert_eq!(put(&folder.join(format!("{name}.trace")), |_| {}), "");
        assert_eq!(
            report(&folder.join(format!("{name}.1.trace")))["totals"]["allocs"],
            1
        );
    }
    assert_eq!(
        fs::read_to_string(folder.join("victim")).expect("the file"),
        "kept"
    );
    assert!(!folder.join("absent").exists());
}

#[test]
fn the_trace_is_not_open_in_what_the_program_executes() {
    let ran = endings("executes another", &[]);
    let descriptors = String::from_utf8_lossy(&ran.output.stdout);
    assert!(
        descriptors.contains("/proc/") && !descriptors.contains(".trace"),
        "{descriptors}"
    );
    ran.is("/totals/allocs", 1);
}

#[test]
fn a_program_that_closes_all_files_keeps_its_own() {
    let mut run = Bench::shared().start(&program(), &["closes everything"]);
    let folder = run.folder.clone();
    run.command.current_dir(&folder);
    let ran = run.finish();
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    for number in 0..8 {
        let own = fs::read(folder.join(format!("own.{number}"))).expect("the program's file");
        assert_eq!(String::from_utf8_lossy(&own), "mine", "own.{number}");
    }
    // The trace is found again by its name.
    is_complete(&ran, "exit", 0);
    ran.is("/totals/allocs", 3)
        .is("/devices/0/live_bytes", 7 * MIB);
}

// --- no room ---

#[track_caller]
fn says_that_it_stopped(code: Option<i32>, errors: &str) {
    assert_eq!(code, Some(9), "{errors}");
    let stopped = errors
        .lines()
        .filter(|line| line.starts_with("oomhook: cannot write "));
    assert_eq!(stopped.count(), 1, "{errors}");
    // The report at the end knows all events nevertheless, and says why the trace does not.
    assert!(
        errors.contains("3.0 MiB") && errors.contains("20,001 alloc"),
        "{errors}"
    );
    let words: Vec<_> = errors.split_whitespace().collect();
    assert_eq!(
        words.join(" ").matches("the trace ends here").count(),
        2,
        "{errors}"
    );
}

#[test]
fn a_file_that_may_not_grow_stops_the_trace_and_not_the_program() {
    let ran = endings("no room", &[("OOMHOOK_REPORT", "stderr")]);
    ran.says(9, "done\n");
    says_that_it_stopped(ran.output.status.code(), &ran.stderr());
    is_cut(&ran);
    assert!(fs::metadata(&ran.trace).expect("the trace").len() <= 8192);
    let allocs = ran.report["totals"]["allocs"].as_u64().expect("a number");
    assert!((1..20001).contains(&allocs), "{allocs}");
}

#[test]
fn a_full_disk_stops_the_trace_and_not_the_program() {
    let bench = Bench::shared();
    let run = bench.start(&program(), &[]);
    let disk = run.folder.join("disk");
    fs::create_dir(&disk).expect("a folder");
    // In a mount namespace of its own; the trace is brought out of it.
    let script = "mount -t tmpfs -o size=16k none disk || exit 77
        \"$0\" 'many events'; code=$?
        cp disk/x.trace . && exit $code";
    let mut shell = Command::new("unshare");
    shell
        .args(["-m", "sh", "-c", script])
        .arg(program())
        .current_dir(&run.folder);
    for (name, value) in run.command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .env("OOMHOOK_OUTPUT", disk.join("x.trace"))
        .env("OOMHOOK_REPORT", "stderr");
    let output = match shell.output() {
        Ok(output) if output.status.code() == Some(77) || output.status.code() == Some(1) => {
            eprintln!("NOT RUN: {}", String::from_utf8_lossy(&output.stderr));
            return;
        }
        Ok(output) => output,
        Err(error) => {
            eprintln!("NOT RUN: unshare: {error}");
            return;
        }
    };
    says_that_it_stopped(
        output.status.code(),
        &String::from_utf8_lossy(&output.stderr),
    );
    let cut = report(&run.folder.join("x.trace"));
    assert_eq!(cut["complete"], false);
    assert!(
        cut["totals"]["allocs"]
            .as_u64()
            .is_some_and(|allocs| (1..20001).contains(&allocs))
    );
}

// --- killed ---

#[test]
fn a_killed_process_leaves_all_but_its_last_moments() {
    let mut run = Bench::shared().start(&program(), &["killed while allocating"]);
    let mut child = run
        .command
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    // One allocation a millisecond at most.
    let seen = lines.find(|line| line.as_ref().is_ok_and(|line| line == "300"));
    child.kill().expect("it can be killed");
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
    assert!(seen.is_some());
    let traces = support::traces_in(&run.folder);
    assert_eq!(traces.len(), 1);
    let report = report(&traces[0]);
    assert_eq!(
        (&report["complete"], &report["process"]["end"]),
        (&false.into(), &"unfinished".into())
    );
    let allocs = report["totals"]["allocs"].as_u64().expect("a number");
    // What is older than 50 ms is there, at the very least.
    assert!(allocs >= 250, "{allocs}");
    assert_eq!(report["devices"][0]["live_bytes"], 4096 * allocs);
    assert_eq!(report["devices"][0]["peak_event"], allocs);
}

#[test]
fn out_of_memory_is_on_file_before_the_program_learns_of_it() {
    for (part, code, signal) in [
        ("exits out of memory", Some(8), None),
        ("dies out of memory", None, Some(9)),
    ] {
        let ran = endings(part, &[]);
        let status = ran.output.status;
        assert_eq!((status.code(), status.signal()), (code, signal), "{part}");
        ran.is("/totals/allocs", 16).is("/totals/failed_allocs", 1);
        ran.is("/devices/0/live_bytes", 16 * GIB);
        ran.is("/oom/0/requested_bytes", GIB)
            .is("/oom/0/attempts", 1)
            .is("/oom/0/free_bytes", 0);
        ran.is("/oom/0/total_bytes", 16 * GIB)
            .is("/oom/0/short_by_bytes", GIB);
        let oom = &ran.report["oom"][0];
        assert_eq!(
            (&oom["call"], &oom["space"]),
            (&"cudaMalloc".into(), &"device".into())
        );
        assert_eq!(oom["class"], "fatal");
        assert!(oom["stack"].to_string().contains("one_too_many"), "{oom:#}");
    }
}

// --- forks ---

#[test]
fn forks_under_load_neither_hang_nor_own_anything() {
    let ran = endings("forks under load", &[("OOMHOOK_REPORT", "stderr")]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    is_complete(&ran, "exit", 0);
    let printed = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let count: u64 = printed.trim().parse().expect("a number");
    ran.is("/totals/allocs", count)
        .is("/totals/frees", count - 1);
    ran.is("/devices/0/live_bytes", MIB)
        .leaks_are(&[("take", MIB, 1)]);
    // Children that ran their exit handlers printed no report of their parent.
    assert_eq!(
        ran.stderr().matches("Live at exit").count(),
        1,
        "{}",
        ran.stderr()
    );
}

#[test]
fn a_child_that_comes_before_cuda_is_a_process_of_its_own() {
    let (output, traces) = Bench::shared().start(&program(), &["forks first"]).output();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(traces.len(), 2, "{traces:?}");
    let mut reports: Vec<_> = traces.iter().map(|trace| report(trace)).collect();
    reports.sort_by_key(|report| report["devices"][0]["live_bytes"].as_u64());
    let [parent, child] = &reports[..] else {
        unreachable!("two")
    };
    assert_eq!(
        (&parent["totals"]["allocs"], &parent["totals"]["frees"]),
        (&1.into(), &1.into())
    );
    assert_eq!(parent["devices"][0]["peak_bytes"], 8 * MIB);
    assert_eq!(
        (&parent["devices"][0]["live_bytes"], &parent["complete"]),
        (&0.into(), &true.into())
    );
    assert_eq!(child["devices"][0]["live_bytes"], 2 * MIB);
    assert_eq!(child["process"]["ppid"], parent["process"]["pid"]);
}
