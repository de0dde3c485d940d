//! A program that is told what to do line by line, and what others ask of it meanwhile.
#![allow(dead_code, reason = "each test file uses a part of it")]

use super::{Bench, Route, oomhook, traces_in};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program that does what it is told, line by line.
pub struct Live {
    pub child: Child,
    pub orders: Option<ChildStdin>,
    pub answers: BufReader<ChildStdout>,
    pub folder: PathBuf,
}

impl Live {
    pub fn start(settings: &[(&str, &str)]) -> Live {
        Live::start_with(|command| {
            command.envs(settings.iter().copied());
        })
    }

    pub fn start_with(change: impl FnOnce(&mut Command)) -> Live {
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
    pub fn with(mebibytes: u32, settings: &[(&str, &str)]) -> Live {
        let mut live = Live::start(settings);
        live.does("init");
        live.does(&format!("alloc {mebibytes}"));
        live
    }

    pub fn send(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("it is being told");
        writeln!(orders, "{order}").expect("it listens");
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it speaks");
        line.trim_end().to_owned()
    }

    /// Gives an order; the number in the answer.
    #[track_caller]
    pub fn does(&mut self, order: &str) -> u32 {
        self.send(order);
        let line = self.line();
        let word = order.split(' ').next().expect("a word");
        let answer = line.strip_prefix(&format!("{word} "));
        let answer = answer.unwrap_or_else(|| panic!("{order}: {line:?}\n{}", self.stderr()));
        answer.parse().expect("a number")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn trace(&self) -> PathBuf {
        let traces = traces_in(&self.folder);
        assert_eq!(traces.len(), 1, "{traces:?}\n{}", self.stderr());
        traces[0].clone()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.folder.join("stderr")).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        kill(self.pid(), name);
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn(&Live) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    pub fn until_stderr_has(&self, text: &str) {
        self.until(text, |live| live.stderr().contains(text));
    }

    /// Lets it come to its end.
    pub fn ends(mut self) -> (Option<i32>, PathBuf) {
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
pub fn kill(pid: u32, name: &str) {
    let status = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .status()
        .expect("kill");
    assert!(status.success());
}

pub fn snapshot(pid: impl ToString, options: &[&str]) -> Output {
    let mut command = oomhook();
    command.arg("snapshot").arg(pid.to_string()).args(options);
    command.output().expect("oomhook runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The report of a running process, as JSON.
#[track_caller]
pub fn asked(pid: u32) -> Value {
    let output = snapshot(pid, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(end(&report), ("running".into(), false));
    report
}

/// What is said instead of a report.
#[track_caller]
pub fn refused(pid: impl ToString, code: i32) -> String {
    let output = snapshot(pid, &[]);
    let said = text(&output.stderr);
    assert_eq!(
        (output.status.code(), &*text(&output.stdout)),
        (Some(code), ""),
        "{said}"
    );
    said
}

pub fn end(report: &Value) -> (String, bool) {
    let end = report["process"]["end"]
        .as_str()
        .expect("an end")
        .to_owned();
    (end, report["complete"].as_bool().expect("a word"))
}

/// Allocations, frees, live bytes.
pub fn figures(report: &Value) -> (u64, u64, u64) {
    let number = |pointer| report.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    (
        number("/totals/allocs"),
        number("/totals/frees"),
        number("/devices/0/live_bytes"),
    )
}

/// The same program, started by a shell that does this before.
pub fn after(shell: &str, command: &mut Command) {
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
