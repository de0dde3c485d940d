//! What the program says of its phases: ranges that a thread enters and leaves, ranges that any thread may end, marks. They
//! come by NVTX (`frameworks/nvtx.rs`) or by the functions of `oomhook.h` (`calls.rs`).
//!
//! A thread remembers the ranges that it is in, so that those entered before the recording began are known, too: they are told
//! when the thread is.

mod calls;
pub mod names;

use super::guard::{self, NO_ID, Thread};
use super::raw::{Kind, Raw};
use super::state::{self, Recorder};
use super::{channel, record, threads};
use names::{Name, NameId};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ranges that a thread remembers; further ones are told all the same, if the recording is on.
const MOST_OPEN: usize = 32;

/// The number of a domain; 0 is the default one.
pub type Domain = u32;

struct Open {
    ranges: [Cell<(Domain, NameId)>; MOST_OPEN],
    depth: Cell<usize>,
}

thread_local! {
    // No destructor, nothing to be made: usable at any moment of a thread's life.
    static OPEN: Open = const {
        Open {
            ranges: [const { Cell::new((0, 0)) }; MOST_OPEN],
            depth: Cell::new(0),
        }
    };
}

fn send(recorder: &'static Recorder, thread: &Thread, raw: Raw) {
    let raw = Raw {
        time_ns: recorder.now(),
        thread: threads::number(recorder, thread),
        ..raw
    };
    channel::send(&recorder.sender, raw);
}

fn pushed(domain: Domain, name: NameId) -> Raw {
    Raw {
        a: u64::from(name),
        b: u64::from(domain),
        ..Raw::new(Kind::PhasePush)
    }
}

/// The calling thread enters a range; how many ranges of the domain it was in.
pub fn push(domain: Domain, name: Name<'_>) -> i32 {
    guard::with(|thread| {
        let mut level = 0;
        OPEN.with(|open| {
            let depth = open.depth.get();
            let known = open.ranges.iter().take(depth.min(MOST_OPEN));
            level = known.filter(|range| range.get().0 == domain).count();
            let id = names::number(name);
            if let Some(place) = open.ranges.get(depth) {
                place.set((domain, id));
            }
            open.depth.set(depth + 1);
            record::on_the_way(thread, |recorder| {
                names::tell(recorder);
                let is_new = thread.id.get() == NO_ID;
                if is_new && depth < MOST_OPEN {
                    // All that it is in is told with the thread.
                    threads::number(recorder, thread);
                } else {
                    send(recorder, thread, pushed(domain, id));
                }
            });
        });
        i32::try_from(level).unwrap_or(i32::MAX)
    })
}

/// The calling thread leaves its innermost range of the domain; how many it is still in.
pub fn pop(domain: Domain) -> i32 {
    guard::with(|thread| {
        let mut left = -2;
        OPEN.with(|open| {
            let depth = open.depth.get();
            if depth > MOST_OPEN {
                open.depth.set(depth - 1);
                left = 0;
            } else {
                let known = &open.ranges[..depth];
                let Some(at) = known.iter().rposition(|range| range.get().0 == domain) else {
                    return;
                };
                for (place, next) in known[at..].iter().zip(&known[at + 1..]) {
                    place.set(next.get());
                }
                open.depth.set(depth - 1);
                let rest = known[..depth - 1].iter();
                let rest = rest.filter(|range| range.get().0 == domain).count();
                left = i32::try_from(rest).unwrap_or(i32::MAX);
            }
            record::on_the_way(thread, |recorder| {
                if thread.id.get() != NO_ID {
                    let raw = Raw {
                        b: u64::from(domain),
                        ..Raw::new(Kind::PhasePop)
                    };
                    send(recorder, thread, raw);
                }
            });
        });
        left
    })
}

/// Begins a range that any thread may end; its number.
pub fn start(name: Name<'_>) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let range = NEXT.fetch_add(1, Ordering::Relaxed);
    let id = names::number(name);
    guard::with(|thread| {
        record::on_the_way(thread, |recorder| {
            names::tell(recorder);
            let raw = Raw {
                a: u64::from(id),
                b: range,
                ..Raw::new(Kind::PhaseStart)
            };
            send(recorder, thread, raw);
        });
    });
    range
}

/// Ends such a range.
pub fn end(range: u64) {
    guard::with(|thread| {
        record::on_the_way(thread, |recorder| {
            let raw = Raw {
                b: range,
                ..Raw::new(Kind::PhaseEnd)
            };
            send(recorder, thread, raw);
        });
    });
}

/// A mark: a round ends here.
pub fn mark(name: Name<'_>) {
    let id = names::number(name);
    guard::with(|thread| {
        record::on_the_way(thread, |recorder| {
            names::tell(recorder);
            let raw = Raw {
                a: u64::from(id),
                ..Raw::new(Kind::PhaseMark)
            };
            send(recorder, thread, raw);
        });
    });
}

/// Tells of the ranges that a thread is in which is told of for the first time. At work already, and with the thread's number.
pub fn tell_open(recorder: &'static Recorder, thread: u32) {
    OPEN.with(|open| {
        let depth = open.depth.get().min(MOST_OPEN);
        if depth > 0 {
            names::tell(recorder);
        }
        for range in &open.ranges[..depth] {
            let (domain, name) = range.get();
            let raw = Raw {
                time_ns: recorder.now(),
                thread,
                ..pushed(domain, name)
            };
            channel::send(&recorder.sender, raw);
        }
    });
}

/// True if anything of phases need be done: nothing is, in a process whose recording was switched off.
pub fn are_wanted() -> bool {
    !state::is_off()
}
