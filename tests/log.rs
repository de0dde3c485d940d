//! The program's own lines are kept beside its memory, and come out as they went in: to pipes, files, by `write`, `writev` and
//! stdio, from threads, signal handlers and children.

mod support;

use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::PathBuf;
use support::{Bench, MIB, Ran, Route};

const GIB: u64 = 1 << 30;

fn program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build("log.c", Route::Driver, &[&simulator])
}

/// Runs a part, and compares what comes out with a run without the library.
#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    let bench = Bench::shared();
    let bare = bench.plain(&program(), &[part]).output().expect("it runs");
    let ran = bench.run(&program(), &[part], settings);
    assert_eq!(ran.output.status, bare.status, "{}", ran.stderr());
    assert!(ran.output.stdout == bare.stdout, "{}", ran.stderr());
    assert!(ran.output.stderr == bare.stderr, "{}", ran.stderr());
    ran
}

fn rows<'a>(ran: &'a Ran, what: &str) -> &'a Vec<Value> {
    ran.report["log"][what].as_array().expect("rows")
}

/// The lines of a stream.
fn lines<'a>(ran: &'a Ran, stream: &str) -> Vec<&'a str> {
    let of_stream = rows(ran, "lines")
        .iter()
        .filter(|line| line["stream"] == stream);
    of_stream
        .map(|line| line["text"].as_str().expect("text"))
        .collect()
}

#[test]
fn both_streams_are_heard_from_the_first_call_on() {
    let ran = run("streams", &[]);
    assert_eq!(
        lines(&ran, "stdout"),
        [
            "to stdout",
            "in parts",
            "and another",
            "step=7",
            "step=7",
            "step=7",
            "no end"
        ]
    );
    assert_eq!(lines(&ran, "stderr"), ["to stderr"]);
    let lines = rows(&ran, "lines");
    let of = |text: &str| {
        lines
            .iter()
            .find(|line| line["text"] == text)
            .expect("a line")
    };
    assert_eq!(of("to stdout")["live_bytes"], 10 * MIB);
    assert_eq!(of("in parts")["live_bytes"], 0);
    assert_eq!(of("to stdout")["allocated_bytes"], Value::Null);
    assert!(lines.iter().all(|line| line["late"] == false), "{lines:#?}");
    assert!(ran.report["oom"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn nothing_is_heard_where_it_is_not_wanted() {
    let ran = run("steps", &[("OOMHOOK_LOG", "off")]);
    assert_eq!(
        ran.report["log"],
        json!({"count": 0, "lines": [], "steps": [], "jumps": []})
    );
    assert_eq!(ran.report["oom"][0]["log"], json!([]));
}

#[test]
fn steps_are_a_table_and_a_jump_names_the_key_that_changed() {
    let report = Bench::shared().new_folder().join("report");
    let path = report.display().to_string();
    let ran = run("steps", &[("OOMHOOK_REPORT", &path)]);
    let steps = rows(&ran, "steps");
    assert_eq!(steps.len(), 12);
    assert_eq!(
        steps[0]["keys"],
        json!({"step": 1275, "loss": 2.35, "seq_len": 1024})
    );
    assert_eq!(
        (&steps[1]["live_bytes"], &steps[1]["peak_bytes"]),
        (&json!(GIB), &json!(2 * GIB))
    );
    let jumps = rows(&ran, "jumps");
    assert_eq!(jumps.len(), 1, "{jumps:#?}");
    assert_eq!(
        jumps[0]["keys"],
        json!([{"key": "seq_len", "before": "1024", "after": "2048"}])
    );
    let words =
        "peak rose from 2.0 GiB to 3.0 GiB where seq_len went 1024 \u{2192} 2048 (step 1282)";
    assert_eq!(jumps[0]["text"], words);
    let oom = &ran.report["oom"][0];
    let before = oom["log"].as_array().expect("lines");
    assert_eq!(before.len(), 8);
    assert_eq!(before[7]["text"], "step=1286 loss=2.33 seq_len=2048");
    assert_eq!(oom["jump"]["text"], words);
    let text = fs::read_to_string(report).expect("the report");
    // Once while the program waits for its error, and once at its end.
    for wanted in [
        "  said     step=1285 loss=2.33 seq_len=2048\n           step=1286",
        "jump     peak rose from 2.0 GiB to 3.0 GiB where seq_len went 1024 \u{2192} 2048",
    ] {
        assert_eq!(text.matches(wanted).count(), 2, "{text}");
    }
}

#[test]
fn a_line_that_tells_what_comes_names_the_step_that_failed() {
    let ran = run("announced", &[]);
    let jumps = rows(&ran, "jumps");
    assert_eq!(jumps.len(), 1, "{jumps:#?}");
    assert_eq!(
        jumps[0]["text"],
        "what was needed rose from 2.0 GiB to 17.0 GiB where batch_size went 1 \u{2192} 16 (step 7)"
    );
    assert_eq!(ran.report["oom"][0]["jump"]["out_of_memory"], true);
    assert_eq!(
        ran.report["oom"][0]["log"][7]["text"],
        "step 7: batch_size 16"
    );
}

#[test]
fn a_healthy_run_has_no_jumps() {
    let ran = run("healthy", &[]);
    assert_eq!(rows(&ran, "jumps"), &Vec::<Value>::new());
    assert_eq!(rows(&ran, "steps").len(), 200 + 4 + 6);
}

#[test]
fn of_progress_the_last_state_is_kept() {
    let ran = run("progress", &[]);
    assert_eq!(
        lines(&ran, "stderr"),
        ["100%|#####     | 1000/1000 [00:01<00:00]", "50%|bar"]
    );
    assert_eq!(lines(&ran, "stdout"), ["done"]);
}

#[test]
fn secrets_and_escapes_are_not_kept() {
    let ran = run("secrets", &[]);
    assert_eq!(
        lines(&ran, "stdout"),
        ["login token=*** for alice", "tokens=4096 tokens/s: 12.3k"]
    );
    assert_eq!(
        lines(&ran, "stderr"),
        ["using ***", "clone https://me:***@host/x"]
    );
}

#[test]
fn what_stdio_writes_into_a_file_is_found_there() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["stdio"]);
    let (out, err) = (run.folder.join("out"), run.folder.join("err"));
    run.command
        .env("OOMHOOK_REPORT", "stderr")
        .stdout(File::create(&out).expect("a file"))
        .stderr(File::create(&err).expect("a file"));
    let ran = run.finish();
    let text = fs::read_to_string(&out).expect("the output");
    assert_eq!(
        text,
        "early\nline 1\nline 2\nline 3\nline 4\nline 5\nby write\nafter\nnot flushed"
    );
    let errors = fs::read_to_string(&err).expect("the errors");
    assert!(
        errors.starts_with("by stdio\noomhook: out of memory"),
        "{errors}"
    );
    // The first one was in the buffer when the recording began.
    assert_eq!(
        lines(&ran, "stdout"),
        [
            "by write", "early", "line 1", "line 2", "line 3", "line 4", "line 5", "after"
        ]
    );
    assert_eq!(lines(&ran, "stderr"), ["by stdio"], "ours are not its");
    for line in rows(&ran, "lines") {
        let by_write = line["text"] == "by write";
        assert_eq!(line["late"], !by_write, "{line}");
        assert_eq!(line["live_bytes"].is_null(), !by_write, "{line}");
    }
    let before = ran.report["oom"][0]["log"].as_array().expect("lines");
    assert_eq!(before.len(), 8);
    assert!(errors.contains("said     (some time before) "), "{errors}");
}

#[test]
fn both_streams_may_be_one_file() {
    let bench = Bench::shared();
    let mut run = bench.start(&program(), &["streams"]);
    let path = run.folder.join("log");
    let file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .expect("a file");
    run.command
        .stdout(file.try_clone().expect("a file"))
        .stderr(file);
    let ran = run.finish();
    let text = fs::read_to_string(&path).expect("the output");
    assert!(
        text.starts_with("before\nto stdout\nto stderr\nin parts\n"),
        "{text}"
    );
    assert_eq!(ran.report["log"]["count"], 8, "{:#}", ran.report["log"]);
}

#[test]
fn in_a_pipe_stdio_goes_past() {
    let ran = run("stdio", &[]);
    assert_eq!(lines(&ran, "stdout"), ["by write"]);
}

#[test]
fn what_comes_out_of_a_buffer_is_late() {
    let ran = run("buffered", &[]);
    let lines = rows(&ran, "lines");
    let (before, last) = lines.split_at(lines.len() - 7);
    let all_late = before.iter().all(|line| {
        let text = line["text"].as_str().expect("text");
        line["late"] == true && text.starts_with("line number ")
    });
    assert!(all_late && before.len() > 40, "{before:#?}");
    let of = |late: bool| {
        let lines = last.iter().filter(|line| line["late"] == late);
        lines
            .map(|line| line["text"].as_str().expect("text"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(true), ["a", "bundle"]);
    assert_eq!(of(false), ["by itself", "two", "lines", "one", "and two"]);
}

#[test]
fn every_byte_comes_out_as_it_went_in() {
    run("bytes", &[]);
    run(
        "bytes",
        &[("OOMHOOK_KEEP", "none"), ("OOMHOOK_LOG", "on")][1..],
    );
}

#[test]
fn signal_handlers_may_write() {
    let bench = Bench::shared();
    let ran = bench.run(&program(), &["handler"], &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let said = ran.stderr().matches("from a handler\n").count() as u64;
    let between = String::from_utf8_lossy(&ran.output.stdout).lines().count() as u64;
    ran.is("/totals/allocs", 20 * between)
        .is("/log/count", said + between);
    assert!(said >= 200, "{said}");
}

#[test]
fn the_functions_answer_as_ever() {
    let ran = run("answers", &[]);
    // "ok" is the end of a line whose beginning was too much to be kept.
    assert_eq!(lines(&ran, "stdout"), ["back"]);
    assert_eq!(lines(&ran, "stderr"), ["closed"]);
}

#[test]
fn children_are_not_the_program() {
    let ran = run("children", &[]);
    assert_eq!(lines(&ran, "stdout"), ["parent"]);
}

#[test]
fn a_thread_may_be_cancelled_in_a_write() {
    let ran = run("cancelled", &[]);
    assert_eq!(
        lines(&ran, "stdout"),
        Vec::<&str>::new(),
        "zeros are no text"
    );
}

#[test]
fn a_shouting_program_is_not_held_up() {
    let bench = Bench::shared();
    let ran = bench.run(&program(), &["shouting"], &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    let text = String::from_utf8_lossy(&ran.output.stdout);
    assert_eq!(text.lines().count(), 20_001);
    assert_eq!(lines(&ran, "stdout").last(), Some(&"quiet"));
}

#[test]
fn streams_of_cpp_are_heard() {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    let program = bench.build("log_streams.cpp", Route::Driver, &[&simulator]);
    let ran = bench.run(&program, &[], &[]);
    let text =
        "before\nstep=1 loss=0.5\nin a buffer 0\nin a buffer 1\nin a buffer 2\nin a buffer 3\n";
    ran.says(0, text);
    assert_eq!(ran.stderr(), "warning: 7 things\n");
    assert_eq!(
        lines(&ran, "stdout").join("\n"),
        text["before\n".len()..].trim_end()
    );
    assert_eq!(lines(&ran, "stderr"), ["warning: 7 things"]);
    assert_eq!(
        rows(&ran, "steps")[0]["keys"],
        json!({"step": 1, "loss": 0.5})
    );
}

/// A script that allocates through ctypes.
fn python(script: &str, unbuffered: bool) -> Ran {
    let bench = Bench::shared();
    let lead = "import ctypes, os, sys\ncuda = ctypes.CDLL('libcuda.so.1')\n\
                def allocate(size):\n    block = ctypes.c_uint64()\n    return cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(size))\n\
                cuda.cuInit(0)\ncontext = ctypes.c_void_p()\ncuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n\
                cuda.cuCtxSetCurrent(context)\nallocate(1 << 20)\n";
    let script = format!("{lead}{script}");
    let arguments = ["-c", script.as_str()];
    let setting = if unbuffered { "1" } else { "" };
    let mut bare = bench.plain("python3".as_ref(), &arguments);
    let bare = bare.env("PYTHONUNBUFFERED", setting).output();
    let mut run = bench.start("python3".as_ref(), &arguments);
    run.command.env("PYTHONUNBUFFERED", setting);
    let ran = run.finish();
    assert_eq!(ran.output, bare.expect("python3"), "{}", ran.stderr());
    ran
}

#[test]
fn python_is_heard_buffered_or_not() {
    let script = "print('step', 1, 'loss', 0.5)\nprint('a\\nb')\nprint('to stderr', file=sys.stderr)\nallocate(1 << 40)\n\
                  sys.exit('CUDA out of memory')\n";
    let prompt = python(script, true);
    assert_eq!(lines(&prompt, "stdout"), ["step 1 loss 0.5", "a", "b"]);
    assert_eq!(
        lines(&prompt, "stderr"),
        ["to stderr", "CUDA out of memory"]
    );
    assert!(
        rows(&prompt, "lines")
            .iter()
            .all(|line| line["late"] == false)
    );
    assert_eq!(
        prompt.report["oom"][0]["log"].as_array().map(Vec::len),
        Some(4)
    );
    // In its own buffer until the end.
    let late = python(script, false);
    assert_eq!(lines(&late, "stdout"), ["step 1 loss 0.5", "a", "b"]);
    let of_stdout = rows(&late, "lines")
        .iter()
        .filter(|line| line["stream"] == "stdout");
    assert!(of_stdout.clone().all(|line| line["late"] == true));
    assert_eq!(late.report["oom"][0]["log"][0]["text"], "to stderr");
}

#[test]
fn a_wrapper_behind_us_is_reached_from_the_beginning_to_the_end() {
    let bench = Bench::shared();
    let wrapper = bench.library("write_wrapper.c", "libwrapper.so", &[], &[]);
    let ours = support::artefacts().library.display().to_string();
    for order in [
        format!("{ours}:{}", wrapper.display()),
        format!("{}:{ours}", wrapper.display()),
    ] {
        let mut run = bench.start(&program(), &["streams"]);
        run.command.env("LD_PRELOAD", order);
        let ran = run.finish();
        // All calls of the program are counted: one before, the others after the recording began.
        let text = String::from_utf8_lossy(&ran.output.stdout).into_owned();
        assert!(text.ends_with("no end[13 writes, 1 writev]\n"), "{text}");
        assert_eq!(
            lines(&ran, "stdout")[..3],
            ["to stdout", "in parts", "and another"]
        );
    }
}
