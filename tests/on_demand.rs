//! `oomhook snapshot` asks a process while it goes on.

mod support;

use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::live::{Live, after, asked, end, figures, kill, refused, snapshot, text};
use support::{Bench, MIB, Route, oomhook, report, traces_in};

#[test]
fn a_running_process_is_asked_again_and_again() {
    let mut live = Live::with(3, &[]);
    let first = asked(live.pid());
    assert_eq!(figures(&first), (1, 0, 3 * MIB));
    assert_eq!(first["leaks"][0]["site"], "take");
    live.does("alloc 5");
    live.does("free");
    live.does("alloc 7");
    assert_eq!(figures(&asked(live.pid())), (3, 1, 10 * MIB));
    // The same text as of the trace, but for the next command: who has just asked need not be told to.
    let output = snapshot(live.pid(), &[]);
    let said = text(&output.stdout);
    assert!(
        said.starts_with(
            "oomhook: still running, 10.0 MiB live in 2 blocks; peak 10.0 MiB on GPU 0\n"
        ),
        "{said}"
    );
    let trace = live.trace();
    let of_trace = oomhook()
        .arg("report")
        .arg(&trace)
        .output()
        .expect("it runs");
    let of_trace = text(&of_trace.stdout);
    let (next, body) = (
        format!("next: oomhook snapshot {}\n", live.pid()),
        |all: &str| {
            // Not the lines on the process: time goes by.
            let body = all.split_once("\n\n").expect("sections").1;
            body.rsplit_once("\nnext: ")
                .expect("a next command")
                .0
                .to_owned()
        },
    );
    assert!(of_trace.ends_with(&next), "{of_trace}");
    assert_eq!(body(&of_trace), body(&said));
    let next = format!(
        "next: oomhook report {} --by stack --at peak\n",
        trace.display()
    );
    assert!(said.ends_with(&next), "{said}");
    let output = snapshot(live.pid(), &["--by", "site", "--at", "exit"]);
    assert!(
        text(&output.stdout).contains("10.0 MiB  100.0%"),
        "{}",
        text(&output.stdout)
    );
    assert_eq!(live.stderr(), "");
    let (code, folder) = live.ends();
    assert_eq!(code, Some(0));
    let traces = traces_in(&folder);
    let last = report(&traces[0]);
    assert_eq!(
        (end(&last), figures(&last)),
        (("exit".into(), true), (3, 1, 10 * MIB))
    );
}

#[test]
fn several_may_ask_at_once() {
    let mut live = Live::with(1, &[]);
    for round in 2..5 {
        live.does("alloc 1");
        let pid = live.pid();
        let askers: Vec<_> = (0..6)
            .map(|_| std::thread::spawn(move || figures(&asked(pid))))
            .collect();
        for asker in askers {
            assert_eq!(asker.join().expect("it asks"), (round, 0, round * MIB));
        }
    }
}

#[test]
fn a_killed_process_is_unfinished_and_its_living_child_changes_nothing() {
    let mut live = Live::with(2, &[]);
    let child = live.does("fork");
    let trace = live.trace();
    assert_eq!(end(&report(&trace)), ("running".into(), false));
    let said = refused(child, 2);
    let wanted = format!(
        "oomhook snapshot: process {child} is a child of process {0} and not recorded itself; try oomhook snapshot {0}\n",
        live.pid()
    );
    assert_eq!(said, wanted);
    live.signal("KILL");
    assert_eq!(live.child.wait().expect("it ends").signal(), Some(9));
    let killed = report(&trace);
    assert_eq!(
        (end(&killed), figures(&killed)),
        (("unfinished".into(), false), (1, 0, 2 * MIB))
    );
    let output = oomhook()
        .arg("report")
        .arg(&trace)
        .output()
        .expect("it runs");
    let said = text(&output.stdout);
    assert!(
        said.starts_with(
            "oomhook: ended without a closing record (killed?), 2.0 MiB live in 1 block;"
        ),
        "{said}"
    );
    assert!(!said.contains("oomhook snapshot"), "{said}");
    kill(child, "KILL");
}

#[test]
fn a_file_that_is_kept_within_a_bound_stays_locked() {
    let mut live = Live::with(3, &[("OOMHOOK_KEEP", "256KiB")]);
    live.send("churn");
    let mut last = 0;
    for _ in 0..12 {
        let seen = asked(live.pid());
        assert_eq!(end(&report(&live.trace())), ("running".into(), false));
        let (allocs, frees, bytes) = figures(&seen);
        assert!(allocs > last && allocs - frees <= 2, "{allocs} {frees}");
        assert!((3 * MIB..4 * MIB).contains(&bytes), "{bytes}");
        last = allocs;
    }
    live.send("handled");
    let line = live.line();
    let times: u64 = line
        .strip_prefix("churn ")
        .and_then(|times| times.parse().ok())
        .expect("a number");
    assert_eq!(live.line(), "handled 0");
    let seen = asked(live.pid());
    assert_eq!(figures(&seen), (times + 1, times, 3 * MIB));
    assert!(
        seen["notes"].to_string().contains("OOMHOOK_KEEP"),
        "{}",
        seen["notes"]
    );
    assert!(fs::metadata(live.trace()).expect("the trace").len() <= 256 << 10);
}

#[test]
fn where_no_events_are_kept_the_state_comes() {
    let mut live = Live::with(3, &[("OOMHOOK_KEEP", "summary")]);
    assert_eq!(figures(&asked(live.pid())), (1, 0, 3 * MIB));
    live.does("alloc 4");
    assert_eq!(figures(&asked(live.pid())), (2, 0, 7 * MIB));
    live.does("free");
    let trace = live.trace();
    assert_eq!(live.ends().0, Some(0));
    let last = report(&trace);
    assert_eq!(
        (end(&last), figures(&last)),
        (("exit".into(), true), (2, 1, 3 * MIB))
    );
}

#[test]
fn locks_that_the_program_loses_come_back() {
    let mut live = Live::with(3, &[]);
    for order in ["peek", "close"] {
        live.does(order);
        live.until("the lock is back", |live| {
            end(&report(&live.trace())).0 == "running"
        });
        assert_eq!(figures(&asked(live.pid())), (1, 0, 3 * MIB));
    }
}

#[test]
fn what_exec_replaces_does_not_run_any_more() {
    let mut live = Live::with(3, &[]);
    let first = live.trace();
    live.send("exec");
    live.does("handled");
    assert_eq!(end(&report(&first)), ("exec".into(), true));
    refused(live.pid(), 3);
    live.does("init");
    live.does("alloc 5");
    assert_eq!(figures(&asked(live.pid())), (1, 0, 5 * MIB));
    assert_eq!(end(&report(&first)), ("exec".into(), true));
}

#[test]
fn what_cannot_be_asked_is_told_why() {
    for (argument, part) in [
        ("0", "a process has a number from 1 on"),
        ("abc", "a process has a number from 1 on"),
        ("-5", "a process has a number from 1 on"),
        ("99999999999", "a process has a number from 1 on"),
        ("2147483647", "there is no process 2147483647"),
    ] {
        let said = refused(argument, 2);
        assert!(said.contains(part), "{said}");
    }
    let said = refused(std::process::id(), 2);
    let start = format!(
        "oomhook snapshot: process {} does not run under oomhook: start it by",
        std::process::id()
    );
    assert!(said.contains(&start), "{said}");

    let mut live = Live::start(&[]);
    live.does("handled");
    let said = refused(live.pid(), 3);
    let start = format!(
        "oomhook snapshot: nothing is recorded of process {} so far: it has made no CUDA call",
        live.pid()
    );
    assert!(said.starts_with(&start), "{said}");
    live.does("init");
    let thread = fs::read_dir(format!("/proc/{}/task", live.pid()))
        .expect("its threads")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .find(|thread| *thread != live.pid())
        .expect("a thread of ours");
    assert_eq!(
        refused(thread, 2),
        format!(
            "oomhook snapshot: {thread} is a thread of process {0}; try oomhook snapshot {0}\n",
            live.pid()
        )
    );
    let output = snapshot(live.pid(), &[]);
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    assert!(
        said.starts_with("oomhook: no CUDA memory was allocated so far\n"),
        "{said}"
    );

    let live = Live::with(1, &[("OOMHOOK_KEEP", "none")]);
    assert_eq!(
        refused(live.pid(), 2),
        format!(
            "oomhook snapshot: process {0} records without a file (OOMHOOK_KEEP=none): start it with OOMHOOK_SIGNAL=USR2, then kill -USR2 {0} brings a report\n",
            live.pid()
        )
    );
}

#[test]
fn a_parent_is_told_which_of_its_children_are_recorded() {
    let live = Live::with(1, &[]);
    let output = snapshot(std::process::id(), &[]);
    let said = text(&output.stderr);
    let start = format!(
        "oomhook snapshot: recorded below process {}: ",
        std::process::id()
    );
    let line = said.lines().find_map(|line| line.strip_prefix(&start));
    let listed = line.unwrap_or_else(|| panic!("{said}")).split(", ");
    assert!(
        listed.into_iter().any(|pid| pid == live.pid().to_string()),
        "{said}"
    );
}

#[test]
fn somebody_elses_process_is_refused() {
    let live = Live::with(1, &[]);
    let nobody = 65_534;
    let mut command = oomhook();
    command
        .args(["snapshot", &live.pid().to_string()])
        .uid(nobody)
        .gid(nobody);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped: no other user to be ({error}); run as root"),
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("cannot be looked into: Permission denied; ask as its user or as root"),
        "{said}"
    );
}

#[test]
fn a_stopped_process_does_not_keep_anybody_waiting() {
    let live = Live::with(3, &[]);
    assert_eq!(figures(&asked(live.pid())), (1, 0, 3 * MIB));
    live.signal("STOP");
    let began = Instant::now();
    let output = snapshot(live.pid(), &["--json"]);
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(output.status.code(), Some(0));
    let note = format!("process {} did not answer within 3.0 s", live.pid());
    assert!(
        text(&output.stderr).contains(&note),
        "{}",
        text(&output.stderr)
    );
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (end(&seen).0.as_str(), figures(&seen)),
        ("running", (1, 0, 3 * MIB))
    );
    assert!(
        seen["notes"][0]
            .as_str()
            .expect("a note")
            .starts_with(&note),
        "{}",
        seen["notes"]
    );
    live.signal("CONT");
    assert_eq!(figures(&asked(live.pid())), (1, 0, 3 * MIB));
}

#[test]
fn a_process_whose_place_is_full_still_runs() {
    let mut live = Live::start_with(|command| {
        command.env("OOMHOOK_KEEP", "all");
        after("trap '' XFSZ; ulimit -f 64;", command);
    });
    let mut stderr = BufReader::new(live.child.stderr.take().expect("a pipe"));
    live.does("init");
    live.send("churn");
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    assert!(
        line.contains("File too large; the trace ends here, the totals go on"),
        "{line}"
    );
    live.send("handled");
    assert!(live.line().starts_with("churn "));
    assert_eq!(live.line(), "handled 0");
    let trace = live.trace();
    assert_eq!(end(&report(&trace)), ("running".into(), false));
    let output = snapshot(live.pid(), &["--json"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains("did not answer within 3.0 s"),
        "{}",
        text(&output.stderr)
    );
    live.signal("KILL");
    live.child.wait().expect("it ends");
    assert_eq!(end(&report(&trace)).0, "unfinished");
}

#[test]
fn a_process_that_dies_while_it_is_asked_is_reported_as_dead() {
    let mut live = Live::with(3, &[]);
    asked(live.pid());
    live.signal("STOP");
    let mut command = oomhook();
    command
        .args(["snapshot", "--json", &live.pid().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let asker = command.spawn().expect("it runs");
    let links = |pid: u32| {
        fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
    };
    let trace = live.trace();
    let has_it_open = |_: &Live| {
        links(asker.id()).any(|link| fs::read_link(link.path()).is_ok_and(|path| path == trace))
    };
    live.until("it is being asked", has_it_open);
    live.signal("KILL");
    live.child.wait().expect("it ends");
    let output = asker.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(
        (end(&seen), figures(&seen)),
        (("unfinished".into(), false), (1, 0, 3 * MIB))
    );
}

#[test]
fn a_process_in_another_pid_namespace_is_asked_by_the_number_it_has_here() {
    let probe = Command::new("unshare")
        .args(["-rp", "--fork", "--mount-proc", "true"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: unshare -rp --mount-proc is not permitted here");
    }
    let program = Bench::shared().build("on_demand.c", Route::Driver, &[]);
    let mut live = Live::start_with(|command| {
        let mut inside = Command::new("unshare");
        inside
            .args(["-rp", "--fork", "--mount-proc", "--"])
            .arg(&program);
        for (name, value) in command.get_envs() {
            inside.env(name, value.unwrap_or_default());
        }
        let folder = PathBuf::from(
            command
                .get_envs()
                .find(|(name, _)| *name == "OOMHOOK_OUTPUT")
                .and_then(|(_, value)| value)
                .expect("a path"),
        );
        let stderr = File::create(folder.with_file_name("stderr")).expect("a file");
        inside
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        *command = inside;
    });
    live.does("init");
    live.does("alloc 6");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", live.pid()))
        .expect("its children");
    let pid: u32 = children.trim().parse().expect("one child");
    assert_eq!(report(&live.trace())["process"]["pid"], 1);
    assert_eq!(figures(&asked(pid)), (1, 0, 6 * MIB));
    let trace = live.trace();
    let of_trace = oomhook()
        .arg("report")
        .arg(&trace)
        .output()
        .expect("it runs");
    assert!(
        text(&of_trace.stdout).ends_with(&format!("next: oomhook snapshot {pid}\n")),
        "{}",
        text(&of_trace.stdout)
    );
    kill(pid, "KILL");
    live.until("it is gone", |_| {
        !Path::new(&format!("/proc/{pid}")).exists()
    });
    assert_eq!(end(&report(&trace)), ("unfinished".into(), false));
}
