//! The ledger of threads that are at work at once: what each call took is told apart where it can be, and all lines make the device's
//! total.

mod support;

use serde_json::json;
use support::ledger::{account_is, by_name, notes};
use support::{MIB, Ran};

#[track_caller]
fn run(part: &str, settings: &[(&str, &str)]) -> Ran {
    support::ledger::run(part, "270336", settings)
}

#[test]
fn bytes_of_other_threads_are_never_booked() {
    let ran = run("threads", &[]);
    let line = by_name(&ran, 0, "exit");
    assert_eq!((line("device"), line("rest")), (0, 0));
    assert_eq!(line("contexts"), 512 * MIB);
    // What could not be measured alone is what a look finds once all is quiet.
    assert_eq!(line("code"), 802 * MIB);
    let rows = ran.report["devices"][0]["costs"].as_array().expect("rows");
    let code = rows.iter().filter(|row| row["name"] == "code");
    let calls: u64 = code.filter_map(|row| row["calls"].as_u64()).sum();
    // Beside a free of just its size, a call seems to take nothing and is not named; its bytes are there.
    assert!((391..=401).contains(&calls), "{calls}");
}

#[test]
fn a_call_that_has_not_returned_may_have_a_part_in_it() {
    let settings = [("OOMHOOK_SIM_STALL", "cuMemAlloc_v2#1=300ms")];
    let ran = run("overlap", &settings);
    account_is(
        &ran,
        0,
        "exit",
        &[
            ("device", 64 * MIB),
            ("contexts", 512 * MIB),
            ("code", 4 * MIB),
        ],
    );
    let costs = &ran.report["devices"][0]["costs"];
    assert_eq!(
        (&costs[1]["name"], &costs[1]["estimated"]),
        (&"code".into(), &true.into())
    );
    ran.is("/devices/0/unmeasured_calls", 0);
}

#[test]
fn what_could_not_be_measured_is_said_where_no_look_tells_it() {
    let settings = [
        ("OOMHOOK_SIM_STALL", "cuMemAlloc_v2#1=300ms"),
        ("OOMHOOK_SIM_PROCESS_BYTES", "off"),
    ];
    let ran = run("overlap", &settings);
    let line = by_name(&ran, 0, "exit");
    assert_eq!(line("code"), 2 * MIB);
    ran.is("/devices/0/unmeasured_calls", 1);
    let note = "1 call on GPU 0 overlapped with others and could not be measured apart";
    assert!(notes(&ran).contains(note), "{}", notes(&ran));
}

#[test]
fn threads_on_two_devices_do_not_disturb_each_other() {
    let ran = run("two devices", &[]);
    for device in 0..2 {
        account_is(
            &ran,
            device,
            "exit",
            &[
                ("contexts", 512 * MIB),
                ("code", 100 * MIB),
                ("launches", 140 * MIB),
                ("streams", 3 * MIB),
            ],
        );
        let costs = ran.report["devices"][device]["costs"].as_array();
        let costs = costs.expect("rows");
        assert!(
            costs.iter().all(|row| row["estimated"] == false),
            "{costs:?}"
        );
    }
}

#[test]
fn threads_on_one_device_share_what_they_took_together() {
    let ran = run("one device", &[]);
    let line = by_name(&ran, 0, "exit");
    assert_eq!(line("rest"), 0);
    // What others have taken by the time of the look may be part of it.
    let contexts = line("contexts") / MIB;
    assert!((512..1217).contains(&contexts), "{contexts} MiB");
    assert!(line("code") > 0 && line("launches") > 0);
    let sum: u64 = ["contexts", "code", "launches", "streams"]
        .iter()
        .map(|name| line(name))
        .sum();
    assert_eq!(sum, (512 + 400 + 290 + 15) * MIB);
    let text = notes(&ran);
    assert!(!text.contains("other processes"), "{text}");
}

#[test]
fn looks_do_not_fall_into_calls_that_have_not_said_what_they_took() {
    let settings = [
        ("OOMHOOK_SAMPLE", "10ms"),
        (
            "OOMHOOK_SIM_STALL",
            "cuDevicePrimaryCtxRetain#1=200ms,cuModuleLoadData#1=15ms",
        ),
    ];
    let ran = run("launches", &settings);
    let points = ran.report["devices"][0]["over_time"].as_array();
    let points = points.expect("points");
    assert!(!points.is_empty());
    for point in points {
        assert_eq!(point["rest_bytes"], 0, "{points:#?}");
    }
    assert_eq!(ran.report["notes"], json!([]));
}
