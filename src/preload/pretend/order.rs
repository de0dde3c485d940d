//! `OOMHOOK_FAIL_NTH`: counts the attempts to allocate and picks the one that is to fail.

use super::super::record::Call;
use oomhook_report::sentences;
use oomhook_trace::Record;
use std::sync::atomic::{AtomicU64, Ordering};

/// As ordered; 0 without an order.
static ORDERED: AtomicU64 = AtomicU64::new(0);
/// Number of the attempt that will fail.
static DUE: AtomicU64 = AtomicU64::new(0);
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// Attempt number `nth` is to fail.
pub fn set(nth: u64) {
    ORDERED.store(nth, Ordering::Relaxed);
    DUE.store(nth, Ordering::Relaxed);
}

/// Counts an attempt; true if it is the one.
pub fn is_due(call: &Call) -> bool {
    let ordered = ORDERED.load(Ordering::Relaxed);
    if ordered == 0 {
        return false;
    }
    let number = ATTEMPTS.fetch_add(1, Ordering::AcqRel) + 1;
    if number != DUE.load(Ordering::Acquire) {
        return false;
    }
    call.announce(Record::Note {
        time_ns: call.now(),
        text: sentences::made_to_fail(ordered, number),
    });
    true
}

/// An attempt was made past all doors and is over. If it was the one, the next one takes its place.
#[cold]
pub fn passed_unseen() {
    if ORDERED.load(Ordering::Relaxed) != 0 {
        let number = ATTEMPTS.fetch_add(1, Ordering::AcqRel) + 1;
        let _ = DUE.compare_exchange(number, number + 1, Ordering::AcqRel, Ordering::Relaxed);
    }
}
