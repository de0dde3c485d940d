//! Programs that do what is allowed at a bad moment: they end as they would have ended alone, and the trace holds what
//! they did.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use support::{Bench, MIB, Ran, Route, Run, report, traces_in};

const GIB: u64 = 1 << 30;

/// A program that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn program() -> PathBuf {
    Bench::shared().build("hostile.c", Route::Shared, &[])
}

fn driver_program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("hostile_driver.c", Route::Driver, &[&simulator])
}

fn drain(stream: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            stream.read_to_end(&mut bytes).expect("a pipe can be read");
        }
        bytes
    })
}

/// Runs a command to its end, which must come in time. `stderr` may be something else than a pipe that is read.
#[track_caller]
fn bounded_with(command: &mut Command, stderr: Stdio) -> Output {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr);
    let mut child: Child = command.spawn().expect("the program starts");
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill().expect("it can be killed");
            child.wait().expect("it is ours");
            let errors = stderr.join().expect("its errors");
            panic!("{command:?} hangs\n{}", String::from_utf8_lossy(&errors));
        }
        thread::sleep(Duration::from_millis(2));
    };
    Output {
        status,
        stdout: stdout.join().expect("its output"),
        stderr: stderr.join().expect("its errors"),
    }
}

#[track_caller]
fn bounded(command: &mut Command) -> Output {
    bounded_with(command, Stdio::piped())
}

/// The only trace in the folder, with the end of the run that made it.
#[track_caller]
fn only_trace(output: Output, folder: &Path) -> Ran {
    let mut traces = traces_in(folder);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(traces.len(), 1, "one trace: {traces:?}\n{errors}");
    let trace = traces.remove(0);
    let report = report(&trace);
    Ran {
        output,
        trace,
        report,
    }
}

#[track_caller]
fn finish(mut run: Run) -> Ran {
    let output = bounded(&mut run.command);
    only_trace(output, &run.folder)
}

/// About to run under the library with the report at the end, in the folder of its traces.
fn reporting(program: &Path, arguments: &[&str]) -> Run {
    let mut run = Bench::shared().start(program, arguments);
    run.command
        .env_remove("OOMHOOK_REPORT")
        .current_dir(&run.folder);
    run
}

#[track_caller]
fn alone(program: &Path, arguments: &[&str]) -> Output {
    let bench = Bench::shared();
    let mut command = bench.plain(program, arguments);
    bounded(command.current_dir(bench.new_folder()))
}

/// Runs a program without and with the library: it must end with this code and print this each time.
#[track_caller]
fn both_say(program: &Path, part: &str, code: i32, stdout: &str) -> Ran {
    let alone = alone(program, &[part]);
    let ran = finish(reporting(program, &[part]));
    for (who, output) in [("alone", &alone), ("watched", &ran.output)] {
        let found = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*found),
            (Some(code), stdout),
            "{part}, {who}: {}\n{errors}",
            output.status
        );
    }
    ran
}

#[track_caller]
fn is_complete(ran: &Ran, code: u64) {
    let (complete, end) = (&ran.report["complete"], &ran.report["process"]["end"]);
    assert_eq!((complete, end), (&true.into(), &"exit".into()));
    ran.is("/process/exit_code", code);
}

/// The report on stderr came once.
#[track_caller]
fn reports_once(ran: &Ran) {
    let errors = ran.stderr();
    assert_eq!(errors.matches("Live at exit").count(), 1, "{errors}");
}

// --- threads ---

#[test]
fn main_may_end_before_its_threads() {
    for (part, code) in [
        ("main ends first", 0),
        ("main ends first and the worker exits", 6),
    ] {
        let ran = both_say(&program(), part, code, "main ends, the worker ends");
        is_complete(&ran, code as u64);
        reports_once(&ran);
        ran.is("/totals/allocs", 2)
            .is("/devices/0/live_bytes", 3 * MIB);
        ran.leaks_are(&[("take", 2 * MIB, 1), ("take", MIB, 1)]);
    }
}

#[test]
fn a_constructor_may_wait_for_a_thread_that_takes_memory() {
    let bench = Bench::shared();
    bench.library("joins.c", "libjoins.so", &[bench.shared_runtime()], &[]);
    let ran = both_say(&program(), "constructor waits", 0, "loaded\n");
    is_complete(&ran, 0);
    ran.is("/totals/allocs", 2).is("/totals/failed_allocs", 1);
    ran.leaks_are(&[("take_in_constructor", 4 * MIB, 1), ("take", MIB, 1)]);
}

#[test]
fn the_first_memory_of_all_may_come_in_a_constructor_that_waits_for_it() {
    let bench = Bench::shared();
    let flags = ["-DDRIVER"];
    bench.library(
        "joins.c",
        "libjoins_driver.so",
        &[bench.simulator()],
        &flags,
    );
    let ran = both_say(&driver_program(), "constructor waits", 0, "loaded\n");
    is_complete(&ran, 0);
    ran.is("/totals/allocs", 1).is("/totals/failed_allocs", 1);
    ran.leaks_are(&[("take_in_constructor", 4 * MIB, 1)]);
}

#[test]
fn a_pending_cancellation_waits_for_the_program() {
    let ran = both_say(&program(), "cancelled at first", 4, "0 cancelled\n");
    is_complete(&ran, 4);
    ran.is("/totals/allocs", 2)
        .is("/devices/0/live_bytes", 3 * MIB);

    let ran = both_say(&program(), "cancelled out of memory", 4, "2 cancelled\n");
    is_complete(&ran, 4);
    ran.is("/totals/allocs", 2)
        .is("/totals/failed_allocs", 1)
        .is("/oom/0/requested_bytes", 1024 * GIB)
        .is("/devices/0/live_bytes", 3 * MIB);

    let ran = both_say(&program(), "cancelled in reports", 4, "0\n");
    is_complete(&ran, 4);
    ran.is("/devices/0/tensors/allocs", 8000);
}

// --- output and descriptors ---

#[test]
fn nobody_may_listen_to_stderr() {
    let deaf = || {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let bench = Bench::shared();
    let alone = bounded_with(&mut bench.plain(&program(), &["prints"]), deaf());
    let mut run = reporting(&program(), &["prints"]);
    let ran = only_trace(bounded_with(&mut run.command, deaf()), &run.folder);
    assert_eq!(alone.status.code(), Some(7));
    let wanted: String = (0..5000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&alone.stdout), wanted);
    assert_eq!(
        (ran.output.status, &ran.output.stdout),
        (alone.status, &alone.stdout)
    );
    is_complete(&ran, 7);
    ran.is("/totals/allocs", 1).is("/devices/0/live_bytes", MIB);
}

#[test]
fn a_file_with_the_number_of_stderr_is_the_programs() {
    for (part, allocs) in [("number of stderr", 1), ("number of stderr later", 2)] {
        let run = reporting(&program(), &[part]);
        let folder = run.folder.clone();
        let ran = finish(run);
        ran.says(0, "");
        is_complete(&ran, 0);
        ran.is("/totals/allocs", allocs);
        let own = fs::read(folder.join("own")).expect("the program's file");
        assert_eq!(String::from_utf8_lossy(&own), "mine", "{part}");
    }
}

/// Makes the command one that starts without a stderr.
fn without_stderr(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "exec \"$0\" \"$@\" 2>&-"])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

#[test]
fn a_closed_stderr_stays_closed() {
    let alone = bounded(&mut without_stderr(
        &Bench::shared().plain(&program(), &["words for nobody"]),
    ));
    let run = reporting(&program(), &["words for nobody"]);
    let ran = only_trace(bounded(&mut without_stderr(&run.command)), &run.folder);
    ran.says(0, "closed\n");
    assert_eq!(ran.output, alone);
    is_complete(&ran, 0);
    assert_eq!(ran.report["damaged"], false);
    ran.is("/totals/allocs", 1).is("/devices/0/live_bytes", MIB);

    let run = reporting(&program(), &["number of stderr"]);
    let ran = only_trace(bounded(&mut without_stderr(&run.command)), &run.folder);
    ran.says(0, "").is("/totals/allocs", 1);
    is_complete(&ran, 0);
    let own = fs::read(run.folder.join("own")).expect("the program's file");
    assert_eq!(String::from_utf8_lossy(&own), "mine");
}

#[test]
fn numbers_of_closed_files_are_the_programs() {
    for _ in 0..5 {
        let run = reporting(&program(), &["closes everything at once"]);
        let folder = run.folder.clone();
        let ran = finish(run);
        ran.says(0, "");
        is_complete(&ran, 0);
        for number in 0..8 {
            let own = fs::read(folder.join(format!("own.{number}"))).expect("the program's file");
            assert_eq!(String::from_utf8_lossy(&own), "mine", "own.{number}");
        }
        ran.is("/totals/allocs", 102)
            .is("/totals/frees", 100)
            .is("/devices/0/live_bytes", 3 * MIB);
    }
}

// --- what changes right after the first call ---

#[test]
fn the_environment_may_grow_at_once() {
    for _ in 0..20 {
        let ran = finish(reporting(&program(), &["grows the environment"]));
        ran.says(0, "");
        is_complete(&ran, 0);
        ran.is("/totals/allocs", 1).is("/devices/0/live_bytes", MIB);
    }
}

#[test]
fn the_trace_is_where_the_program_started() {
    let mut run = reporting(&program(), &["goes elsewhere"]);
    fs::create_dir(run.folder.join("elsewhere")).expect("a folder");
    run.command
        .env("OOMHOOK_OUTPUT", "%c.%p.trace")
        .env("OOMHOOK_REPORT", "report.txt");
    let folder = run.folder.clone();
    let ran = finish(run);
    ran.says(0, "");
    is_complete(&ran, 0);
    let report = fs::read_to_string(folder.join("report.txt")).expect("the report");
    assert!(report.contains("Live at exit  3.0 MiB"), "{report}");
    ran.is("/totals/allocs", 2)
        .is("/devices/0/live_bytes", 3 * MIB);
    let elsewhere: Vec<_> = fs::read_dir(folder.join("elsewhere"))
        .expect("the folder")
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
}

// --- ends ---

/// The program ends as it would without us, and the trace says what there was. Once in a hundred times the signal comes while
/// an event is being handed over: the writer waits for the rest of it in vain, which is said after a few seconds.
#[test]
fn exit_may_come_in_the_middle_of_a_call() {
    let mut cut = 0;
    for turn in 0..20 {
        let delay = (5000 + 1371 * turn).to_string();
        let ran = finish(reporting(&program(), &["exits in a handler", &delay]));
        ran.says(0, "");
        if ran.stderr().contains("the writer did not finish in time") {
            cut += 1;
            continue;
        }
        is_complete(&ran, 0);
        reports_once(&ran);
        let total = |key: &str| ran.report["totals"][key].as_u64().expect("a number");
        let (allocs, frees) = (total("allocs"), total("frees"));
        assert!((1..=2).contains(&(allocs - frees)), "{allocs} {frees}");
        let live = MIB + 4096 * (allocs - frees - 1);
        ran.is("/devices/0/live_bytes", live);
    }
    assert!(cut < 5, "{cut} of 20 traces end early");
}

#[test]
fn a_child_that_no_handler_saw_has_nothing_to_say() {
    for part in ["forks past the handlers", "forks by system call"] {
        let ran = both_say(&program(), part, 0, "5 soon\n");
        is_complete(&ran, 0);
        reports_once(&ran);
        ran.is("/totals/allocs", 2)
            .is("/devices/0/live_bytes", 3 * MIB);
    }
}

// --- failures ---

#[test]
fn what_the_loader_had_to_say_is_still_there() {
    let words = |program: &Path| {
        let path = program.display();
        format!("{path}: undefined symbol: no_such_function\n")
    };
    let ran = both_say(&program(), "pending error", 0, &words(&program()));
    is_complete(&ran, 0);
    ran.is("/totals/allocs", 2)
        .is("/host/spaces/pinned/live_bytes", 2 * MIB);

    let program = driver_program();
    let ran = both_say(&program, "pending error", 0, &words(&program));
    is_complete(&ran, 0);
    ran.is("/totals/allocs", 1).is("/devices/0/live_bytes", MIB);
}

#[test]
fn every_failure_is_counted() {
    let ran = both_say(&program(), "fails again and again", 0, "done\n");
    is_complete(&ran, 0);
    ran.is("/totals/allocs", 1)
        .is("/totals/failed_allocs", 10_000);
    let groups = ran.report["oom"].as_array().expect("groups");
    let attempts = groups
        .iter()
        .map(|group| group["attempts"].as_u64().expect("a number"));
    assert_eq!(attempts.sum::<u64>(), 10_000);
    for group in groups {
        assert_eq!(group["requested_bytes"], 1024 * GIB);
    }
}

#[test]
fn libraries_that_come_and_go_keep_what_they_took_apart() {
    let bench = Bench::shared();
    for (name, flag) in [
        ("libodd.so", "-DNAME(f)=odd_##f"),
        ("libeven.so", "-DNAME(f)=even_##f"),
    ] {
        bench.library("plugin.c", name, &[bench.shared_runtime()], &[flag]);
    }
    let ran = finish(reporting(&program(), &["plugins"]));
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    is_complete(&ran, 0);
    let printed = String::from_utf8_lossy(&ran.output.stdout).into_owned();
    let count: u64 = printed.trim().parse().expect("a number");
    ran.is("/totals/allocs", 300 + count)
        .is("/totals/frees", count);
    // Each load is a row of its own.
    let mut found: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        let text = |key: &str| leak[key].as_str().expect("text").to_owned();
        let number = |key: &str| leak[key].as_u64().expect("a number");
        let sum = found.entry((text("library"), text("site"))).or_default();
        *sum = (sum.0 + number("bytes"), sum.1 + number("blocks"));
    }
    let row =
        |library: &str, site: &str, size: u64| ((library.into(), site.into()), (150 * size, 150));
    let wanted = BTreeMap::from([
        row("libeven.so", "even_allocate", 16384),
        row("libodd.so", "odd_allocate", 12288),
    ]);
    assert_eq!(found, wanted);
    // Nor is any frame below it anybody else's.
    let leaks = ran.report["leaks"].to_string();
    assert!(!leaks.contains("unknown"), "{leaks}");
}

// --- no room ---

#[test]
fn a_recording_that_finds_no_room_is_one_line() {
    let program = program();
    let alone = alone(&program, &["no room at first"]);
    let mut run = reporting(&program, &["no room at first"]);
    let output = bounded(&mut run.command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(alone.status.code(), Some(3), "{alone:?}");
    assert_eq!(
        (output.status, &output.stdout),
        (alone.status, &alone.stdout),
        "{errors}"
    );
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("oomhook: ") && errors.contains("memory"),
        "{errors}"
    );
    assert_eq!(traces_in(&run.folder), [] as [PathBuf; 0]);
}
