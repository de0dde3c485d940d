//! Stacks of unusual kinds: a program must live on one as it would have lived alone.

mod support;

use serde_json::json;
use std::path::PathBuf;
use support::{Bench, MIB, Ran, Route};

fn program() -> PathBuf {
    Bench::shared().build("small_stacks.c", Route::Driver, &["-O2"])
}

fn run(arguments: &[&str]) -> Ran {
    Bench::shared().run(&program(), arguments, &[])
}

#[test]
fn a_fibres_stack_may_be_followed_by_a_smaller_one() {
    let ran = run(&["fibres"]);
    ran.says(0, "ok\n")
        .is("/totals/allocs", 2)
        .is("/devices/0/live_bytes", 3 * MIB);
}

#[test]
fn a_small_stack_is_left_to_the_program() {
    for size in [16_384, 20_480, 24_576, 28_672, 32_768, 65_536, 1 << 20] {
        let ran = run(&["thread", &size.to_string()]);
        ran.says(0, "ok\n")
            .is("/totals/allocs", 2)
            .is("/devices/0/live_bytes", 3 * MIB);
        let notes = ran.report["notes"].to_string();
        let is_said = notes.contains("less than 24 KiB of its stack left");
        let known = ran.leaks().iter().all(|(site, ..)| site == "take");
        // Either there was room for the stack, or it is said that there was none.
        assert!(known != is_said, "{size}: {notes}");
        assert!(known || size < 40_000, "{size}: {notes}");
    }
}

#[test]
fn what_is_made_at_the_end_says_nothing_of_the_rest() {
    let ran = run(&["exit"]);
    ran.says(0, "ok\n").is("/totals/allocs", 2);
    let leaks = ran.report["leaks"].as_array().expect("leaks");
    let classes: Vec<_> = leaks
        .iter()
        .map(|leak| json!([leak["site"], leak["bytes"], leak["class"]]))
        .collect();
    let expected = [
        json!(["take", 1u64 << 30, "one_time"]),
        json!(["take", 512, "during_exit"]),
    ];
    assert_eq!(classes, expected);
}

#[test]
fn a_stack_that_is_cut_says_so() {
    let program = Bench::shared().build("stacks.c", Route::Driver, &["-O1"]);
    let ran = Bench::shared().run(&program, &["1"], &[("OOMHOOK_DEPTH", "20")]);
    let frames = ran.report["devices"][0]["peak"]["sites"][0]["stack"]
        .as_array()
        .expect("a stack")
        .clone();
    assert_eq!(frames.len(), 21);
    let last = frames[20]["function"].as_str().expect("words");
    assert!(last.contains("left out"), "{last}");
    let ran = Bench::shared().run(&program, &["1"], &[]);
    let whole = ran.report["devices"][0]["peak"]["sites"][0]["stack"].to_string();
    assert!(!whole.contains("left out"), "{whole}");
}
