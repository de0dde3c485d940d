//! The ledger closes: what calls take without saying so is booked to them, and all lines make the device's total, to the
//! byte.

mod support;

use serde_json::{Value, json};
use support::ledger::{account_is, costs, notes};
use support::{MIB, Ran};

const GIB: u64 = 1 << 30;

#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    support::ledger::run(part, "270336", settings)
}

#[test]
fn contexts_are_told_with_their_makers_and_take_their_costs_along() {
    let ran = run("contexts", &[]);
    let contexts = ran.report["contexts"].as_array().expect("rows");
    let facts: Vec<_> = contexts
        .iter()
        .map(|one| {
            json!([
                one["device"],
                one["explicit"],
                one["site"],
                one["destroyed_ns"].is_u64()
            ])
        })
        .collect();
    let wanted = [
        json!([0, false, "open_primary", false]),
        json!([1, false, "open_primary", false]),
        json!([0, true, "open_context", true]),
    ];
    assert_eq!(facts, wanted);
    account_is(
        &ran,
        0,
        "exit",
        &[("device", MIB), ("contexts", 512 * MIB), ("code", 2 * MIB)],
    );
    account_is(&ran, 1, "exit", &[("contexts", 512 * MIB)]);
    let note = "this process also opened a context of 512.0 MiB on GPU 1, by ledger.c:";
    assert!(notes(&ran).contains(note), "{}", notes(&ran));
    assert!(notes(&ran).contains("open_primary, and allocated nothing there"));
}

#[test]
fn a_reset_leaves_the_contexts_of_the_program_alone() {
    let ran = run("reset", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[("contexts", 512 * MIB), ("code", 4 * MIB)],
    );
}

#[test]
fn what_outlives_a_context_is_no_part_of_the_next_one() {
    let ran = run("outlived", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("async", 8 * MIB),
            ("pool_idle", 24 * MIB),
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
        ],
    );
}

#[test]
fn modules_are_a_line_of_code() {
    let ran = run("modules", &[("OOMHOOK_SIM_CONTEXT", "0")]);
    ran.is("/cuda_modules/live", 100)
        .is("/devices/0/live_bytes", 0);
    account_is(&ran, 0, "exit", &[("code", 209_715_200)]);
    let rows = ran.report["objects"].as_array().expect("rows");
    let modules = rows.iter().find(|row| row["kind"] == "module");
    let sites = &modules.expect("modules")["sites"];
    assert_eq!(sites.as_array().map(Vec::len), Some(1));
    assert_eq!(
        costs(&ran),
        json!([["code", "cuModuleLoadData", "load", 209_715_200, 100]])
    );
}

/// What `oomhook report` says, without the lines' ends.
fn said(ran: &Ran, options: &[&str]) -> String {
    let output = support::oomhook()
        .arg("report")
        .arg(&ran.trace)
        .args(options)
        .output();
    let text = output.expect("a report").stdout;
    let text = String::from_utf8(text).expect("UTF-8");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_program_that_only_opens_contexts_is_told_what_they_take() {
    let ran = run("modules", &[]);
    let text = said(&ran, &[]);
    let headline = "oomhook: nothing was allocated, but contexts and code take 712.0 MiB of GPU 0";
    assert!(text.starts_with(headline), "{text}");
    let account = "GPU 0 512.0 MiB contexts + 200.0 MiB code next: oomhook report";
    assert!(
        text.contains(&format!("In use at exit {account}")),
        "{text}"
    );
    assert!(text.ends_with("--at exit"), "{text}");
    let table = said(&ran, &["--at", "exit"]);
    assert!(table.contains(&format!("in use {account}")), "{table}");
    // Where the end is as the peak was, once is enough.
    let text = said(&run("limits", &[]), &[]);
    assert!(
        text.contains("In use at exit GPU 0 512.0 MiB contexts"),
        "{text}"
    );
    let text = said(&run("crowd", &[]), &[]);
    assert_eq!(text.matches("executable graphs").count(), 1, "{text}");
}

#[test]
fn unloading_gives_code_back() {
    let ran = run("unloaded", &[]);
    // What the function took went with its module, but was booked as a first launch.
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", MIB),
            ("launches", 91 * MIB),
        ],
    );
    ran.is("/cuda_modules/live", 1);
}

#[test]
fn only_first_launches_take_memory() {
    let ran = run("launches", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
            ("launches", 92 * MIB),
        ],
    );
    let row = |bytes: u64| json!(["launches", "cuLaunchKernel", "launch", bytes, 1]);
    let costs = costs(&ran);
    assert_eq!((&costs[1], &costs[3]), (&row(91 * MIB), &row(MIB)));
    // No event for any of the two thousand launches.
    let size = std::fs::metadata(&ran.trace).expect("the trace").len();
    let few = run("modules", &[]);
    let more = std::fs::metadata(few.trace).expect("the trace").len();
    assert!(size < more + 2000, "{size} {more}");
}

#[test]
fn a_captured_launch_is_not_the_first() {
    let ran = run("captured", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
            ("launches", 91 * MIB),
        ],
    );
}

#[test]
fn a_kernel_is_new_in_each_context() {
    let ran = run("kernels", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
            ("launches", 91 * MIB),
        ],
    );
    // There the launch brings the library's code as well.
    account_is(
        &ran,
        1,
        "exit",
        &[("contexts", 512 * MIB), ("launches", 93 * MIB)],
    );
}

#[test]
fn a_deeper_stack_is_a_line_and_a_limit() {
    let ran = run("limits", &[]);
    let stack = 270_336 * (8192 - 1024);
    account_is(
        &ran,
        0,
        "exit",
        &[("contexts", 512 * MIB), ("limits", stack)],
    );
    assert_eq!(
        ran.report["limits"],
        json!([{"device": 0, "limit": "stack_size", "value": 8192}])
    );
    // One row for each of the two calls.
    let row = |bytes: u64| json!(["limits", "cuCtxSetLimit", "deepen", 270_336 * bytes, 1]);
    let costs = costs(&ran);
    assert_eq!((&costs[0], &costs[1]), (&row(4096), &row(3072)));
}

#[test]
fn streams_take_memory_now_and_then() {
    let ran = run("streams", &[]);
    account_is(
        &ran,
        0,
        "exit",
        &[("contexts", 512 * MIB), ("streams", 12 * MIB)],
    );
    assert_eq!(
        costs(&ran)[1],
        json!(["streams", "cuStreamCreate", "open_stream", 12 * MIB, 4])
    );
}

#[test]
fn executable_graphs_are_a_line_and_the_memory_of_their_nodes_another() {
    let ran = run("graphs", &[]);
    ran.is("/graphs/alloc_nodes", 1)
        .is("/graphs/reserved_bytes", 32 * MIB)
        .is("/devices/0/spaces/async/live_bytes", 0);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("graph", 32 * MIB),
            ("contexts", 512 * MIB),
            ("graph_execs", 16 * MIB),
        ],
    );
    // A graph's first launch is its highest: all five were there.
    account_is(
        &ran,
        0,
        "peak",
        &[
            ("graph", 32 * MIB),
            ("contexts", 512 * MIB),
            ("graph_execs", 40 * MIB),
        ],
    );
}

#[test]
fn a_server_that_keeps_its_graphs_is_told_what_grows() {
    let settings = [("OOMHOOK_SAMPLE", "20ms")];
    let ran = run("growing", &settings);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("device", GIB),
            ("contexts", 512 * MIB),
            ("graph_execs", 192 * MIB),
        ],
    );
    let growth = &ran.report["devices"][0]["untracked_growth"];
    assert_eq!(
        (&growth["with"], &growth["bytes_each"]),
        (&"graph_exec".into(), &(8 * MIB).into())
    );
    assert!(growth["objects"].as_u64() >= Some(8), "{growth}");
    let note = "executable graphs (8.0 MiB each)";
    assert!(notes(&ran).contains(note), "{}", notes(&ran));
    // A look each 20 ms, for 1.2 s; none is written that says the same as the one before.
    let points = ran.report["devices"][0]["over_time"].as_array();
    assert!(
        points.is_some_and(|points| points.len() >= 20),
        "{points:?}"
    );

    let ran = run("healthy", &settings);
    assert_eq!(ran.report["devices"][0]["untracked_growth"], Value::Null);
    assert!(!notes(&ran).contains("each"), "{}", notes(&ran));
    account_is(&ran, 0, "exit", &[("device", GIB), ("contexts", 512 * MIB)]);
}

#[test]
fn a_launch_that_fails_for_want_of_memory_is_no_first_one() {
    let ran = run("no room", &[]);
    let oom = ran.report["oom"].as_array().expect("rows");
    assert_eq!((oom.len(), &oom[0]["call"]), (1, &"cuLaunchKernel".into()));
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
            ("launches", 91 * MIB),
        ],
    );
}

#[test]
fn failures_before_the_beginning_spoil_no_device() {
    let ran = run("nowhere", &[]);
    let devices = ran.report["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 1, "{devices:#?}");
    assert_eq!(devices[0]["name"], "oomhook simulated GPU");
    account_is(
        &ran,
        0,
        "exit",
        &[("device", MIB), ("contexts", 512 * MIB), ("code", 2 * MIB)],
    );
}

#[test]
fn memory_of_graphs_is_retained_and_no_leak() {
    let ran = run("graphs", &[]);
    let leaks = ran.report["leaks"].as_array().expect("rows").iter();
    let leaks: Vec<_> = leaks
        .map(|leak| json!([leak["class"], leak["space"], leak["bytes"]]))
        .collect();
    assert_eq!(leaks, [json!(["retained", "graph", 32 * MIB])]);
    let text = said(&ran, &[]);
    let headline =
        "oomhook: no leak (only what the driver keeps for graphs is live); peak 32.0 MiB on GPU 0";
    assert!(text.starts_with(headline), "{text}");
    assert!(
        text.contains("0 allocs, 0 frees, 1 allocating graph node"),
        "{text}"
    );
    // It has used memory, so it can be judged.
    let judged = |limit: &str| {
        let mut check = support::oomhook();
        check
            .arg("check")
            .arg(&ran.trace)
            .args(["--fail-on-leak", "--max-peak", limit]);
        check.output().expect("a verdict").status.code()
    };
    assert_eq!((judged("32MiB"), judged("31MiB")), (Some(0), Some(1)));
}

#[test]
fn objects_and_limits_go_with_their_context() {
    for (is_reset, live) in [(false, 2), (true, 1)] {
        let reset = [("RESET", "1")];
        let ran = run("belongings", if is_reset { &reset } else { &[] });
        let gone = 3 - live;
        let objects = ran.report["objects"].as_array().expect("rows").iter();
        for one in objects.filter(|one| one["kind"] != "graph") {
            let facts = json!([
                one["live"],
                one["created"],
                one["destroyed"],
                one["released"]
            ]);
            assert_eq!(facts, json!([live, 3, 0, gone]), "{one:#}");
        }
        // 44 bytes of text.
        let modules = &ran.report["cuda_modules"];
        assert_eq!(
            *modules,
            json!({"live": live, "loaded": 3, "unloaded": 0, "released": gone, "image_bytes": 44 * live})
        );
        let contexts = ran.report["contexts"].as_array().expect("rows");
        let facts: Vec<_> = contexts
            .iter()
            .map(|one| {
                let function = &one["stack"][one["stack"].as_array().map_or(0, |stack| {
                    stack
                        .iter()
                        .position(|frame| frame["function"] == one["site"])
                        .unwrap_or(99)
                })]["function"];
                json!([one["kind"], function, one["destroyed_ns"].is_u64()])
            })
            .collect();
        let wanted = [
            json!(["explicit", "open_context", true]),
            json!(["explicit", "open_context", false]),
            json!(["primary", "open_primary", is_reset]),
        ];
        assert_eq!(facts, wanted);
        let two = json!({"device": 0, "context": 1, "limit": "stack_size", "value": 4096});
        let primary = json!({"device": 0, "limit": "stack_size", "value": 8192});
        let limits = if is_reset {
            json!([two])
        } else {
            json!([primary, two])
        };
        assert_eq!(ran.report["limits"], limits);
        let stack = |bytes: u64| (bytes - 1024) * 270_336;
        let limits = stack(4096) + if is_reset { 0 } else { stack(8192) };
        account_is(
            &ran,
            0,
            "exit",
            &[
                ("device", MIB),
                ("contexts", live * 512 * MIB),
                ("code", live * 2 * MIB),
                ("launches", live * 91 * MIB),
                ("limits", limits),
                ("graph_execs", live * 8 * MIB),
            ],
        );
    }
}

#[test]
fn costs_outlive_the_events_that_are_thrown_away() {
    let ran = run("churned", &[("OOMHOOK_KEEP", "256KiB")]);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("contexts", 512 * MIB),
            ("code", 2 * MIB),
            ("launches", 91 * MIB),
        ],
    );
    assert_eq!(ran.report["contexts"][0]["site"], "open_primary");
    let size = std::fs::metadata(&ran.trace).expect("the trace").len();
    assert!(size < 1 << 20, "{size}");
}
