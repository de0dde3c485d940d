//! A report of a process that goes on, asked for by a signal (`OOMHOOK_SIGNAL`).
//!
//! The handler only leaves word. The writer hands a copy of its books to a short-lived thread, which finds the names and
//! writes: neither the interrupted thread nor the writer may do that. One report at a time; signals that come meanwhile
//! are answered together by one more.

use super::state::{self, Recorder};
use super::writer::Books;
use super::{process, report, thread};
use std::ffi::c_int;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

/// A signal has come since the last look.
static ASKED: AtomicBool = AtomicBool::new(false);
/// A report is being made.
static UNDERWAY: AtomicBool = AtomicBool::new(false);

/// Stack of the thread that makes the report.
const STACK: usize = 2 << 20;

/// Leaves word that a report is wanted. For signal handlers: one atomic store, and `errno` stays as it is.
pub fn asked_by_signal() {
    ASKED.store(true, Ordering::Release);
}

/// True if a report is wanted and none is under way; from here on one is, until [`done`].
pub fn take() -> bool {
    let begins = ASKED.load(Ordering::Relaxed)
        && !UNDERWAY.load(Ordering::Acquire)
        && ASKED.swap(false, Ordering::AcqRel);
    if begins {
        UNDERWAY.store(true, Ordering::Release);
    }
    begins
}

/// The report that was under way is made, or given up.
pub fn done() {
    UNDERWAY.store(false, Ordering::Release);
}

/// Makes the report of these books in a thread of its own.
pub fn report(recorder: &'static Recorder, books: Books) {
    let work = move || {
        let print = AssertUnwindSafe(|| match books.for_report() {
            Some(books) => report::print_now(recorder, &books),
            None => state::say("too little memory for the report that was asked for"),
        });
        let _ = std::panic::catch_unwind(print);
        drop(books);
        done();
    };
    if let Err(error) = thread::spawn(c"oomhook-report", STACK, work) {
        state::say(&format!(
            "no thread for the report that was asked for ({error})"
        ));
        done();
    }
}

/// Has this signal ask from now on.
pub fn watch_signal(signal: c_int) {
    if !process::ask_by(signal) {
        state::say(&format!(
            "signal {signal} cannot ask for a report here; none is used"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_report_at_a_time_and_one_more_for_what_came_meanwhile() {
        assert!(!take());
        asked_by_signal();
        asked_by_signal();
        assert!(take());
        assert!(!take());
        asked_by_signal();
        assert!(!take(), "one is under way");
        done();
        assert!(take());
        done();
        assert!(!take());
    }
}
