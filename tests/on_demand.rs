//! A process is asked while it goes on: by `oomhook snapshot`, and by a signal.

mod support;

use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Bench, MIB, Route, oomhook, report, traces_in};

/// A program that does what it is told, line by line.
struct Live {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: PathBuf,
}

impl Live {
    fn start(settings: &[(&str, &str)]) -> Live {
        Live::start_with(|command| {
            command.envs(settings.iter().copied());
        })
    }

    fn start_with(change: impl FnOnce(&mut Command)) -> Live {
        let bench = Bench::shared();
        let program = bench.build("on_demand.c", Route::Driver, &[]);
        let mut run = bench.start(&program, &[]);
        let stderr = File::create(run.folder.join("stderr")).expect("a file");
        run.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        change(&mut run.command);
        let mut child = run.command.spawn().expect("the program runs");
        Live {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().expect("a pipe")),
            folder: run.folder,
            child,
        }
    }

    /// Recording has begun, and one allocation of so many MiB lives.
    fn with(mebibytes: u32, settings: &[(&str, &str)]) -> Live {
        let mut live = Live::start(settings);
        live.does("init");
        live.does(&format!("alloc {mebibytes}"));
        live
    }

    fn send(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it is being told");
        writeln!(orders, "{order}").expect("it listens");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it speaks");
        line.trim_end().to_owned()
    }

    /// Gives an order; the number in the answer.
    #[track_caller]
    fn does(&mut self, order: &str) -> u32 {
        self.send(order);
        let line = self.line();
        let word = order.split(' ').next().expect("a word");
        let answer = line.strip_prefix(&format!("{word} "));
        let answer = answer.unwrap_or_else(|| panic!("{order}: {line:?}\n{}", self.stderr()));
        answer.parse().expect("a number")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn trace(&self) -> PathBuf {
        let traces = traces_in(&self.folder);
        assert_eq!(traces.len(), 1, "{traces:?}\n{}", self.stderr());
        traces[0].clone()
    }

    fn stderr(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    fn signal(&self, name: &str) {
        kill(self.pid(), name);
    }

    /// Waits until something is so.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Live) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    fn until_stderr_has(&self, text: &str) {
        self.until(text, |live| live.stderr().contains(text));
    }

    /// Lets it come to its end.
    fn ends(mut self) -> (Option<i32>, PathBuf) {
        self.orders = None;
        let status = self.child.wait().expect("it ends");
        (status.code(), self.folder.clone())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn kill(pid: u32, name: &str) {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .status()
        .expect("kill");
    assert!(status.success());
}

fn snapshot(pid: impl ToString, options: &[&str]) -> Output {
    let mut command = oomhook();
    command.arg("snapshot").arg(pid.to_string()).args(options);
    command.output().expect("oomhook runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The report of a running process, as JSON.
#[track_caller]
fn asked(pid: u32) -> Value {
    let output = snapshot(pid, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(end(&report), ("running".into(), false));
    report
}

/// What is said instead of a report.
#[track_caller]
fn refused(pid: impl ToString, code: i32) -> String {
    let output = snapshot(pid, &[]);
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), &*text(&output.stdout)),
        (Some(code), ""),
        "{said}"
    );
    said
}

fn end(report: &Value) -> (String, bool) {
    let end = report["process"]["end"]
        .as_str()
        .expect("an end")
        .to_owned();
    (end, report["complete"].as_bool().expect("a word"))
}

/// Allocations, frees, live bytes.
fn figures(report: &Value) -> (u64, u64, u64) {
    let number = |pointer| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    (
        number("/totals/allocs"),
        number("/totals/frees"),
        number("/devices/0/live_bytes"),
    )
}

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
    assert_eq!(end(&report(&first)), ("unfinished".into(), false));
    refused(live.pid(), 3);
    live.does("init");
    live.does("alloc 5");
    assert_eq!(figures(&asked(live.pid())), (1, 0, 5 * MIB));
    assert_eq!(end(&report(&first)), ("unfinished".into(), false));
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

/// The same program, started by a shell that does this before.
fn after(shell: &str, command: &mut Command) {
    let program = command.get_program().to_owned();
    let mut changed = Command::new("sh");
    changed
        .arg("-c")
        .arg(format!("{shell} exec \"$0\""))
        .arg(program);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => changed.env(name, value),
            None => changed.env_remove(name),
        };
    }
    changed
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    *command = changed;
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

const USR2: (&str, &str) = ("OOMHOOK_SIGNAL", "USR2");
const ON_STDERR: (&str, &str) = ("OOMHOOK_REPORT", "stderr");

/// First lines of the reports in a text.
fn headlines(text: &str) -> Vec<&str> {
    let all = text.lines();
    all.filter(|line| line.starts_with("oomhook: still running"))
        .collect()
}

#[test]
fn a_signal_brings_a_report_and_the_process_goes_on() {
    let mut live = Live::with(3, &[USR2, ON_STDERR]);
    live.signal("USR2");
    let first = "oomhook: still running, 3.0 MiB live in 1 block; peak 3.0 MiB on GPU 0";
    live.until("a whole report", |live| live.stderr().contains("\nnext: "));
    let said = live.stderr();
    assert_eq!(headlines(&said), [first], "{said}");
    assert!(said.starts_with(first), "{said}");
    assert!(
        said.ends_with(&format!("\nnext: oomhook snapshot {}\n", live.pid())),
        "{said}"
    );
    assert!(
        said.contains("take at on_demand.c:") || said.contains("on_demand.c:"),
        "{said}"
    );
    // The file is up to date as well.
    let trace = live.trace();
    live.until("the trace", |_| figures(&report(&trace)) == (1, 0, 3 * MIB));
    live.does("alloc 4");
    live.does("raise 1");
    live.until("a second report", |live| {
        headlines(&live.stderr()).len() == 2
    });
    let said = live.stderr();
    assert_eq!(
        headlines(&said)[1],
        "oomhook: still running, 7.0 MiB live in 2 blocks; peak 7.0 MiB on GPU 0"
    );
    let (code, folder) = live.ends();
    assert_eq!(code, Some(0));
    let said = fs::read_to_string(folder.join("stderr")).expect("words");
    assert_eq!(
        said.matches("oomhook: leak: 7.0 MiB in 2 blocks").count(),
        1,
        "{said}"
    );
    assert_eq!(end(&report(&traces_in(&folder)[0])), ("exit".into(), true));
}

#[test]
fn a_burst_is_answered_by_whole_reports_and_the_last_one_knows_all() {
    let mut live = Live::with(1, &[USR2, ON_STDERR]);
    live.does("many 100");
    let last = "oomhook: still running, 101.0 MiB live in 101 blocks; peak 101.0 MiB on GPU 0";
    live.until_stderr_has(last);
    live.until("it is whole", |live| {
        live.stderr()
            .ends_with(&format!("snapshot {}\n", live.pid()))
    });
    let said = live.stderr();
    let made = headlines(&said).len();
    assert!((1..=100).contains(&made), "{made}");
    assert_eq!(said.matches("\nnext: oomhook snapshot ").count(), made);
    // None follows: each signal has been answered.
    live.does("raise 1");
    live.until("one more", |live| {
        headlines(&live.stderr()).len() == made + 1
    });
    assert_eq!(live.ends().0, Some(0));
}

#[test]
fn a_handler_that_was_there_before_runs_as_well() {
    for handler in ["plain", "told"] {
        let mut live = Live::start(&[USR2, ON_STDERR]);
        live.does(handler);
        live.does("init");
        live.does("alloc 2");
        live.does("raise 1");
        assert_eq!(live.does("handled"), 1);
        live.until("a report", |live| headlines(&live.stderr()).len() == 1);
        // A read that the program blocks in is not interrupted: the next line is the answer to the next order.
        live.signal("USR2");
        live.until("a report", |live| headlines(&live.stderr()).len() == 2);
        assert_eq!(live.does("handled"), 2);
    }
}

#[test]
fn a_program_that_wants_to_be_interrupted_still_is() {
    let mut live = Live::start(&[USR2, ON_STDERR]);
    live.does("interrupting");
    live.does("init");
    live.signal("USR2");
    assert_eq!(live.line(), "interrupted");
    live.until_stderr_has("oomhook: no CUDA memory was allocated so far");
    assert_eq!(live.does("handled"), 1);
}

#[test]
fn a_signal_that_was_ignored_brings_a_report() {
    let mut live = Live::start(&[USR2, ON_STDERR]);
    live.does("ignore");
    live.does("init");
    live.does("alloc 2");
    live.does("raise 1");
    live.until("a report", |live| headlines(&live.stderr()).len() == 1);
    // To a child it is ignored as before.
    assert_eq!(live.does("child"), 0);
}

#[test]
fn what_the_program_installs_later_is_in_force() {
    let mut live = Live::with(2, &[USR2, ON_STDERR]);
    live.does("plain");
    live.does("raise 3");
    assert_eq!(live.does("handled"), 3);
    assert_eq!(figures(&asked(live.pid())), (1, 0, 2 * MIB));
    assert_eq!(live.ends().0, Some(0));
}

#[test]
fn to_a_child_the_signal_means_what_it_meant() {
    let mut live = Live::with(2, &[USR2, ON_STDERR]);
    assert_eq!(live.does("child"), 12);
    assert_eq!(live.stderr(), "");
    // Before the first CUDA call nothing of ours is there.
    let mut live = Live::start(&[USR2]);
    live.does("handled");
    live.signal("USR2");
    assert_eq!(live.child.wait().expect("it ends").signal(), Some(12));
}

#[test]
fn a_report_goes_to_new_files() {
    let folder = Bench::shared().new_folder();
    let path = folder.join("now.%p.txt");
    let mut live = Live::with(2, &[USR2, ("OOMHOOK_REPORT", path.to_str().expect("text"))]);
    for number in 0..3 {
        live.does("alloc 1");
        live.does("raise 1");
        let name = match number {
            0 => format!("now.{}.txt", live.pid()),
            _ => format!("now.{}.txt.{number}", live.pid()),
        };
        let text_of = |_: &Live| fs::read_to_string(folder.join(&name)).unwrap_or_default();
        live.until("a report", |live| text_of(live).contains("\nnext: "));
        let size = 3 + number;
        let start = format!(
            "oomhook: still running, {size}.0 MiB live in {} blocks;",
            2 + number
        );
        assert!(text_of(&live).starts_with(&start), "{}", text_of(&live));
    }
    assert_eq!(live.stderr(), "");
}

#[test]
fn a_report_that_is_off_brings_the_trace_up_to_date() {
    // A segment's checkpoint is written by nobody but who is asked: without it there is nothing in the file.
    let mut live = Live::with(2, &[USR2, ("OOMHOOK_KEEP", "summary")]);
    let trace = live.trace();
    assert_eq!(figures(&report(&trace)), (0, 0, 0));
    live.does("raise 1");
    live.until("the state", |_| figures(&report(&trace)) == (1, 0, 2 * MIB));
    assert_eq!(live.stderr(), "");
}

#[test]
fn without_a_file_the_signal_still_brings_a_report() {
    let mut live = Live::with(2, &[USR2, ON_STDERR, ("OOMHOOK_KEEP", "none")]);
    let said = refused(live.pid(), 2);
    assert!(
        said.ends_with(&format!(
            "ask it by its signal: kill -USR2 {}\n",
            live.pid()
        )),
        "{said}"
    );
    live.does("raise 1");
    live.until("a report", |live| headlines(&live.stderr()).len() == 1);
    assert_eq!(live.ends().0, Some(0));
}

#[test]
fn a_report_that_cannot_be_written_is_one_line() {
    let folder = Bench::shared().new_folder();
    let path = folder.join("no/such/folder/report.txt");
    let path = path.to_str().expect("text");
    let mut live = Live::with(2, &[USR2, ("OOMHOOK_REPORT", path)]);
    live.does("raise 1");
    live.until("a line", |live| live.stderr().ends_with('\n'));
    assert_eq!(
        live.stderr(),
        format!(
            "oomhook: cannot write the report to {path}: No such file or directory (os error 2); the program goes on (set OOMHOOK_REPORT)\n"
        )
    );
    assert_eq!(live.does("handled"), 0);
    // A place that is full: no file may have a byte.
    let folder = Bench::shared().new_folder();
    let path = folder.join("report.txt");
    let mut live = Live::start_with(|command| {
        command
            .env("OOMHOOK_SIGNAL", "USR2")
            .env("OOMHOOK_REPORT", &path)
            .env("OOMHOOK_KEEP", "none");
        after("trap '' XFSZ; ulimit -f 0;", command);
    });
    live.does("init");
    live.does("raise 1");
    let mut stderr = BufReader::new(live.child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    assert!(
        line.contains("cannot write the report to") && line.contains("File too large"),
        "{line}"
    );
    assert!(!path.exists());
    assert_eq!(live.does("handled"), 0);
}

#[test]
fn where_nobody_listens_the_program_goes_on() {
    let mut live = Live::start_with(|command| {
        command
            .env("OOMHOOK_SIGNAL", "USR2")
            .env("OOMHOOK_REPORT", "stderr");
        after("exec 2>&-;", command);
    });
    live.does("init");
    live.does("alloc 2");
    live.does("many 20");
    let trace = live.trace();
    assert_eq!(figures(&asked(live.pid())), (21, 0, 22 * MIB));
    assert_eq!(live.ends().0, Some(0));
    assert_eq!(end(&report(&trace)), ("exit".into(), true));
}

#[test]
fn a_signal_that_makes_no_sense_gives_one_line() {
    for name in ["FOO", "KILL", "SEGV", "0"] {
        let mut live = Live::start(&[("OOMHOOK_SIGNAL", name)]);
        live.does("plain");
        live.does("init");
        assert_eq!(
            live.stderr(),
            format!(
                "oomhook: OOMHOOK_SIGNAL={name} is no signal that can ask for a report (such as USR2); none is used\n"
            )
        );
        live.does("raise 1");
        assert_eq!(live.does("handled"), 1);
        assert_eq!(live.ends().0, Some(0));
    }
}
