//! Signals and exec: the process ends as it would have ended alone, and its trace is complete.

mod support;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Bench, MIB, Ran, Route, root};

fn program() -> PathBuf {
    Bench::shared().build("deaths.cpp", Route::Shared, &[])
}

/// Runs a part without the library and with it; nothing may differ but our own lines.
#[track_caller]
fn dies(arguments: &[&str]) -> Ran {
    dies_of(&program(), arguments)
}

#[track_caller]
fn dies_of(program: &Path, arguments: &[&str]) -> Ran {
    let bench = Bench::shared();
    let alone = bench.plain(program, arguments).output().expect("it runs");
    let mut run = bench.start(program, arguments);
    run.command.env("OOMHOOK_REPORT", run.folder.join("report"));
    let folder = run.folder.clone();
    let ran = run.finish();
    is_the_same(&ran.output, &alone, arguments);
    let text = std::fs::read_to_string(folder.join("report")).unwrap_or_default();
    assert!(
        text.contains("3.0 MiB"),
        "{arguments:?}: the report is there: {text:?}"
    );
    ran
}

#[track_caller]
fn is_the_same(with: &Output, without: &Output, what: &[&str]) {
    let text = |bytes: &[u8]| without_numbers(&String::from_utf8_lossy(bytes));
    assert_eq!(
        (with.status, text(&with.stdout), text(&with.stderr)),
        (without.status, text(&without.stdout), text(&without.stderr)),
        "{what:?}"
    );
}

/// Threads and addresses are others in each run.
fn without_numbers(text: &str) -> String {
    let mut words = text.split_inclusive([' ', '\n', '(', ')']);
    let is_number = |word: &str| {
        word.starts_with("0x")
            || word.len() > 4
                && word
                    .trim_end_matches([' ', '\n', '(', ')'])
                    .bytes()
                    .all(|byte| byte.is_ascii_digit())
    };
    words.by_ref().filter(|word| !is_number(word)).collect()
}

#[track_caller]
fn is_ended_by(ran: &Ran, signal: i32) {
    assert_eq!(ran.output.status.signal(), Some(signal));
    let process = &ran.report["process"];
    assert_eq!(ran.report["complete"], true, "{process:#}");
    assert_eq!(process["end"], "signal", "{process:#}");
    assert_eq!(process["signal"], signal, "{process:#}");
    assert_eq!(process["exit_code"], serde_json::Value::Null);
    ran.leaks_are(&[("take", 3 * MIB, 1)]);
}

#[test]
fn signals_end_the_process_as_ever() {
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGUSR1,
        libc::SIGPIPE,
        libc::SIGTERM,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGSYS,
    ] {
        let number = signal.to_string();
        is_ended_by(&dies(&["raise", &number]), signal);
    }
    for signal in [libc::SIGTERM, libc::SIGSEGV, libc::SIGABRT] {
        is_ended_by(&dies(&["kill", &signal.to_string()]), signal);
    }
}

#[test]
fn crashes_end_the_process_as_ever() {
    is_ended_by(&dies(&["segfault"]), libc::SIGSEGV);
    is_ended_by(&dies(&["divide"]), libc::SIGFPE);
    is_ended_by(&dies(&["past the file"]), libc::SIGBUS);
    is_ended_by(&dies(&["deep"]), libc::SIGSEGV);
    is_ended_by(&dies(&["two crash"]), libc::SIGSEGV);
    let illegal = dies(&["illegal"]);
    let signal = illegal.output.status.signal().expect("a signal");
    is_ended_by(&illegal, signal);
}

#[test]
fn aborts_and_exceptions_end_the_process_as_ever() {
    is_ended_by(&dies(&["abort"]), libc::SIGABRT);
    is_ended_by(&dies(&["throw"]), libc::SIGABRT);
    is_ended_by(&dies(&["terminate and abort"]), libc::SIGABRT);
    let ran = dies(&["terminate"]);
    ran.says(17, "terminate handler\n");
    assert_eq!(ran.report["process"]["end"], "_exit");
    assert_eq!(ran.report["complete"], true);
}

#[test]
fn a_crash_inside_malloc_does_not_hang() {
    let ran = dies(&["broken heap"]);
    is_ended_by(&ran, libc::SIGABRT);
}

#[test]
fn a_signal_in_the_middle_of_work_leaves_a_consistent_trace() {
    for _ in 0..5 {
        let mut run = Bench::shared().start(&program(), &["under load"]);
        run.command.env("OOMHOOK_REPORT", "off");
        let ran = run.finish();
        assert_eq!(ran.output.status.signal(), Some(libc::SIGTERM));
        assert_eq!(ran.report["complete"], true, "{:#}", ran.report["process"]);
        ran.is("/process/signal", 15)
            .is("/anomalies/unknown_free", 0)
            .is("/anomalies/double_free", 0);
        assert!(ran.report["totals"]["allocs"].as_u64() > Some(1));
    }
}

#[test]
fn handlers_of_the_program_run_first_and_the_status_is_the_same() {
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGTERM] {
        let number = signal.to_string();
        for part in [
            "handler",
            "handler once",
            "handler once, deferred",
            "system v",
        ] {
            let ran = dies(&[part, &number]);
            is_ended_by(&ran, signal);
            assert!(!ran.output.stdout.is_empty());
        }
    }
    is_ended_by(&dies(&["once with info"]), libc::SIGTERM);
    is_ended_by(&dies(&["crash handler"]), libc::SIGSEGV);
    is_ended_by(&dies(&["own stack"]), libc::SIGSEGV);
}

#[test]
fn a_handler_that_returns_has_ended_nothing() {
    let ran = dies(&["survive"]);
    is_ended_by(&ran, libc::SIGINT);
    ran.is("/totals/allocs", 2).is("/totals/frees", 1);
}

#[test]
fn the_program_sees_its_own_dispositions() {
    is_ended_by(&dies(&["look"]), libc::SIGHUP);
    is_ended_by(&dies(&["ignore"]), libc::SIGUSR1);
}

#[test]
fn another_program_in_the_place_of_this_one_closes_the_trace() {
    for form in 0..8 {
        let form = form.to_string();
        let bench = Bench::shared();
        let alone = bench
            .plain(&program(), &["exec", &form])
            .output()
            .expect("it runs");
        assert_eq!(alone.status.code(), Some(5));
        let ran = dies(&["exec", &form]);
        assert_eq!(ran.report["process"]["end"], "exec", "form {form}");
        assert_eq!(ran.report["complete"], true);
        ran.leaks_are(&[("take", 3 * MIB, 1)]);
    }
}

#[test]
fn an_exec_that_fails_has_ended_nothing() {
    let ran = dies(&["failing exec"]);
    assert_eq!(ran.output.status.code(), Some(4));
    assert_eq!(
        (&ran.report["process"]["end"], &ran.report["complete"]),
        (&"exit".into(), &true.into())
    );
    ran.is("/totals/allocs", 2).is("/totals/frees", 1);
}

#[test]
fn children_end_without_their_parent() {
    let ran = dies(&["spawn"]);
    assert_eq!(ran.output.status.code(), Some(6));
    assert_eq!(
        (&ran.report["process"]["end"], &ran.report["complete"]),
        (&"exit".into(), &true.into())
    );
    ran.is("/totals/allocs", 2).is("/totals/frees", 1);
}

#[test]
fn from_the_first_exit_handler_on_every_event_is_in_the_file() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["vanish"]);
    run.command.env("OOMHOOK_REPORT", "off");
    let ran = run.finish();
    assert_eq!(ran.output.status.code(), Some(21), "{}", ran.stderr());
    // The library never learns that the process is gone.
    assert_eq!(ran.report["complete"], false);
    ran.is("/totals/allocs", 2).is("/totals/failed_frees", 1);
    ran.leaks_are(&[("take", 3 * MIB, 1), ("take", MIB, 1)]);
}

#[test]
fn python_ends_as_ever() {
    let script = root().join("tests/programs/python/deaths.py");
    let script = script.to_str().expect("UTF-8");
    let python = |part: &str| dies_of(Path::new("python3"), &[script, part]);
    let is_ended = |part: &str, signal: i32| {
        let ran = python(part);
        assert_eq!(ran.output.status.signal(), Some(signal), "{part}");
        let process = &ran.report["process"];
        assert_eq!(
            (&ran.report["complete"], &process["end"], &process["signal"]),
            (&true.into(), &"signal".into(), &signal.into()),
            "{part}"
        );
        ran.is("/devices/0/live_bytes", 3 * MIB);
    };
    is_ended("crash_with_faulthandler", libc::SIGSEGV);
    is_ended("fatal_error_with_faulthandler", libc::SIGABRT);
    is_ended("interrupted", libc::SIGINT);
    is_ended("terminated", libc::SIGTERM);
    is_ended("handles", libc::SIGTERM);
    is_ended("broken_pipe", libc::SIGPIPE);
    for (part, end, code) in [
        ("raises", "exit", Some(1)),
        ("children", "exit", Some(4)),
        ("executes", "exec", None),
    ] {
        let ran = python(part);
        let process = &ran.report["process"];
        assert_eq!(
            (&ran.report["complete"], &process["end"]),
            (&true.into(), &end.into()),
            "{part}"
        );
        assert_eq!(process["exit_code"].as_u64(), code, "{part}");
        ran.is("/devices/0/live_bytes", 3 * MIB);
    }
}

#[test]
fn a_rust_program_that_aborts_ends_as_ever() {
    let program = Bench::shared().path("panics");
    let status = Command::new("rustc")
        .args(["--edition", "2024", "-C", "panic=abort", "-g", "-o"])
        .arg(&program)
        .arg(root().join("tests/programs/panics.rs"))
        .status()
        .expect("a compiler");
    assert!(status.success());
    for (part, signal) in [
        ("panic", libc::SIGABRT),
        ("index", libc::SIGABRT),
        ("overflow the stack", libc::SIGABRT),
    ] {
        let ran = dies_of(&program, &[part]);
        assert_eq!(ran.output.status.signal(), Some(signal), "{part}");
        assert_eq!(ran.report["complete"], true, "{part}");
        ran.is("/process/signal", signal as u64)
            .is("/devices/0/live_bytes", 3 * MIB);
    }
}

/// The first process of a container ignores the signals that it has no handler for, but not its own crashes.
#[test]
fn the_first_process_of_a_container_ends_as_ever() {
    let bench = Bench::shared();
    let inside = |command: &Command| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-Urpf"]).arg(command.get_program());
        unshare.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => unshare.env(name, value),
                None => unshare.env_remove(name),
            };
        }
        unshare
    };
    let probe = inside(&bench.plain(Path::new("true"), &[])).output();
    if !probe.as_ref().is_ok_and(|output| output.status.success()) {
        eprintln!("NOT RUN: no namespace of processes: {probe:?}");
        return;
    }
    let arguments = ["first process"];
    let alone = inside(&bench.plain(&program(), &arguments))
        .output()
        .expect("it runs");
    let mut run = bench.start(&program(), &arguments);
    run.command.env("OOMHOOK_REPORT", run.folder.join("report"));
    run.command = inside(&run.command);
    let ran = run.finish();
    is_the_same(&ran.output, &alone, &arguments);
    assert_eq!(
        String::from_utf8_lossy(&alone.stdout),
        "lives on after 15, 2, 6\n"
    );
    assert_eq!(ran.report["complete"], true);
    ran.is("/process/pid", 1)
        .is("/process/signal", 11)
        .leaks_are(&[("take", 3 * MIB, 1)]);
}

#[track_caller]
fn is_closed_with(ran: &Ran, end: &str, code: u64) {
    assert_eq!(
        (&ran.report["complete"], &ran.report["process"]["end"]),
        (&true.into(), &end.into())
    );
    ran.is("/process/exit_code", code);
}

#[test]
fn an_exit_from_the_middle_of_malloc_does_not_hang() {
    is_closed_with(&dies(&["heap at once"]), "_exit", 5);
    is_closed_with(&dies(&["heap exit"]), "exit", 6);
}

#[test]
fn an_end_at_once_under_load_is_complete() {
    for _ in 0..3 {
        let mut run = Bench::shared().start(&program(), &["at once under load"]);
        run.command.env("OOMHOOK_REPORT", "off");
        let ran = run.finish();
        assert_eq!(ran.output.status.code(), Some(9), "{}", ran.stderr());
        assert_eq!(ran.stderr(), "");
        is_closed_with(&ran, "_exit", 9);
        ran.is("/anomalies/unknown_free", 0);
    }
}

#[test]
fn a_signal_during_the_end_is_what_ends_the_process() {
    let mut seen = 0;
    for _ in 0..20 {
        let mut run = Bench::shared().start(&program(), &["terminated in exit"]);
        let report = run.folder.join("report");
        run.command.env("OOMHOOK_REPORT", &report);
        let ran = run.finish();
        let process = &ran.report["process"];
        assert_eq!(ran.report["complete"], true, "{process:#}");
        match ran.output.status.signal() {
            Some(signal) => {
                assert_eq!(
                    (&process["end"], &process["signal"]),
                    (&"signal".into(), &signal.into())
                );
                seen += 1;
            }
            None => is_closed_with(&ran, "exit", 12),
        }
        let text = std::fs::read_to_string(&report).expect("the report");
        assert_eq!(text.matches("\nnext: ").count(), 1, "{text}");
    }
    assert!(seen > 0);
}

#[test]
fn a_handler_for_once_may_be_older_than_the_recording() {
    is_ended_by(&dies(&["early once"]), libc::SIGTERM);
}

#[test]
fn a_handler_for_once_of_a_child_stays_the_parents() {
    is_closed_with(&dies(&["once in a child"]), "exit", 8);
}

#[test]
fn execs_that_fail_one_after_the_other_hold_nobody_up() {
    let ran = dies(&["failing execs"]);
    is_closed_with(&ran, "exit", 4);
}

#[test]
fn a_handler_keeps_the_stack_that_it_asked_for() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["small stack"]);
    run.command.env("OOMHOOK_SIGNAL", "USR2");
    let ran = run.finish();
    ran.says(3, "handled with room\n");
}

#[test]
fn nobody_waits_for_a_reader_of_ours() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["full pipe"]);
    run.command.env("OOMHOOK_REPORT", "stderr");
    let ran = run.finish();
    assert_eq!(ran.output.status.code(), Some(7));
    is_closed_with(&ran, "exit", 7);
}
