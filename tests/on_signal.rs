//! A signal asks a process for a report while it goes on.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use support::live::{Live, after, asked, end, figures, refused};
use support::{Bench, MIB, report, traces_in};

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
    live.until("a report all the same", |live| {
        !headlines(&live.stderr()).is_empty()
    });
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
