//! The ledger beside other processes, and where NVML is not there, fails or does not know this process: everything adds
//! up to the device's total, and what is not known is said.

mod support;

use serde_json::{Value, json};
use support::ledger::{TOTAL, closed};
use support::{Bench, MIB, Ran};

const GIB: u64 = 1 << 30;
/// Two processes on the first device, one on the second.
const NEIGHBOURS: (&str, &str) = (
    "OOMHOOK_SIM_NEIGHBOURS",
    "0:4711:2GiB:/usr/bin/train.py,G0:4712:100MiB:Xorg,1:4713:1GiB:other",
);
/// What calls take in the program's part "crowd".
const CALLS: [(&str, u64); 5] = [
    ("code", 2 * MIB),
    ("launches", 91 * MIB),
    ("limits", 56 * MIB),
    ("streams", 3 * MIB),
    ("graph_execs", 8 * MIB),
];

#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    support::ledger::run(part, "8192", settings)
}

/// The same, if all went well but the report is on stderr.
#[track_caller]
fn text(part: &str, settings: &[(&str, &str)]) -> String {
    run(part, &[settings, &[("OOMHOOK_REPORT", "stderr")]].concat()).stderr()
}

/// A text without its line breaks.
fn in_one(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Asserts what the accounts of the first device say at the peak, at the failure and at the exit: the memory of this
/// process, these lines, and the rest and what is free.
#[track_caller]
fn accounts_are(ran: &Ran, lines: &[(&str, u64)], rest: u64) {
    accounts_but_for_the_peak_are(ran, lines, rest);
    account_is(ran, "peak", lines, rest);
}

#[track_caller]
fn account_is(ran: &Ran, when: &str, lines: &[(&str, u64)], rest: u64) {
    let own = [
        ("device", 4 * GIB),
        ("async", 10 * MIB),
        ("pool_idle", 22 * MIB),
    ];
    let mut wanted = [&own, lines].concat();
    wanted.push(("rest", rest));
    let used: u64 = wanted.iter().map(|line| line.1).sum();
    wanted.push(("free", TOTAL - used));
    let lines = &ran.report["devices"][0]["ledger"][when];
    assert_eq!(closed(lines), wanted, "{when}");
}

/// The same where the device was not looked at near the peak: what the pool kept then is not known.
#[track_caller]
fn accounts_but_for_the_peak_are(ran: &Ran, lines: &[(&str, u64)], rest: u64) {
    let accounts = &ran.report["devices"][0]["ledger"];
    assert_eq!(accounts["oom"], ran.report["oom"][0]["ledger"]);
    closed(&accounts["peak"]);
    for when in ["oom", "exit"] {
        account_is(ran, when, lines, rest);
    }
    ran.is("/oom/0/total_bytes", TOTAL);
    let free = closed(&accounts["oom"]).last().expect("free").1;
    ran.is("/oom/0/free_bytes", free);
}

#[track_caller]
fn notes_have(ran: &Ran, text: &str) {
    let notes = ran.report["notes"].to_string();
    assert!(notes.contains(text), "{notes}");
}

#[test]
fn all_lines_make_the_total_beside_neighbours() {
    let ran = run("crowd", &[NEIGHBOURS]);
    let mut lines = vec![("contexts", 512 * MIB)];
    lines.extend(CALLS);
    lines.push(("other_processes", 2 * GIB + 100 * MIB));
    accounts_are(&ran, &lines, 0);
    let other =
        |pid: u32, name: &str, bytes: u64| json!({"pid": pid, "name": name, "bytes": bytes});
    assert_eq!(
        ran.report["oom"][0]["others"],
        json!([
            other(4711, "/usr/bin/train.py", 2 * GIB),
            other(4712, "Xorg", 100 * MIB)
        ])
    );
    // What was measured while others were there is no certain figure; the context is counted by process.
    let rows = ran.report["oom"][0]["ledger"].as_array().expect("lines");
    let estimated = rows.iter().filter(|line| line["estimated"] == true);
    let names: Vec<_> = estimated.map(|line| line["name"].as_str()).collect();
    let calls = CALLS.iter().map(|call| Some(call.0));
    assert_eq!(names, calls.chain([Some("rest")]).collect::<Vec<_>>());
}

#[test]
fn a_neighbour_is_named_where_memory_ran_out() {
    let said = text("crowd", &[NEIGHBOURS]);
    let words = "2.1 GiB other processes (pid 4711 train.py 2.0 GiB, pid 4712 Xorg 100.0 MiB)";
    assert_eq!(in_one(&said).matches(words).count(), 1, "{said}");
    assert!(said.lines().count() <= 32, "{said}");
    assert!(!said.contains("not explained"), "{said}");
}

#[test]
fn what_belongs_to_nobody_is_the_drivers() {
    let settings = [
        ("OOMHOOK_SIM", "1x16GiB,free=15GiB"),
        ("OOMHOOK_SIM_RESERVE", "615MiB"),
    ];
    let ran = run("crowd", &settings);
    let mut lines = vec![("contexts", 512 * MIB)];
    lines.extend(CALLS);
    lines.push(("driver", GIB));
    accounts_are(&ran, &lines, 0);
}

#[test]
fn a_neighbour_that_grows_meanwhile_never_makes_more_than_there_is() {
    let settings = [NEIGHBOURS, ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "100MiB")];
    let ran = run("crowd", &settings);
    let accounts = &ran.report["devices"][0]["ledger"];
    for when in ["peak", "oom", "exit"] {
        let lines = closed(&accounts[when]);
        assert!(lines.contains(&("device", 4 * GIB)), "{when}: {lines:?}");
        assert!(
            lines.contains(&("contexts", 512 * MIB)),
            "{when}: {lines:?}"
        );
    }
}

#[test]
fn without_nvml_the_rest_is_what_it_would_tell_apart() {
    // A folder with the driver alone.
    let folder = Bench::shared().new_folder();
    let driver = folder.join("libcuda.so.1");
    std::os::unix::fs::symlink(&support::artefacts().simulator, driver).expect("a link");
    let folder = folder.display().to_string();
    for settings in [
        &[NEIGHBOURS, ("LD_LIBRARY_PATH", folder.as_str())][..],
        &[NEIGHBOURS, ("OOMHOOK_SIM_FAIL", "nvmlInit_v2#*=12")][..],
        &[NEIGHBOURS, ("OOMHOOK_SAMPLE", "off")],
    ] {
        let ran = run("crowd", settings);
        // Neither the context nor the neighbours, which the driver does not tell of.
        accounts_but_for_the_peak_are(&ran, &CALLS, 512 * MIB + 2 * GIB + 100 * MIB);
        assert_eq!(ran.report["oom"][0]["others"], json!([]));
        let is_off = settings[1].0 == "OOMHOOK_SAMPLE";
        if !is_off {
            notes_have(&ran, "NVML (libnvidia-ml.so.1) cannot be used");
        }
        let said = text("crowd", settings);
        let words = "2.6 GiB contexts and other processes";
        assert!(in_one(&said).contains(words), "{said}");
    }
}

#[test]
fn an_nvml_that_lacks_parts_tells_what_it_has() {
    // The first version of the question for memory counts what is kept from everybody.
    let settings = [
        NEIGHBOURS,
        ("OOMHOOK_SIM_FAIL", "nvmlDeviceGetMemoryInfo_v2#*=13"),
    ];
    let ran = run("crowd", &settings);
    let mut lines = vec![("contexts", 512 * MIB)];
    lines.extend(CALLS);
    lines.push(("other_processes", 2 * GIB + 100 * MIB));
    accounts_are(&ran, &lines, 0);
    // Nobody is listed: the device as a whole is all there is.
    let settings = [
        NEIGHBOURS,
        (
            "OOMHOOK_SIM_FAIL",
            "nvmlDeviceGetComputeRunningProcesses_v3#*=3",
        ),
    ];
    let ran = run("crowd", &settings);
    accounts_are(&ran, &CALLS, 512 * MIB + 2 * GIB + 100 * MIB);
    assert_eq!(ran.report["devices"][0]["latest"]["others"], Value::Null);
}

#[test]
fn bytes_of_processes_may_be_unknown() {
    let settings = [NEIGHBOURS, ("OOMHOOK_SIM_PROCESS_BYTES", "off")];
    let ran = run("crowd", &settings);
    accounts_are(&ran, &CALLS, 512 * MIB + 2 * GIB + 100 * MIB);
    let latest = &ran.report["devices"][0]["latest"];
    assert_eq!(latest["process_bytes"], Value::Null);
    let pids = latest["others"].as_array().expect("others").iter();
    let pids: Vec<_> = pids
        .map(|one| (one["pid"].as_u64(), &one["bytes"]))
        .collect();
    assert_eq!(
        pids,
        [(Some(4711), &Value::Null), (Some(4712), &Value::Null)]
    );
}

#[test]
fn a_process_that_nvml_lists_by_another_number_is_not_taken_for_a_neighbour() {
    let settings = [NEIGHBOURS, ("OOMHOOK_SIM_PID", "99")];
    let ran = run("crowd", &settings);
    accounts_are(&ran, &CALLS, 512 * MIB + 2 * GIB + 100 * MIB);
    assert_eq!(ran.report["oom"][0]["others"], json!([]));
    notes_have(
        &ran,
        "NVML lists the processes on GPU 0 by numbers that are not",
    );
}

#[test]
fn a_device_that_is_lost_is_said_once() {
    let lost = "nvmlDeviceGetMemoryInfo_v2#*=15,nvmlDeviceGetMemoryInfo#*=15";
    let ran = run("crowd", &[NEIGHBOURS, ("OOMHOOK_SIM_FAIL", lost)]);
    accounts_but_for_the_peak_are(&ran, &CALLS, 512 * MIB + 2 * GIB + 100 * MIB);
    notes_have(&ran, "NVML does not answer for GPU 0");
    let notes = ran.report["notes"].as_array().expect("notes").iter();
    let of_nvml = notes.filter(|note| note.as_str().is_some_and(|note| note.contains("NVML")));
    assert_eq!(of_nvml.count(), 1);
}

#[test]
fn each_device_that_is_lost_is_said() {
    let lost = "nvmlDeviceGetMemoryInfo_v2#*=15";
    let ran = run("contexts", &[("OOMHOOK_SIM_FAIL", lost)]);
    for device in 0..2 {
        notes_have(&ran, &format!("NVML does not answer for GPU {device}:"));
    }
}

#[test]
fn a_question_that_fails_once_changes_nothing() {
    let settings = [
        NEIGHBOURS,
        ("OOMHOOK_SIM_RESERVE", "600MiB"),
        ("OOMHOOK_SIM_FAIL", "nvmlDeviceGetMemoryInfo_v2#3=999"),
        ("OOMHOOK_SAMPLE", "50ms"),
    ];
    let ran = run("healthy", &settings);
    let points = ran.report["devices"][0]["over_time"].as_array();
    let points = points.expect("points");
    assert!(points.len() > 1);
    for point in points {
        assert_eq!(point["rest_bytes"], 0, "{points:#?}");
    }
    assert_eq!(ran.report["notes"], json!([]));
}

#[test]
fn a_process_that_nvml_does_not_list_is_said() {
    let ran = run("crowd", &[("OOMHOOK_SIM_PID", "none")]);
    accounts_are(&ran, &CALLS, 512 * MIB);
    notes_have(&ran, "NVML lists no process on GPU 0, not even this one");
    let latest = &ran.report["devices"][0]["latest"];
    assert_eq!(
        (&latest["process_bytes"], &latest["others"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn what_a_neighbour_takes_is_no_growth_of_this_process() {
    let settings = [
        NEIGHBOURS,
        ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "8MiB"),
        ("OOMHOOK_SAMPLE", "50ms"),
    ];
    let ran = run("healthy", &settings);
    assert_eq!(ran.report["devices"][0]["untracked_growth"], Value::Null);
    assert_eq!(ran.report["notes"], json!([]));
    let unknown = [&settings[..], &[("OOMHOOK_SIM_PROCESS_BYTES", "off")]].concat();
    let ran = run("healthy", &unknown);
    let growth = &ran.report["devices"][0]["untracked_growth"];
    assert_eq!(
        (&growth["is_own"], &growth["with"]),
        (&json!(false), &Value::Null)
    );
    notes_have(
        &ran,
        "in this process or another one: NVML does not say which",
    );
}

#[test]
fn looks_come_as_often_as_they_are_asked_for() {
    let points = |period: &str| {
        let ran = run("growing", &[("OOMHOOK_SAMPLE", period)]);
        let points = ran.report["devices"][0]["over_time"].as_array();
        points.map_or(0, Vec::len)
    };
    // 24 requests with 50 ms between; without NVML the driver is asked when something was measured, each 100 ms at most.
    assert!(points("50ms") >= 15);
    assert!((3..=13).contains(&points("off")));
    assert!((1..=8).contains(&points("1h")));
}

#[test]
fn pools_that_do_not_answer_are_named_and_no_guess_is_made() {
    let settings = [("OOMHOOK_SIM_FAIL", "cuMemPoolGetAttribute#*=801")];
    let ran = run("crowd", &settings);
    let accounts = &ran.report["devices"][0]["ledger"];
    for when in ["peak", "oom", "exit"] {
        let lines = closed(&accounts[when]);
        let of = |name: &str| {
            let found = lines.iter().find(|line| line.0 == name);
            found.map(|line| line.1)
        };
        assert_eq!(of("pool_idle"), None, "{when}");
        assert_eq!(
            (of("async"), of("rest")),
            (Some(10 * MIB), Some(22 * MIB)),
            "{when}"
        );
    }
    notes_have(
        &ran,
        "what the memory pools on GPU 0 keep beside the blocks in use is not known",
    );
    let said = text("crowd", &settings);
    assert!(!said.contains("other processes"), "{said}");
    assert!(!said.contains("contexts, code"), "{said}");
}
