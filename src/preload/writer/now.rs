//! What is asked of the writer while the process goes on: the file up to date, and a report of now.

use super::super::config::ReportTo;
use super::super::{memory, on_demand, state};
use super::{Books, Writer, tickets};
use std::sync::atomic::{AtomicBool, Ordering};

/// Where no events are kept, the state is wanted in the file.
static STATE_WANTED: AtomicBool = AtomicBool::new(false);
/// What the program has said so far is wanted.
static WORDS_WANTED: AtomicBool = AtomicBool::new(false);

/// What a copy of the books takes, for each block that lives, and besides.
const BLOCK: usize = 100;
const REPORT: usize = 48 << 20;

/// Has everything that was sent so far written to the file; the ticket whose service says that it is.
pub fn bring_up_to_date() -> u64 {
    STATE_WANTED.store(true, Ordering::Release);
    WORDS_WANTED.store(true, Ordering::Release);
    tickets::take()
}

impl Writer {
    /// Takes in a signal that has asked for a report: it comes with the flush that begins now, so that it holds all that
    /// was sent before the signal.
    pub(super) fn hear_signal(&mut self) {
        if self.report_at.is_none() && on_demand::take() {
            self.report_at = Some(bring_up_to_date());
        }
    }

    /// Tells what the program has said so far, if someone wants to read it now.
    pub(super) fn bring_words(&mut self) {
        if WORDS_WANTED.swap(false, Ordering::AcqRel) {
            self.listener.tell_all(self.recorder.now(), false);
            self.tell_lines();
        }
    }

    /// Writes the state to a file that keeps no events, if someone wants to read it now.
    pub(super) fn bring_state(&mut self) {
        if self.summary && self.output.is_open() && STATE_WANTED.swap(false, Ordering::AcqRel) {
            self.begin_segment();
        }
    }

    /// Has the report made that was asked for, if all that belongs into it has been taken. Names of functions are found
    /// under the loader's lock, which this thread must not take: another one gets a copy of the books. (Copying them is
    /// quick, some ten milliseconds for a million blocks; reading the trace again is not, and there may be none.)
    pub(super) fn report_now(&mut self, served: u64) {
        if self.report_at.is_none_or(|ticket| ticket > served) {
            return;
        }
        self.report_at = None;
        if self.recorder.config.meanwhile == ReportTo::Off {
            return on_demand::done();
        }
        let blocks = self.ledger.live_blocks().count();
        if !memory::can_have(REPORT + blocks * BLOCK) {
            state::say(
                "too little memory for the report that was asked for; the trace has everything",
            );
            return on_demand::done();
        }
        let books = Books {
            header: self.header.clone(),
            ledger: self.ledger.clone(),
            path: self.output.path(),
        };
        on_demand::report(self.recorder, books);
    }
}
