//! The judge, with exact numbers.

mod common;

use common::{MIB, World};
use oomhook_report::Report;
use oomhook_report::baseline::Baseline;
use oomhook_report::gate::{Limits, Verdict, judge};

const TWO_PERCENT: u64 = 20_000;

/// A process with two sites: 200 MiB, and what makes the peak `peak`.
fn with_peak(peak: u64) -> Report {
    let mut world = World::new();
    let weights = world.from("load_weights()", "/src/loader.cpp", 88);
    let cache = world.from("grow_cache()", "/src/cache.cpp", 10);
    let first = world.malloc(weights, 200 * MIB);
    let second = world.malloc(cache, peak - 200 * MIB);
    world.free(weights, first);
    world.free(weights, second);
    world.exits(0);
    world.report()
}

fn against(baseline: &Baseline, report: Report) -> (u8, Vec<(String, u64, u64)>) {
    let limits = Limits {
        baseline: Some((baseline.clone(), TWO_PERCENT)),
        ..Limits::default()
    };
    let judgement = judge(&[report], &[], &limits);
    let sites = judgement.gates[0].sites.iter();
    let grown = sites
        .map(|one| (one.site.clone(), one.before_bytes, one.after_bytes))
        .collect();
    (judgement.exit_code, grown)
}

#[test]
fn the_tolerance_of_a_baseline_is_exact() {
    let written = serde_json::to_vec(&Baseline::of(&[with_peak(314_572_800)])).expect("JSON");
    let baseline = Baseline::parse(&written).expect("it was written here");
    assert_eq!(baseline.processes[0].devices[0].peak_bytes, 314_572_800);
    assert_eq!(against(&baseline, with_peak(320_864_256)), (0, vec![]));
    let grown = vec![("grow_cache".to_owned(), 104_857_600, 111_149_057)];
    assert_eq!(against(&baseline, with_peak(320_864_257)), (1, grown));
}

#[test]
fn limits_are_inclusive_and_know_no_tolerance() {
    for (limit, verdict) in [
        (300 * MIB, Verdict::Passed),
        (300 * MIB - 1, Verdict::Failed),
    ] {
        let limits = Limits {
            max_peak: Some(limit),
            max_live_at_exit: Some(0),
            ..Limits::default()
        };
        let judgement = judge(&[with_peak(300 * MIB)], &[], &limits);
        assert_eq!(judgement.verdict, verdict);
        assert_eq!(judgement.gates.len(), 2);
        assert!(judgement.gates[1].passed);
    }
}

#[test]
fn a_run_that_allocated_nothing_never_passes() {
    let mut world = World::new();
    world.exits(0);
    let limits = Limits {
        max_peak: Some(u64::MAX),
        fail_on_leak: true,
        ..Limits::default()
    };
    assert_eq!(judge(&[world.report()], &[], &limits).exit_code, 3);
    assert_eq!(judge(&[], &[], &limits).exit_code, 3);
}

#[test]
fn the_worst_of_several_processes_is_named() {
    let mut reports = vec![
        with_peak(210 * MIB),
        with_peak(400 * MIB),
        with_peak(300 * MIB),
    ];
    for (report, rank) in reports.iter_mut().zip(0..) {
        report.process.rank = Some(rank);
        report.process.pid = 100 + rank;
    }
    let limits = Limits {
        max_peak: Some(250 * MIB),
        ..Limits::default()
    };
    let judgement = judge(&reports, &[], &limits);
    let gate = &judgement.gates[0];
    assert_eq!(judgement.exit_code, 1);
    assert_eq!((gate.process.rank, gate.process.pid), (Some(1), 101));
    assert_eq!((gate.value_bytes, gate.failed), (400 * MIB, 2));
    assert!(judgement.text(false).contains("rank 1, pid 101 on node7"));
}

#[test]
fn ranks_are_compared_with_the_same_rank() {
    let mut before = vec![with_peak(210 * MIB), with_peak(400 * MIB)];
    before[0].process.rank = Some(0);
    before[1].process.rank = Some(1);
    let baseline = Baseline::of(&before);
    let mut now = with_peak(400 * MIB);
    now.process.rank = Some(1);
    assert_eq!(against(&baseline, now.clone()).0, 0);
    now.process.rank = Some(0);
    assert_eq!(against(&baseline, now.clone()).0, 1);
    now.process.rank = Some(7);
    let limits = Limits {
        baseline: Some((baseline, TWO_PERCENT)),
        ..Limits::default()
    };
    let judgement = judge(&[now], &[], &limits);
    assert_eq!(judgement.exit_code, 2);
    assert_eq!(judgement.unjudged.len(), 1);
    assert_eq!(
        judgement.notes[0],
        "the baseline has no process to compare rank 7 (trainer) with: it was not compared"
    );
    assert_eq!(judgement.notes.len(), 3);
}

#[test]
fn another_gpu_is_noted() {
    let baseline = Baseline::of(&[with_peak(300 * MIB)]);
    let mut now = with_peak(300 * MIB);
    now.devices[0].name = "NVIDIA A100".into();
    let limits = Limits {
        baseline: Some((baseline, TWO_PERCENT)),
        ..Limits::default()
    };
    let judgement = judge(&[now], &[], &limits);
    assert_eq!(judgement.exit_code, 0);
    assert_eq!(judgement.notes.len(), 1);
}

#[test]
fn leaks_fail_unless_a_cache_holds_them() {
    let limits = Limits {
        fail_on_leak: true,
        ..Limits::default()
    };
    let mut leaky = common::bad_day(false);
    let judgement = judge(&[leaky.report()], &[], &limits);
    assert_eq!(judgement.exit_code, 1);
    let sites: Vec<_> = judgement.gates[0]
        .sites
        .iter()
        .map(|one| &*one.site)
        .collect();
    assert_eq!(sites[0], "loader.cpp:88 load_weights");
    assert!(!sites.contains(&"at::native::empty_cuda"), "{sites:?}");
    assert_eq!(judge(&[with_peak(300 * MIB)], &[], &limits).exit_code, 0);
}

#[test]
fn processes_are_compared_by_program_and_never_by_place() {
    let named = |name: &str, peak: u64| {
        let mut report = with_peak(peak);
        report.process.command = vec![format!("/app/{name}")];
        report
    };
    let baseline = Baseline::of(&[named("a", 300 * MIB), named("b", 400 * MIB)]);
    let limits = Limits {
        baseline: Some((baseline, 0)),
        ..Limits::default()
    };
    let swapped = [named("b", 400 * MIB), named("a", 300 * MIB)];
    assert_eq!(judge(&swapped, &[], &limits).exit_code, 0);
    let judgement = judge(&[named("a", 400 * MIB)], &[], &limits);
    assert_eq!(judgement.exit_code, 1);
    assert_eq!(
        judgement.notes,
        ["b is in the baseline and not in this run"]
    );
    let empty = serde_json::to_vec(&Baseline::of(&[])).expect("JSON");
    let error = Baseline::parse(&empty).expect_err("it is empty");
    assert!(error.starts_with("holds no process"), "{error}");
}

#[test]
fn what_cannot_be_judged_does_not_pass() {
    let limits = |live: Option<u64>| Limits {
        max_peak: Some(300 * MIB),
        max_live_at_exit: live,
        ..Limits::default()
    };
    let bad = ["x.trace is empty".to_owned()];
    let judgement = judge(&[with_peak(300 * MIB)], &bad, &limits(None));
    assert_eq!(judgement.exit_code, 2);
    assert!(judgement.text(false).contains("x.trace is empty"));
    // A failure wins.
    assert_eq!(
        judge(&[with_peak(301 * MIB)], &bad, &limits(None)).exit_code,
        1
    );
    let mut damaged = with_peak(300 * MIB);
    damaged.damaged = true;
    assert_eq!(judge(&[damaged], &[], &limits(None)).exit_code, 2);
    let mut killed = with_peak(300 * MIB);
    killed.process.end = oomhook_report::schema::ProcessEnd::Signal;
    let judgement = judge(&[killed.clone()], &[], &limits(None));
    assert_eq!((judgement.exit_code, judgement.notes.len()), (0, 1));
    assert_eq!(judge(&[killed], &[], &limits(Some(0))).exit_code, 2);
}

#[test]
fn a_peak_that_is_too_high_names_its_sites() {
    let limits = Limits {
        max_peak: Some(MIB),
        ..Limits::default()
    };
    let text = judge(&[with_peak(300 * MIB)], &[], &limits).text(false);
    assert!(
        text.contains("200.0 MiB  loader.cpp:88 load_weights [trainer]"),
        "{text}"
    );
}

#[test]
fn a_process_of_which_nothing_is_known_is_not_said_to_have_allocated_nothing() {
    let mut world = World::new();
    world.facts.complete = false;
    let limits = Limits {
        max_peak: Some(300 * MIB),
        ..Limits::default()
    };
    let judgement = judge(&[with_peak(300 * MIB), world.report()], &[], &limits);
    assert_eq!(judgement.exit_code, 0);
    assert_eq!(judgement.notes.len(), 1);
    assert!(judgement.notes[0].contains("nothing is known of it"));
}
