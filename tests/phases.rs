//! Phases of a program are seen however it tells of them: NVTX in all its kinds, the functions of `oomhook.h`; what lived in them,
//! what each round left behind; and nothing else changes.

mod support;

use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use support::naming::reported;
use support::{Bench, Ran, Route};

const MIB: u64 = 1 << 20;

fn program() -> PathBuf {
    let bench = Bench::shared();
    let simulator = bench.simulator().display().to_string();
    bench.build(
        "phases.c",
        Route::Driver,
        &["-Wno-unused-function", &simulator],
    )
}

fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    let ran = Bench::shared().run(&program(), &[part], settings);
    assert_eq!(ran.output.status.code(), Some(0), "{}", ran.stderr());
    ran
}

fn phase<'a>(ran: &'a Ran, name: &str) -> &'a Value {
    let phases = ran.report["phases"].as_array().expect("phases");
    let found = phases.iter().find(|phase| phase["name"] == name);
    found.unwrap_or_else(|| panic!("no phase {name}: {phases:#?}"))
}

#[test]
fn rounds_between_marks_and_what_each_leaves_behind() {
    let ran = run("marks", &[]);
    let marks = phase(&ran, "iteration");
    assert_eq!(
        (&marks["kind"], &marks["count"]),
        (&json!("mark"), &json!(20))
    );
    assert_eq!(marks["peak_bytes"], 146_800_640);
    assert_eq!(marks["peak_round"], 20);
    let growth = marks["growth"].as_array().expect("growth");
    assert_eq!(growth.len(), 1, "{growth:#?}");
    assert_eq!(
        (&growth[0]["site"], &growth[0]["bytes_per_mark"]),
        (&json!("leak"), &json!(2 * MIB))
    );
    let peak = &ran.report["devices"][0]["peak"];
    assert_eq!(
        (&peak["bytes"], &peak["event"]),
        (&json!(146_800_640), &json!(40))
    );
    assert_eq!(
        (&peak["phase"], &peak["round"]),
        (&json!("iteration"), &json!(20))
    );
    ran.leaks_are(&[("leak", 40 * MIB, 20)]);
}

#[test]
fn ranges_are_nested_and_helpers_belong_to_whom_they_help() {
    let ran = run("ranges", &[]);
    // Entered before the recording began.
    let train = phase(&ran, "train");
    assert_eq!(
        (&train["count"], &train["peak_bytes"]),
        (&json!(1), &json!(137 * MIB))
    );
    let steps = phase(&ran, "step #");
    assert_eq!(
        (&steps["count"], &steps["peak_bytes"], &steps["peak_name"]),
        (&json!(8), &json!(137 * MIB), &json!("step 8"))
    );
    let peaks: Vec<u64> = steps["instances"]
        .as_array()
        .expect("instances")
        .iter()
        .map(|one| one["devices"][0]["peak_bytes"].as_u64().expect("a peak"))
        .collect();
    let expected: Vec<u64> = (1..=8)
        .map(|step| (step - 1 + step * 10 + 50) * MIB)
        .collect();
    assert_eq!(peaks, expected);
    let forward = phase(&ran, "forward");
    assert_eq!(
        (&forward["count"], &forward["peak_bytes"]),
        (&json!(8), &json!(87 * MIB))
    );
    assert_eq!(phase(&ran, "backward")["peak_bytes"], 137 * MIB);
    let growth = &steps["growth"];
    assert_eq!(
        (&growth[0]["site"], &growth[0]["bytes_per_mark"]),
        (&json!("leak"), &json!(MIB))
    );
    assert_eq!(forward["growth"], json!([]));
    // The helper's block made the peak, in the phase of the thread that waited for it.
    let peak = &ran.report["devices"][0]["peak"];
    assert_eq!(
        (&peak["bytes"], &peak["phase"]),
        (&json!(137 * MIB), &json!("backward"))
    );
    let sites = peak["sites"].as_array().expect("sites");
    let phases: Vec<_> = sites
        .iter()
        .map(|site| (&site["site"], &site["phase"], &site["bytes"]))
        .collect();
    assert_eq!(
        phases,
        [
            (&json!("work"), &json!("forward"), &json!(80 * MIB)),
            (&json!("work"), &json!("backward"), &json!(50 * MIB)),
            (&json!("leak"), &json!("step #"), &json!(7 * MIB)),
        ]
    );
}

#[test]
fn domains_registered_strings_wide_strings_and_ranges_ended_elsewhere() {
    let ran = run("kinds", &[]);
    let peak = |name: &str| {
        phase(&ran, name)["peak_bytes"]
            .as_u64()
            .map(|bytes| bytes / MIB)
    };
    assert_eq!(peak("own: registered"), Some(40));
    assert_eq!(peak("NCCL: ncclAllReduce"), Some(30));
    assert_eq!(peak("own: wide \u{20ac}"), Some(40));
    assert_eq!(peak("request 7"), Some(50));
    let done = phase(&ran, "done");
    assert_eq!(
        (&done["count"], &done["peak_bytes"]),
        (&json!(2), &json!(60 * MIB))
    );
}

#[test]
fn handles_that_nobody_made_are_not_followed() {
    let ran = run("strangers", &[]);
    let of = |name: &str| {
        let phase = phase(&ran, name);
        (phase["count"].as_u64(), phase["peak_bytes"].as_u64())
    };
    assert_eq!(of("outer"), (Some(1), Some(20 * MIB)));
    // A string that is none has no text; a domain that is none has no name.
    assert_eq!(of("own: "), (Some(4), Some(20 * MIB)));
    assert_eq!(of("stranger"), (Some(1), Some(20 * MIB)));
    assert_eq!(of("own: string 60000"), (Some(1), Some(0)));
}

#[test]
fn more_names_than_there_is_room_for_are_one_phase() {
    let ran = run("many", &[]);
    let requests = phase(&ran, "request #");
    assert_eq!(
        (&requests["count"], &requests["peak_bytes"]),
        (&json!(20_000), &json!(MIB))
    );
    let kept = requests["instances"].as_array().map(Vec::len);
    assert_eq!(kept, Some(512));
}

#[test]
fn phases_beyond_those_kept_are_said_to_be() {
    let ran = run("names", &[]);
    let phases = ran.report["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), 1024);
    assert_eq!(phases[1023]["name"], "name XU");
    // Of the 1,500 names 1,024 were kept.
    let note = "476 instances of phases beyond the first 1,024 are not told apart: names that differ in numbers only are \
                one phase, others are not";
    let notes = ran.report["notes"].as_array().expect("notes");
    assert!(notes.contains(&json!(note)), "{notes:#?}");
    let text = reported(&ran.trace, &["--by", "phase", "--at", "exit"]);
    for line in [
        " 2.0 MiB   66.7%         1  in phases beyond the first 1,024",
        " 1.0 MiB   33.3%         1  outside of all phases",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// Instances that ended, those that last, the peak and its instance's number.
fn figures(phase: &Value) -> [Option<u64>; 4] {
    ["count", "lasting", "peak_bytes", "peak_round"].map(|key| phase[key].as_u64())
}

#[test]
fn what_a_process_dies_in_counts() {
    let ran = Bench::shared().run(&program(), &["dies"], &[]);
    assert_eq!(ran.output.status.signal(), Some(libc::SIGSEGV));
    let of = |name: &str| figures(phase(&ran, name));
    let died = Some(300 * MIB);
    assert_eq!(of("step #"), [Some(1), Some(1), died, Some(2)]);
    assert_eq!(of("forward"), [Some(0), Some(1), died, Some(1)]);
    assert_eq!(of("request 7"), [Some(0), Some(1), died, Some(1)]);
    assert_eq!(of("turn"), [Some(2), Some(1), died, Some(3)]);
    let steps = phase(&ran, "step #");
    assert_eq!(steps["peak_name"], "step 2");
    let lasting = &steps["instances"][1];
    let height = &lasting["devices"][0];
    assert_eq!(
        (&lasting["name"], &lasting["ended_ns"]),
        (&json!("step 2"), &Value::Null)
    );
    assert_eq!(
        ["begin_bytes", "peak_bytes", "end_bytes"].map(|key| height[key].as_u64()),
        [Some(0), died, died]
    );
    let rounds = &phase(&ran, "turn")["instances"];
    assert_eq!(
        (&rounds[1]["name"], &rounds[2]["name"]),
        (&json!("turn"), &Value::Null)
    );
    let text = reported(&ran.trace, &[]);
    for line in [
        "Phases  4 names\n",
        " 300.0 MiB at most in turn, 2 times, reached after the last one\n",
        " 300.0 MiB at most in step #, 2 times, reached in step 2, still open\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_failure_names_the_phases_that_it_came_in() {
    let ran = Bench::shared().run(&program(), &["runs out"], &[]);
    assert_eq!(ran.output.status.code(), Some(1), "{}", ran.stderr());
    let of = |number: usize| {
        let oom = &ran.report["oom"][number];
        (oom["phase"].clone(), oom["phases"].clone())
    };
    assert_eq!(of(0), (json!("forward (2)"), json!(["step 17", "forward"])));
    assert_eq!(of(1), (json!("epoch (3)"), json!(["epoch (3)"])));
    let text = reported(&ran.trace, &[]);
    for part in [
        "  phase    epoch (3)\n",
        "    asked by phases.c:",
        "    phase    step 17, forward\n",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_a_thread_was_in_ends_with_it() {
    let ran = run("leaves", &[]);
    let loads = phase(&ran, "load");
    assert_eq!(
        figures(loads),
        [Some(1), Some(1), Some(40 * MIB), Some(1)],
        "{loads:#}"
    );
    let nameless = figures(phase(&ran, ""));
    assert_eq!(nameless, [Some(1), Some(0), Some(40 * MIB), Some(1)]);
    let text = reported(&ran.trace, &[]);
    for line in [
        "  40.0 MiB at most in load, 2 times, reached the 1st time\n",
        "  40.0 MiB at most in (unnamed)\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let table = reported(&ran.trace, &["--by", "phase"]);
    assert!(table.contains("  (unnamed)\n"), "{table}");
}

#[test]
fn the_functions_of_the_header_are_there_only_with_the_library() {
    let folder = Bench::shared().new_folder();
    let report = folder.join("report").display().to_string();
    let ran = run("calls", &[("OOMHOOK_REPORT", &report)]);
    assert_eq!(phase(&ran, "load")["peak_bytes"], 10 * MIB);
    assert_eq!(phase(&ran, "warm")["peak_bytes"], 10 * MIB);
    assert_eq!(phase(&ran, "")["peak_bytes"], 12 * MIB);
    // One report on the way, one at the end.
    let reports = std::fs::read_dir(&folder).expect("the folder").count();
    assert_eq!(reports, 2, "{}", ran.stderr());
    let bare = Bench::shared()
        .plain(&program(), &["calls"])
        .output()
        .expect("it runs");
    assert!(bare.status.success() && bare.stderr.is_empty());
}

#[test]
fn without_cuda_nothing_is_left_behind() {
    let (output, traces) = Bench::shared().start(&program(), &["no cuda"]).output();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    assert!(output.status.success() && output.stderr.is_empty() && traces.is_empty());
}

#[test]
fn somebody_elses_injection_is_left_alone() {
    let bench = Bench::shared();
    let says = |settings: &[(&str, &str)]| {
        let mut run = bench.start(&program(), &["variable"]);
        run.command.envs(settings.iter().copied());
        let (output, _) = run.output();
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    };
    let library = support::artefacts()
        .library
        .canonicalize()
        .expect("the library");
    let set = PathBuf::from(says(&[])).canonicalize().expect("a path");
    assert_eq!(set, library);
    assert_eq!(
        says(&[("NVTX_INJECTION64_PATH", "/nsys/libToolsInjection64.so")]),
        "/nsys/libToolsInjection64.so"
    );
    assert_eq!(says(&[("OOMHOOK", "0")]), "unset");
    // Set to nothing it is set: no phases, though NVTX finds whatever is preloaded when it loads the library of no name.
    let refuses = run("refused", &[("NVTX_INJECTION64_PATH", "")]);
    assert_eq!(refuses.report["phases"], json!([]));
    // A child that inherits the variable and not the preload is not watched.
    let mut bare = bench.plain(&program(), &["no cuda"]);
    bare.env("NVTX_INJECTION64_PATH", &library);
    let output = bare.output().expect("it runs");
    assert!(
        output.status.success() && output.stdout == b"done\n",
        "{output:?}"
    );
}
