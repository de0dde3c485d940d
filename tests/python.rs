//! Python frames: recorded stacks equal what Python says of itself, on every CPython of this machine and those that
//! `OOMHOOK_TEST_PYTHONS` names (paths, separated by colons).

mod support;

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{Bench, Ran, Route, oomhook, root};

/// Oldest and newest minor version whose frames are read.
const KNOWN: std::ops::RangeInclusive<u32> = 8..=14;

/// An interpreter.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Python {
    program: PathBuf,
    minor: u32,
    /// The shared library, if there is one.
    library: Option<PathBuf>,
    is_free_threaded: bool,
}

fn programs() -> PathBuf {
    root().join("tests/programs/python")
}

fn ask(program: &Path) -> Option<Python> {
    let output = Command::new(program)
        .arg(programs().join("interpreters.py"))
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines();
    let program = PathBuf::from(lines.next()?);
    let minor = lines.next()?.strip_prefix("3.")?.parse().ok()?;
    let library = Some(PathBuf::from(lines.next()?)).filter(|path| !path.as_os_str().is_empty());
    Some(Python {
        program,
        minor,
        library,
        is_free_threaded: lines.next()? == "True",
    })
}

/// All that can be found.
fn all() -> &'static [Python] {
    static ALL: OnceLock<Vec<Python>> = OnceLock::new();
    ALL.get_or_init(|| {
        let named = std::env::var("OOMHOOK_TEST_PYTHONS").unwrap_or_default();
        let mut candidates: Vec<PathBuf> = std::env::split_paths(&named).collect();
        let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv"));
        for folder in pyenv.into_iter().chain(home) {
            let versions = std::fs::read_dir(folder.join("versions"));
            candidates.extend(
                versions
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|version| version.path().join("bin/python3")),
            );
        }
        for folder in std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()) {
            candidates.push(folder.join("python3"));
            candidates.extend(KNOWN.map(|minor| folder.join(format!("python3.{minor}"))));
        }
        candidates.retain(|path| path.exists() && !path.to_string_lossy().contains("/shims/"));
        let found: BTreeSet<Python> = candidates.iter().filter_map(|path| ask(path)).collect();
        for minor in KNOWN {
            if !found.iter().any(|python| python.is_known_as(minor)) {
                eprintln!("NOT RUN: CPython 3.{minor} (none on this machine)");
            }
        }
        assert!(!found.is_empty(), "these tests need a Python");
        found.into_iter().collect()
    })
}

impl Python {
    fn is_known_as(&self, minor: u32) -> bool {
        self.minor == minor && !self.is_free_threaded
    }

    fn is_known(&self) -> bool {
        KNOWN.contains(&self.minor) && !self.is_free_threaded
    }

    fn run(&self, script: &str, arguments: &[&str], settings: &[(&str, &str)]) -> Ran {
        let script = programs().join(script);
        let script = [script.to_str().expect("UTF-8")];
        let settings = [&[("PYTHONDONTWRITEBYTECODE", "1")], settings].concat();
        let ran = Bench::shared().run(&self.program, &[&script, arguments].concat(), &settings);
        assert!(ran.output.status.success(), "{self:?}\n{}", ran.stderr());
        assert_eq!(ran.report["complete"], true, "{self:?}");
        ran
    }
}

/// The interpreters whose frames are read.
fn known() -> impl Iterator<Item = &'static Python> {
    all().iter().filter(|python| python.is_known())
}

/// Sums blocks and bytes of stacks that look alike.
type Sums = BTreeMap<String, (u64, u64)>;

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// What the program itself said of its stacks.
fn witnessed(ran: &Ran) -> Sums {
    let said: Value = serde_json::from_slice(&ran.output.stdout).expect("the witness's JSON");
    let rows = said["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| (row[0].to_string(), (number(&row[1]), number(&row[2]))))
        .collect()
}

/// The Python frames of a stack, as the witness writes them.
fn python_frames(stack: &Value) -> Vec<Value> {
    let frames = stack.as_array().expect("a stack").iter();
    frames
        .filter(|frame| frame["language"] == "python")
        .map(|frame| {
            assert_eq!(frame["library"], "python");
            Value::from(vec![
                frame["file"].clone(),
                frame["line"].clone(),
                frame["function"].clone(),
            ])
        })
        .collect()
}

fn recorded(ran: &Ran) -> Sums {
    let mut sums = Sums::new();
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        let frames = Value::from(python_frames(&leak["stack"]));
        let sum = sums.entry(frames.to_string()).or_default();
        sum.0 += number(&leak["blocks"]);
        sum.1 += number(&leak["requested_bytes"]);
    }
    sums
}

#[track_caller]
fn equals_the_witness(python: &Python, ran: &Ran, stacks: usize) {
    let (witnessed, recorded) = (witnessed(ran), recorded(ran));
    for (stack, sum) in &witnessed {
        assert_eq!(recorded.get(stack), Some(sum), "{python:?}\n{stack}");
    }
    for (stack, sum) in &recorded {
        assert_eq!(witnessed.get(stack), Some(sum), "{python:?}\n{stack}");
    }
    assert_eq!(witnessed.len(), stacks, "{python:?}");
    assert_eq!(ran.report["notes"], Value::from(Vec::<Value>::new()));
}

/// The frames of the stack of the block of so many bytes.
fn stack_of(ran: &Ran, bytes: u64) -> Vec<Value> {
    let leaks = ran.report["leaks"].as_array().expect("leaks");
    let mut found = leaks
        .iter()
        .filter(|leak| number(&leak["requested_bytes"]) == bytes * number(&leak["blocks"]));
    let leak = found
        .next()
        .unwrap_or_else(|| panic!("{bytes}: {leaks:#?}"));
    leak["stack"].as_array().expect("a stack").clone()
}

fn names(frames: &[Value]) -> Vec<&str> {
    frames
        .iter()
        .map(|frame| frame["function"].as_str().unwrap_or_default())
        .collect()
}

#[test]
fn recorded_stacks_are_those_of_traceback() {
    let mut placed = 0;
    for python in known() {
        let ran = python.run("shapes.py", &[], &[]);
        equals_the_witness(python, &ran, 73);
        placed += frames_stand_by_their_evaluation(python, &ran);
        // By themselves they are the same.
        let ran = python.run("shapes.py", &[], &[("OOMHOOK_STACKS", "python")]);
        equals_the_witness(python, &ran, 73);
        let stack = stack_of(&ran, 1011);
        assert!(
            stack.iter().all(|frame| frame["language"] == "python"),
            "{stack:#?}"
        );
    }
    assert!(placed > 20, "{placed}");
}

/// In stacks that are kept to their end, each run of Python frames comes just before the evaluation that ran it. How many
/// stacks could be looked at: some builds of Python hide the evaluation's name.
fn frames_stand_by_their_evaluation(python: &Python, ran: &Ran) -> usize {
    let mut whole = 0;
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        let stack = leak["stack"].as_array().expect("a stack");
        let is_evaluation = |frame: &Value| {
            frame["function"]
                .as_str()
                .is_some_and(|name| name.starts_with("_PyEval_EvalFrameDefault"))
        };
        let names = || names(stack);
        let is_whole = names()
            .iter()
            .any(|name| name.starts_with("__libc_start_main"));
        if !is_whole || !stack.iter().any(is_evaluation) {
            continue;
        }
        whole += 1;
        let mut runs = 0;
        for pair in stack.windows(2) {
            if pair[0]["language"] != "python" || pair[1]["language"] == "python" {
                continue;
            }
            runs += 1;
            // Functions that were inlined into the evaluation share its address.
            let place = |frame: &Value| (frame["library"].clone(), frame["offset"].clone());
            let found = stack
                .iter()
                .any(|frame| is_evaluation(frame) && place(frame) == place(&pair[1]));
            assert!(found, "{python:?}\n{:#?}", names());
        }
        let evaluations = stack.iter().filter(|frame| is_evaluation(frame)).count();
        assert_eq!(runs, evaluations, "{python:?}\n{:#?}", names());
    }
    whole
}

#[test]
fn code_that_lies_where_other_code_lay_has_its_own_names_and_lines() {
    for python in known() {
        equals_the_witness(python, &python.run("reuse.py", &[], &[]), 129);
    }
}

#[test]
fn a_stack_that_repeats_and_then_differs_is_another_one() {
    for python in known() {
        for settings in [&[][..], &[("OOMHOOK_STACKS", "python")]] {
            equals_the_witness(python, &python.run("repeats.py", &[], settings), 70);
        }
    }
}

#[test]
fn greenlets_have_their_own_stacks() {
    let folder = std::env::var("OOMHOOK_TEST_GREENLET").unwrap_or_default();
    let mut has_run = false;
    for python in known() {
        let mut import = Command::new(&python.program);
        import
            .args(["-c", "import greenlet"])
            .env("PYTHONPATH", &folder);
        if !import.output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        has_run = true;
        let ran = python.run("shapes.py", &["greenlets"], &[("PYTHONPATH", &folder)]);
        equals_the_witness(python, &ran, 77);
    }
    if !has_run {
        eprintln!("NOT RUN: greenlet (OOMHOOK_TEST_GREENLET names a folder that has it)");
    }
}

#[test]
fn builds_that_are_not_known_have_native_stacks_and_one_note() {
    for python in all().iter().filter(|python| !python.is_known()) {
        let ran = python.run("shapes.py", &[], &[]);
        let notes = ran.report["notes"].as_array().expect("notes");
        assert_eq!(notes.len(), 1, "{notes:?}");
        for note in notes {
            let note = note.as_str().expect("a text");
            assert!(note.starts_with("no Python frames in stacks: "), "{note}");
        }
        for leak in ran.report["leaks"].as_array().expect("leaks") {
            assert!(python_frames(&leak["stack"]).is_empty());
            assert!(
                leak["stack"]
                    .as_array()
                    .is_some_and(|stack| stack.len() > 10)
            );
        }
    }
}

#[test]
fn what_only_looks_like_python_is_left_alone() {
    let bench = Bench::shared();
    let program = bench.build("false_python.c", Route::Driver, &["-rdynamic"]);
    let run = |what: &str| {
        let ran = bench.run(&program, &[what], &[]);
        ran.says(0, "").is("/totals/allocs", 2);
        for leak in ran.report["leaks"].as_array().expect("leaks") {
            assert!(names(leak["stack"].as_array().expect("a stack")).contains(&"take"));
        }
        let frames = python_frames(&ran.report["leaks"][0]["stack"]);
        (ran.report["notes"].clone(), frames)
    };
    let none = serde_json::json!([]);
    let sound = serde_json::json!(["sound", null, "sound"]);
    assert_eq!(run("sound"), (none.clone(), vec![sound.clone()]));
    assert_eq!(run("no thread"), (none.clone(), vec![]));
    // A chain without an end is cut.
    let (notes, frames) = run("a cycle");
    assert_eq!((notes, frames.len()), (none, 96 + 1 + 32));
    assert_eq!(frames[96][2], "... 99,872 Python frames left out ...");
    let unknown =
        "no Python frames in stacks: this build of CPython 3.11 keeps its frames in an unknown way";
    for what in [
        "no state",
        "no mark",
        "no frame",
        "no code",
        "other code",
        "no name",
        "odd name",
        "a kernel's name",
        "an endless name",
        "no lines",
        "endless lines",
        "noise",
    ] {
        assert_eq!(run(what), (serde_json::json!([unknown]), vec![]), "{what}");
    }
}

#[test]
fn a_thread_that_waits_with_the_gil_does_not_stop_one_that_allocates() {
    let bench = Bench::shared();
    let library = bench.library("python_lock.c", "libpython_lock.so", &[], &[]);
    for python in known() {
        let ran = python.run("deadlock.py", &[library.to_str().expect("UTF-8")], &[]);
        ran.says(0, "done\n").is("/totals/allocs", 1);
        let leak = &ran.report["leaks"][0];
        assert_eq!(leak["site"], "hold_and_allocate");
        assert_eq!(leak["library"], "libpython_lock.so");
        assert_eq!(leak["python_site"], "deadlock.py:15 holder");
        let functions = python_frames(&leak["stack"]);
        assert_eq!(functions[0][2], "holder", "{functions:?}");
        assert_eq!(functions[0][1], 15, "{functions:?}");
        // The text names both.
        let report = oomhook()
            .arg("report")
            .arg(&ran.trace)
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&report.stdout).into_owned();
        let row = " < deadlock.py:15 holder";
        assert!(
            text.lines().filter(|line| line.ends_with(row)).count() >= 2,
            "{text}"
        );
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= 80 || line.starts_with("next: ")),
            "{text}"
        );
    }
}

#[test]
fn the_end_of_python_is_an_ordinary_day() {
    let bench = Bench::shared();
    let library = bench.library("python_lock.c", "libpython_lock.so", &[], &[]);
    for python in known() {
        let ran = python.run("endings.py", &[library.to_str().expect("UTF-8")], &[]);
        let functions = |bytes| -> Vec<String> {
            let frames = python_frames(&Value::from(stack_of(&ran, bytes)));
            let names = frames
                .iter()
                .map(|frame| frame[2].as_str().expect("a name"));
            names.map(str::to_owned).collect()
        };
        assert_eq!(functions(1000), ["alloc", "at_exit"], "{python:?}");
        assert_eq!(functions(2000), ["alloc", "<module>"], "{python:?}");
        // Once its end has begun, Python's frames are left alone.
        assert_eq!(functions(3000), [""; 0], "{python:?}");
        assert_eq!(
            functions(8192),
            [""; 0],
            "a thread that Python does not know"
        );
        let foreign = stack_of(&ran, 8192);
        assert!(names(&foreign).contains(&"foreign"), "{foreign:#?}");
    }
}

#[test]
fn an_interpreter_may_come_late_and_begin_anew() {
    let bench = Bench::shared();
    let program = bench.build("embed.c", Route::Driver, &[]);
    let mut has_run = false;
    for python in known() {
        let Some(library) = &python.library else {
            continue;
        };
        has_run = true;
        let ran = bench.run(&program, &[library.to_str().expect("UTF-8")], &[]);
        assert!(ran.output.status.success(), "{python:?}\n{}", ran.stderr());
        ran.is("/totals/allocs", 8);
        let mut rounds = 0;
        for leak in ran.report["leaks"].as_array().expect("leaks") {
            let frames = python_frames(&leak["stack"]);
            match number(&leak["requested_bytes"]) / number(&leak["blocks"]) {
                4096 => {
                    let wanted = serde_json::json!([
                        ["<string>", 2, "embedded"],
                        ["<string>", 3, "<module>"]
                    ]);
                    assert_eq!(Value::from(frames), wanted, "{python:?}");
                    rounds += number(&leak["blocks"]);
                    assert_eq!(leak["python_site"], "<string>:2 embedded");
                }
                _ => assert!(frames.is_empty(), "{python:?} {frames:?}"),
            }
        }
        assert_eq!(rounds, 3, "{python:?}");
    }
    if !has_run {
        eprintln!("NOT RUN: embedding (no shared libpython on this machine)");
    }
}

#[test]
fn a_subinterpreter_shows_its_own_frames_or_those_of_its_host() {
    for python in known() {
        let ran = python.run("sub.py", &[], &[]);
        let frames = python_frames(&Value::from(stack_of(&ran, 5000)));
        let names: Vec<_> = frames.iter().map(|frame| frame[2].clone()).collect();
        // The state that a thread is known by is the main interpreter's before 3.12.
        let wanted = if python.minor < 12 {
            ["outer", "<module>"]
        } else {
            ["inner", "<module>"]
        };
        assert_eq!(names, wanted, "{python:?}");
        let frames = python_frames(&Value::from(stack_of(&ran, 20)));
        assert_eq!(frames.len(), 2, "{python:?} {frames:?}");
    }
}

#[test]
fn names_are_kept_however_little_is_kept_of_the_trace() {
    let python = known().last().expect("a Python");
    for keep in ["summary", "256KiB"] {
        let ran = python.run("reuse.py", &[], &[("OOMHOOK_KEEP", keep)]);
        assert_eq!(recorded(&ran), witnessed(&ran), "{keep}");
    }
}

#[test]
fn there_is_an_end_to_the_functions_that_get_a_name() {
    let python = known().last().expect("a Python");
    let ran = python.run("many.py", &[], &[]);
    let note = "more than 32,767 different Python functions (code made at run time?): new ones have no name";
    assert_eq!(ran.report["notes"], serde_json::json!([note]));
    let frames = |bytes| python_frames(&Value::from(stack_of(&ran, bytes)));
    // What had a name keeps it.
    assert_eq!(frames(128)[1], serde_json::json!(["<string>", 2, "made_5"]));
    assert_eq!(frames(256)[1], serde_json::json!([null, 2, null]));
    assert_eq!(frames(256)[2][2], "made");
}

#[test]
fn a_setting_says_which_stacks_are_taken() {
    let python = known().last().expect("a Python");
    let of = |setting: &str| python.run("shapes.py", &[], &[("OOMHOOK_STACKS", setting)]);
    let native = of("native");
    for leak in native.report["leaks"].as_array().expect("leaks") {
        assert!(
            leak["stack"]
                .as_array()
                .is_some_and(|stack| stack.len() > 10)
        );
        assert!(python_frames(&leak["stack"]).is_empty() && leak["python_site"].is_null());
    }
    let off = of("off");
    off.is("/totals/allocs", number(&native.report["totals"]["allocs"]));
    for leak in off.report["leaks"].as_array().expect("leaks") {
        assert_eq!(leak["stack"], serde_json::json!([]));
    }
    let both = of("python,native");
    equals_the_witness(python, &both, 73);
}

#[test]
fn reports_name_the_line_and_fold_the_interpreter() {
    // One whose functions have names: as a library it exports them.
    let shared = known().filter(|python| python.library.is_some() && python.minor >= 11);
    let Some(python) = shared.last() else {
        return eprintln!("NOT RUN: no CPython from 3.11 on with a shared library");
    };
    let bench = Bench::shared();
    let script = programs().join("shapes.py");
    let mut run = bench.start(&python.program, &[script.to_str().expect("UTF-8")]);
    run.command
        .env("OOMHOOK_REPORT", "stderr")
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ran = run.finish();
    // The report of the process itself.
    assert!(
        ran.stderr().contains("witness.py:66 alloc"),
        "{}",
        ran.stderr()
    );
    let table = |arguments: &[&str]| {
        let mut command = oomhook();
        command.arg("report").args(arguments).arg(&ran.trace);
        let output = command.output().expect("it runs");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let folded = table(&["--by", "stack", "--at", "exit", "--top", "200"]);
    assert!(
        folded.contains("Model.step") && folded.contains("--all-frames shows them"),
        "{folded}"
    );
    assert!(
        !folded.contains("libffi") && !folded.contains("_PyEval_EvalFrameDefault"),
        "{folded}"
    );
    assert!(folded.contains("Python frames left out ..."), "{folded}");
    let whole = table(&[
        "--by",
        "stack",
        "--at",
        "exit",
        "--top",
        "200",
        "--all-frames",
    ]);
    assert!(
        whole.contains("libffi") && whole.contains("_PyEval_EvalFrameDefault"),
        "{whole}"
    );
    assert!(!whole.contains("--all-frames"), "{whole}");
}
