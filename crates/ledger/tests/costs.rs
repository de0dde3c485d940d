//! What calls take without saying so, and looks at whole devices.

mod common;

use oomhook_ledger::Ledger;
use oomhook_trace::Record;
use oomhook_trace::record::{Cost, CostKind, Deed, DeedKind, Other, Sample};

const MIB: u64 = 1 << 20;

fn cost(time_ns: u64, kind: CostKind, bytes: i64) -> Record {
    Record::Cost(Cost {
        time_ns,
        thread: 0,
        device: 0,
        call: 1,
        stack: 2,
        kind,
        bytes,
        estimated: false,
    })
}

fn sample(time_ns: u64, used: u64, process: Option<u64>, others: &[(u32, Option<u64>)]) -> Record {
    Record::Sample(Sample {
        time_ns,
        device: 0,
        used,
        total: 16 << 30,
        process,
        others: others
            .iter()
            .map(|(pid, bytes)| Other {
                pid: *pid,
                name: format!("p{pid}"),
                bytes: *bytes,
            })
            .collect(),
        others_known: true,
        is_quiet: true,
    })
}

fn mib(number: i64) -> i64 {
    number * MIB as i64
}

#[test]
fn costs_are_summed_by_purpose_and_place_and_known_at_each_instant() {
    let mut ledger = Ledger::default();
    for record in [
        cost(10, CostKind::Context, mib(512)),
        cost(20, CostKind::Code, mib(2)),
        cost(30, CostKind::Code, mib(4)),
        cost(40, CostKind::Code, mib(-2)),
    ] {
        ledger.apply(&record);
    }
    let costs = ledger.costs();
    assert_eq!(costs.sum(0), mib(516));
    let at = |time_ns, kind| {
        costs
            .taken_at(0, time_ns)
            .get(&kind)
            .map_or(0, |taken| taken.0)
    };
    assert_eq!(at(5, CostKind::Context), 0);
    assert_eq!(at(10, CostKind::Context), mib(512));
    assert_eq!(at(35, CostKind::Code), mib(6));
    assert_eq!(at(40, CostKind::Code), mib(4));
    let rows = costs.rows();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].1.bytes, rows[0].1.calls), (mib(512), 1));
    assert_eq!((rows[1].1.bytes, rows[1].1.calls), (mib(4), 3));
}

#[test]
fn the_last_context_takes_everything_along() {
    let mut ledger = Ledger::default();
    for record in [
        cost(10, CostKind::Context, mib(512)),
        cost(20, CostKind::Launch, mib(92)),
        cost(30, CostKind::Context, Cost::ALL_BACK),
        cost(40, CostKind::Context, mib(512)),
    ] {
        ledger.apply(&record);
    }
    assert_eq!(ledger.costs().sum(0), mib(512));
    assert_eq!(ledger.costs().rows().len(), 1);
    let before: i64 = ledger
        .costs()
        .taken_at(0, 25)
        .values()
        .map(|taken| taken.0)
        .sum();
    assert_eq!(before, mib(604));
}

#[test]
fn a_look_tells_the_driver_others_and_the_rest_apart() {
    let mut ledger = Ledger::default();
    ledger.apply(&cost(10, CostKind::Context, mib(500)));
    ledger.apply(&sample(
        20,
        2600 * MIB,
        Some(510 * MIB),
        &[(7, Some(2000 * MIB)), (8, Some(80 * MIB))],
    ));
    let look = ledger.costs().latest(0).expect("a look");
    assert_eq!(look.others(), 2080 * MIB);
    assert_eq!(look.driver(), 10 * MIB);
    assert_eq!(look.rest(), mib(10));
    assert_eq!(look.untracked(), mib(510));
    // Where somebody's bytes are not known, the driver's are not either.
    ledger.apply(&sample(30, 2600 * MIB, Some(510 * MIB), &[(7, None)]));
    let look = ledger.costs().latest(0).expect("a look");
    assert_eq!(
        (look.others(), look.driver(), look.rest()),
        (0, 0, mib(2100))
    );
    assert_eq!(
        ledger
            .costs()
            .nearest(0, 21)
            .map(|look| look.sample.time_ns),
        Some(20)
    );
}

#[test]
fn looks_are_thinned_out_and_the_books_survive_a_checkpoint() {
    let mut ledger = Ledger::default();
    ledger.apply(&cost(1, CostKind::Code, mib(3)));
    for number in 0..10_000u64 {
        ledger.apply(&sample(10 + number, number * MIB, None, &[]));
    }
    let kept = ledger.costs().looks().len();
    assert!((400..=1024).contains(&kept), "{kept}");
    let (state, records) = ledger.checkpoint().expect("a checkpoint");
    let records: Vec<Record> = records.collect();
    let restored = Ledger::restore(&state, &records).expect("the books");
    assert_eq!(restored.costs().rows(), ledger.costs().rows());
    assert_eq!(restored.costs().looks(), ledger.costs().looks());
    assert_eq!(restored.costs().latest(0), ledger.costs().latest(0));
    assert_eq!(restored.costs().sum(0), mib(3));
}

#[test]
fn of_many_changes_the_times_get_coarser_and_the_sums_stay() {
    let mut ledger = Ledger::default();
    ledger.apply(&cost(1, CostKind::Context, mib(512)));
    // A server that makes executable graphs and destroys every second one.
    for request in 0..20_000_u64 {
        let bytes = if request % 2 == 0 { 8 } else { 0 };
        ledger.apply(&cost(10 + request, CostKind::GraphExec, mib(8)));
        ledger.apply(&cost(10 + request, CostKind::GraphExec, mib(bytes - 8)));
    }
    let costs = ledger.costs();
    let taken = |time_ns| costs.taken_at(0, time_ns)[&CostKind::GraphExec].0;
    assert_eq!(costs.sum(0), mib(512 + 80_000));
    assert_eq!(taken(20_010), mib(80_000));
    // Nothing was there before the first one, which a sum over the kept changes alone would not know.
    assert_eq!(taken(9), 0);
    assert_eq!(costs.taken_at(0, 1)[&CostKind::Context].0, mib(512));
    let half = taken(10_010);
    assert!((mib(39_000)..=mib(40_008)).contains(&half), "{half}");
}

#[test]
fn who_is_not_told_apart_may_be_any_of_those_listed() {
    let mut ledger = Ledger::default();
    ledger.apply(&cost(10, CostKind::Context, mib(512)));
    let listed = [(99, Some(512 * MIB)), (4711, Some(MIB))];
    ledger.apply(&sample(20, 513 * MIB, None, &listed));
    let look = ledger.costs().latest(0).expect("a look");
    assert_eq!((look.others(), look.driver(), look.rest()), (0, 0, mib(1)));
    assert_eq!(look.other_processes(), []);
    // What NVML listed is kept.
    assert_eq!(look.sample.others.len(), 2);
}

#[test]
fn a_figure_that_was_estimated_is_so_no_longer_once_it_is_gone() {
    let mut ledger = Ledger::default();
    let estimated = |record: Record| match record {
        Record::Cost(cost) => Record::Cost(Cost {
            estimated: true,
            ..cost
        }),
        other => other,
    };
    ledger.apply(&estimated(cost(10, CostKind::Code, mib(2))));
    ledger.apply(&cost(20, CostKind::Code, mib(-2)));
    ledger.apply(&cost(30, CostKind::Code, mib(4)));
    let taken = ledger.costs().taken(0);
    assert_eq!(taken[&CostKind::Code], (mib(4), false));
}

/// A call of which only the use of the device meanwhile is known.
fn unmeasured(time_ns: u64, kind: CostKind, stack: u32, seen: u64) -> Record {
    Record::Deed(Deed {
        time_ns,
        thread: 0,
        device: Some(0),
        call: 1,
        stack,
        kind: Some(DeedKind::Unmeasured),
        subject: kind as u64,
        value: seen,
        other: 0,
    })
}

/// A look while calls are under way.
fn look_amid_calls(time_ns: u64, process: u64) -> Record {
    let Record::Sample(quiet) = sample(time_ns, process, Some(process), &[]) else {
        unreachable!("a sample was made");
    };
    Record::Sample(Sample {
        is_quiet: false,
        ..quiet
    })
}

#[test]
fn calls_that_could_not_be_told_apart_share_what_the_next_look_finds() {
    let mut ledger = Ledger::default();
    for record in [
        cost(10, CostKind::Code, mib(2)),
        unmeasured(20, CostKind::Code, 7, 64 * MIB),
        unmeasured(21, CostKind::Code, 7, 0),
        unmeasured(22, CostKind::Context, 8, 520 * MIB),
    ] {
        ledger.apply(&record);
    }
    assert_eq!(
        (ledger.costs().sum(0), ledger.costs().not_apart(0)),
        (mib(2), 3)
    );
    // An allocation is under way, whose bytes are found as well: the shares do not last.
    ledger.apply(&look_amid_calls(30, 800 * MIB));
    assert_eq!(ledger.costs().sum(0), mib(800));
    ledger.apply(&sample(40, 518 * MIB, Some(518 * MIB), &[]));
    let costs = ledger.costs();
    assert_eq!((costs.sum(0), costs.not_apart(0)), (mib(518), 0));
    let taken = costs.taken(0);
    // Two modules at the price of the one that was measured, and what was seen of the context, each by the same factor.
    let (context, code) = (taken[&CostKind::Context], taken[&CostKind::Code]);
    assert!((mib(511)..=mib(513)).contains(&context.0), "{context:?}");
    assert_eq!(context.0 + code.0, mib(518));
    assert!(context.1 && code.1);
    let row = |stack| costs.rows().into_iter().find(|row| row.0.stack == stack);
    assert_eq!(
        row(8).map(|row| (row.1.calls, row.1.estimated)),
        Some((1, true))
    );
    assert_eq!(row(7).map(|row| row.1.calls), Some(2));
    assert_eq!(row(2).map(|row| row.1.estimated), Some(false));
    // At the instants of the calls, not of the look.
    assert_eq!(
        costs.taken_at(0, 21).get(&CostKind::Context),
        Some(&(0, true))
    );
    assert_eq!(costs.taken_at(0, 22)[&CostKind::Context].0, context.0);
    // What comes later is nobody's.
    ledger.apply(&sample(50, 600 * MIB, Some(600 * MIB), &[]));
    assert_eq!(ledger.costs().sum(0), mib(518));
    assert_eq!(
        ledger.costs().looks().last().map(|look| look.rest()),
        Some(mib(82))
    );
}

#[test]
fn without_a_figure_of_this_process_nothing_is_shared() {
    let mut ledger = Ledger::default();
    for record in [
        unmeasured(20, CostKind::Code, 7, 64 * MIB),
        sample(30, 3 << 30, None, &[(4711, None)]),
    ] {
        ledger.apply(&record);
    }
    assert_eq!((ledger.costs().sum(0), ledger.costs().not_apart(0)), (0, 1));
    // With the last context all is gone.
    ledger.apply(&cost(40, CostKind::Context, Cost::ALL_BACK));
    assert_eq!(ledger.costs().not_apart(0), 0);
}
