//! Having what was sent in the file: whoever needs that takes a ticket and waits until the writer has served it.

use super::super::cancel;
use super::super::state;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tickets taken, and the highest one that was served.
static TAKEN: AtomicU64 = AtomicU64::new(0);
pub(super) static SERVED: AtomicU64 = AtomicU64::new(0);

/// A new ticket.
pub(super) fn take() -> u64 {
    TAKEN.fetch_add(1, Ordering::AcqRel) + 1
}

/// The newest ticket.
pub(super) fn newest() -> u64 {
    TAKEN.load(Ordering::Acquire)
}

/// True if a failing call may wait for what is written and said of it. A program that fails again and again waits for its
/// first failures only: of the later ones it is the same milliseconds later.
pub fn may_wait() -> bool {
    static RECENT: AtomicU64 = AtomicU64::new(0);
    static SINCE: AtomicU64 = AtomicU64::new(0);
    const MOST: u64 = 8;
    const WINDOW_NS: u64 = 1_000_000_000;
    let Some(recorder) = state::recorder() else {
        return false;
    };
    let now = recorder.now();
    if now.saturating_sub(SINCE.load(Ordering::Relaxed)) > WINDOW_NS {
        SINCE.store(now, Ordering::Relaxed);
        RECENT.store(0, Ordering::Relaxed);
    }
    RECENT.fetch_add(1, Ordering::Relaxed) < MOST
}

/// Has everything sent so far written to the file, and what is to be said at once of a failure said; waits for it, but no
/// longer than `patience`.
pub fn tell_of_a_failure(patience: Duration) {
    catch_up(patience);
}

/// Set when the first exit handler has run: from then on the process may be gone at any moment, without another word.
static IS_IN_A_HURRY: AtomicBool = AtomicBool::new(false);

/// What waiting for the file may cost the end of the process in all.
const HURRY: Duration = Duration::from_millis(250);

/// True if each event is to be in the file before its call returns.
#[inline]
pub fn is_in_a_hurry() -> bool {
    IS_IN_A_HURRY.load(Ordering::Relaxed)
}

/// From now on each event is in the file before its call returns, as long as that does not add up.
pub fn hurry() {
    IS_IN_A_HURRY.store(true, Ordering::Release);
}

/// Waits until everything sent so far is in the file, if the end of the process has not waited long enough already.
#[cold]
pub fn flush_at_the_end() {
    static SPENT_NS: AtomicU64 = AtomicU64::new(0);
    let left = HURRY.saturating_sub(Duration::from_nanos(SPENT_NS.load(Ordering::Relaxed)));
    if left.is_zero() {
        IS_IN_A_HURRY.store(false, Ordering::Release);
        return;
    }
    let begin = Instant::now();
    catch_up(left);
    SPENT_NS.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
}

/// Waits until the writer has taken everything sent so far and it is in the file, but no longer than `patience`.
pub fn catch_up(patience: Duration) {
    let ticket = take();
    let deadline = Instant::now() + patience;
    while SERVED.load(Ordering::Acquire) < ticket && Instant::now() < deadline && state::is_on() {
        cancel::sleep(Duration::from_micros(100));
    }
}
