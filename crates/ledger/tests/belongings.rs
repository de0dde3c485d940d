//! What goes with a context beside memory: objects, limits, the context itself.

mod common;

use common::Story;
use oomhook_ledger::Ledger;
use oomhook_trace::record::{Deed, DeedKind, Object};
use oomhook_trace::{Record, What};

const OWN: u64 = 0xc0;
const PRIMARY: u64 = 0xa0;

fn made(story: &mut Story, object: Object, handle: u64) {
    let bytes = 0;
    story.happens(
        2,
        What::Created {
            object,
            handle,
            bytes,
        },
    );
}

/// The same ledger after a checkpoint.
fn restored(ledger: &Ledger) -> Ledger {
    let (state, records) = ledger.checkpoint().expect("a state");
    let records: Vec<Record> = records.collect();
    Ledger::restore(&state, &records).expect("a ledger")
}

/// Live, destroyed, gone with their context.
fn streams(ledger: &Ledger) -> (u64, u64, u64) {
    let count = ledger.objects().count(Object::Stream);
    (count.live, count.destroyed, count.released)
}

fn is_gone(ledger: &Ledger) -> Vec<bool> {
    let all = ledger.contexts().iter();
    all.map(|context| context.destroyed_ns.is_some()).collect()
}

#[test]
fn each_context_takes_its_own_along() {
    let mut story = Story::new();
    for (context, explicit) in [(PRIMARY, false), (OWN, true)] {
        story.happens(1, What::ContextCreate { context, explicit });
    }
    for handle in 1..=4 {
        made(&mut story, Object::Stream, handle);
    }
    made(&mut story, Object::Library, 9);
    made(&mut story, Object::Graph, 10);
    for handle in [3, 4] {
        story.does(DeedKind::MadeIn, handle, Object::Stream as u64, OWN);
    }
    story.happens(
        1,
        What::Limit {
            limit: 0,
            value: 1024,
        },
    );
    story.does(DeedKind::LimitIn, 0, 4096, OWN);
    story.does(DeedKind::LimitIn, 0, 8192, OWN);
    story.happens(
        3,
        What::Destroyed {
            object: Object::Stream,
            handle: 1,
        },
    );
    assert_eq!(streams(&story.ledger), (3, 1, 0));
    assert_eq!(story.ledger.limits_in()[0].value, 8192);

    let mut other = restored(&story.ledger);
    for ledger in [&mut story.ledger, &mut other] {
        let gone = |subject, explicit: bool| {
            Record::Deed(Deed {
                time_ns: ledger.last_ns() + 1,
                thread: 0,
                device: Some(0),
                call: 1,
                stack: 4,
                kind: Some(DeedKind::ContextGone),
                subject,
                value: u64::from(explicit),
                other: 0,
            })
        };
        let (own, primary) = (gone(OWN, true), gone(PRIMARY, false));
        ledger.apply(&own);
        assert_eq!(streams(ledger), (1, 1, 2));
        assert!(ledger.limits_in().is_empty());
        assert_eq!(ledger.limits().count(), 1);
        ledger.apply(&primary);
        assert_eq!(streams(ledger), (0, 1, 3));
        assert_eq!(ledger.limits().count(), 0);
        let live = |object| ledger.objects().count(object).live;
        assert_eq!((live(Object::Library), live(Object::Graph)), (1, 1));
        // The program's own goes with the announcement of its end.
        assert_eq!(is_gone(ledger), [true, false]);
    }
}

#[test]
fn a_primary_context_of_another_device_stays() {
    let mut story = Story::new();
    let explicit = false;
    for (device, context) in [(0, PRIMARY), (1, PRIMARY + 1)] {
        story.device = Some(device);
        story.happens(1, What::ContextCreate { context, explicit });
        made(&mut story, Object::Stream, context);
    }
    story.does(DeedKind::ContextGone, 0, 0, 0);
    assert_eq!(is_gone(&story.ledger), [false, true]);
    assert_eq!(streams(&story.ledger), (1, 0, 1));
    // It comes again, and may have the value that it had.
    let context = PRIMARY + 1;
    story.happens(1, What::ContextCreate { context, explicit });
    assert_eq!(is_gone(&story.ledger), [false, true, false]);
}

#[test]
fn green_contexts_are_told_and_own_nothing() {
    let mut story = Story::new();
    made(&mut story, Object::GreenContext, 7);
    made(&mut story, Object::GreenContext, 8);
    story.happens(
        3,
        What::Destroyed {
            object: Object::GreenContext,
            handle: 7,
        },
    );
    assert_eq!(is_gone(&restored(&story.ledger)), [true, false]);
    assert!(story.ledger.contexts().iter().all(|context| context.green));
}
