//! An end of the process that may turn out to be none: a signal whose default action ends it, `exec`. The writer closes the
//! trace and prints the report, but keeps its books; if the process lives on, it goes on.
//!
//! ```text
//! None ──close()──▶ Asked ──writer──▶ Filed ──writer──▶ Reported
//!   ▲                                   └──────┬──────────┘
//!   └────── go_on(), or the process is still there a while after leave() ──────┘
//! ```
//! What the thread that ends the process does here is safe in a signal handler: it stores, and it sleeps.

use super::super::cancel;
use super::super::memory;
use super::super::state::{self, Recorder};
use oomhook_trace::record::EndKind;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NONE: u32 = 0;
const PREPARING: u32 = 1;
const ASKED: u32 = 2;
const FILED: u32 = 3;
const REPORTED: u32 = 4;

static STAGE: AtomicU32 = AtomicU32::new(NONE);
/// Counts the ends that were asked for: one may be over and the next one asked for before the writer looks again.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static KIND: AtomicU8 = AtomicU8::new(0);
static SIGNAL: AtomicU8 = AtomicU8::new(0);
static THREAD: AtomicU32 = AtomicU32::new(0);
/// When the thread that ends the process went its way, in nanoseconds of the recording plus one.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// The thread that ends may be in the middle of anything.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How long the end waits for the trace, and after that for the report.
const PATIENCE_WITH_TRACE: Duration = Duration::from_secs(5);
const PATIENCE_WITH_REPORT: Duration = Duration::from_secs(3);

/// A process that is still there so long after its end lives on.
const LONGEST_DEATH_NS: u64 = 300_000_000;

/// How the process seems to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeming {
    /// In which way.
    pub kind: EndKind,
    /// The signal, if it is one.
    pub signal: Option<u8>,
    /// The thread that ends it.
    pub thread: u32,
    /// Which end it is.
    pub number: u32,
}

/// Has the trace closed and the report printed, and waits for both, for a bounded time. Whoever records meanwhile waits. False
/// if it was put off: the process is ending in another way already.
pub fn close(kind: EndKind, signal: Option<u8>, thread: u32) -> bool {
    let first = STAGE.compare_exchange(NONE, PREPARING, Ordering::AcqRel, Ordering::Acquire);
    if first.is_ok() {
        KIND.store(kind as u8, Ordering::Relaxed);
        SIGNAL.store(signal.unwrap_or(0), Ordering::Relaxed);
        THREAD.store(thread, Ordering::Relaxed);
        LEFT.store(0, Ordering::Relaxed);
        NUMBER.fetch_add(1, Ordering::AcqRel);
        if signal.is_some() {
            INTERRUPTED.store(true, Ordering::Relaxed);
            memory::expect_the_worst(true);
        }
        state::hold();
        STAGE.store(ASKED, Ordering::Release);
    }
    // Two threads may crash at once: the second one waits for the same.
    if wait_for(FILED, PATIENCE_WITH_TRACE) {
        wait_for(REPORTED, PATIENCE_WITH_REPORT);
    }
    STAGE.load(Ordering::Acquire) != NONE
}

fn wait_for(stage: u32, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let now = STAGE.load(Ordering::Acquire);
        if now >= stage || now == NONE {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        cancel::sleep(Duration::from_micros(100));
    }
}

/// The thread that ends the process goes its way now: it will be gone in a moment, or it lives on.
pub fn leave(recorder: &Recorder) {
    LEFT.store(recorder.now() + 1, Ordering::Release);
}

/// It was no end.
pub fn go_on() {
    if INTERRUPTED.swap(false, Ordering::AcqRel) {
        memory::expect_the_worst(false);
    }
    STAGE.store(NONE, Ordering::Release);
    state::release();
}

/// It is to wait: the process is ending in another way already. For the writer.
pub fn put_off() {
    let _ = STAGE.compare_exchange(ASKED, NONE, Ordering::AcqRel, Ordering::Acquire);
}

/// The end that the writer is asked to write. For the writer.
pub fn asked() -> Option<Seeming> {
    if STAGE.load(Ordering::Acquire) != ASKED {
        return None;
    }
    let kind = KIND.load(Ordering::Relaxed);
    let signal = SIGNAL.load(Ordering::Relaxed);
    Some(Seeming {
        kind: if kind == EndKind::Exec as u8 {
            EndKind::Exec
        } else {
            EndKind::Signal
        },
        signal: (signal != 0).then_some(signal),
        thread: THREAD.load(Ordering::Relaxed),
        number: NUMBER.load(Ordering::Acquire),
    })
}

/// The trace is complete. For the writer.
pub fn filed() {
    advance(ASKED, FILED);
}

/// The report is printed, or given up. For the writer.
pub fn reported() {
    advance(FILED, REPORTED);
}

fn advance(from: u32, to: u32) {
    let _ = STAGE.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
}

/// True while nothing may follow this end in the trace. For the writer; it also finds out here that the process lives on.
pub fn is_on(end: &Seeming, recorder: &Recorder) -> bool {
    if STAGE.load(Ordering::Acquire) == NONE || NUMBER.load(Ordering::Acquire) != end.number {
        return false;
    }
    let left = LEFT.load(Ordering::Acquire);
    if left != 0 && recorder.now().saturating_sub(left) > LONGEST_DEATH_NS {
        go_on();
        return false;
    }
    true
}
