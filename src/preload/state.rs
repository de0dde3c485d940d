//! Whether this process is being recorded, and the one recorder it has.
//!
//! ```text
//! Idle ──first context or allocation──▶ Starting ──▶ On ──end, fork child, trouble──▶ Off
//!   └──OOMHOOK=0, another command──▶ Off           ▲ │
//!                            it was no end after all │ ▼ a signal that ends the process, exec
//!                                                   Held
//! ```
//! `Off` is final: nothing is recorded in this process any more. While it is `Held`, whoever wants to record waits.

use super::cancel;
use super::config::Config;
use super::intern::Interner;
use super::raw::Raw;
pub use super::talk::say;
use super::{channel, log, memory, nvml, on_demand, pretend, process, writer};
use crossbeam_channel::Sender;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};
use std::time::{Duration, Instant};

const IDLE: u8 = 0;
const STARTING: u8 = 1;
const ON: u8 = 2;
const OFF: u8 = 3;
const HELD: u8 = 4;

/// Nobody waits longer than this for an end that does not come.
const LONGEST_HOLD: Duration = Duration::from_secs(20);

static STATE: AtomicU8 = AtomicU8::new(IDLE);
static MEMORY_RAN_OUT: AtomicBool = AtomicBool::new(false);
static RECORDER: AtomicPtr<Recorder> = AtomicPtr::new(std::ptr::null_mut());

/// What the start of a recording takes, with some room to spare.
const START_NEEDS: usize = 24 << 20;

/// What the hooks need to record. Made once, never freed: hooks run until the very end of the process.
pub struct Recorder {
    /// The process that began the recording.
    pub pid: u32,
    /// Instant 0 of all event times.
    base: Monotonic,
    /// To the writer.
    pub sender: Sender<Raw>,
    /// Stacks seen so far.
    pub stacks: Interner,
    /// Settings.
    pub config: Config,
}

impl Recorder {
    /// Nanoseconds since the recording began.
    #[inline]
    pub fn now(&self) -> u64 {
        Monotonic::now().0.saturating_sub(self.base.0)
    }
}

/// Nanoseconds of the clock that never goes back. (`Instant` has the same and takes twice the time to subtract.)
#[derive(Clone, Copy)]
struct Monotonic(u64);

impl Monotonic {
    #[inline]
    fn now() -> Monotonic {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is valid for writes; this clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        Monotonic(
            (now.tv_sec as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(now.tv_nsec as u64),
        )
    }
}

/// True while events are recorded.
#[inline]
pub fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) == ON
}

/// True once nothing will be recorded any more.
#[inline]
pub fn is_off() -> bool {
    STATE.load(Ordering::Relaxed) == OFF
}

/// True once the settings were taken, or it was found that there is nothing to record.
pub fn has_begun() -> bool {
    matches!(STATE.load(Ordering::Acquire), ON | HELD | OFF)
}

/// The recorder, if events are being recorded.
#[inline]
pub fn recorder() -> Option<&'static Recorder> {
    match STATE.load(Ordering::Acquire) {
        ON => last_recorder(),
        HELD => after_the_hold(),
        _ => None,
    }
}

/// The recorder, if events are being recorded at this moment; waits for nothing. Safe in a signal handler.
pub fn recorder_at_once() -> Option<&'static Recorder> {
    if is_on() { last_recorder() } else { None }
}

/// Waits for the end of the process, or for its going on. What happens meanwhile would otherwise stand behind the closing
/// record, and deny it.
#[cold]
fn after_the_hold() -> Option<&'static Recorder> {
    let patience = Instant::now() + LONGEST_HOLD;
    while STATE.load(Ordering::Acquire) == HELD && Instant::now() < patience {
        cancel::sleep(Duration::from_micros(100));
    }
    if is_on() { last_recorder() } else { None }
}

/// The recorder, for the thread that ends the process itself: whether others are held does not matter to it.
pub fn recorder_at_the_end() -> Option<&'static Recorder> {
    match STATE.load(Ordering::Acquire) {
        ON | HELD => last_recorder(),
        _ => None,
    }
}

/// True while nobody records, since the process seems to end.
pub fn is_held() -> bool {
    STATE.load(Ordering::Relaxed) == HELD
}

/// Lets nobody record until [`release`].
pub fn hold() {
    let _ = STATE.compare_exchange(ON, HELD, Ordering::AcqRel, Ordering::Acquire);
}

/// Takes [`hold`] back: the process lives on.
pub fn release() {
    let _ = STATE.compare_exchange(HELD, ON, Ordering::AcqRel, Ordering::Acquire);
}

/// The recorder even if recording has ended (for the report).
pub fn last_recorder() -> Option<&'static Recorder> {
    // SAFETY: set once to a leaked box before the state became ON.
    unsafe { RECORDER.load(Ordering::Acquire).as_ref() }
}

/// Begins the recording if it has not begun; other threads that come here meanwhile wait until it has.
#[cold]
pub fn start() {
    match STATE.compare_exchange(IDLE, STARTING, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            let begun = begin();
            // A fork child that was made meanwhile may have switched off for good: do not undo that.
            let next = if begun { ON } else { OFF };
            let _ = STATE.compare_exchange(STARTING, next, Ordering::AcqRel, Ordering::Acquire);
        }
        Err(STARTING) => {
            // Bounded, so that a thread that died while starting cannot hang the others.
            let patience = Instant::now() + Duration::from_secs(5);
            while STATE.load(Ordering::Acquire) == STARTING && Instant::now() < patience {
                cancel::sleep(Duration::from_micros(50));
            }
        }
        Err(_) => {}
    }
}

fn begin() -> bool {
    let (config, complaints) = Config::from_environment();
    if !config.on {
        return false;
    }
    if !memory::can_have(START_NEEDS) {
        say("too little memory for a recording; the program goes on");
        return false;
    }
    process::silence_panics();
    for complaint in complaints {
        say(&complaint);
    }
    let (sender, receiver) = channel::new();
    let Some(stacks) = Interner::new() else {
        say("no memory for the table of stacks; nothing is recorded, the program goes on");
        return false;
    };
    super::stack::warm_up();
    pretend::begin(&config);
    let recorder = Box::leak(Box::new(Recorder {
        pid: std::process::id(),
        base: Monotonic::now(),
        sender,
        stacks,
        config,
    }));
    RECORDER.store(recorder, Ordering::Release);
    if let Err(error) = writer::spawn(recorder, receiver) {
        say(&format!(
            "no thread for the writer ({error}); nothing is recorded, the program goes on"
        ));
        return false;
    }
    if recorder.config.log {
        log::begin();
    }
    process::watch_the_end();
    nvml::start(recorder, recorder.config.sample);
    if let Some(signal) = recorder.config.signal {
        on_demand::watch_signal(signal);
    }
    true
}

/// Ends the recording for good. Events under way are lost only if the reason is trouble of our own.
#[cold]
pub fn switch_off(reason: &str) {
    if STATE.swap(OFF, Ordering::AcqRel) != OFF {
        say(reason);
    }
}

/// Our allocator has nothing left: the recording ends here. (Called by the allocator: no word, no allocation.)
pub fn out_of_memory() {
    MEMORY_RAN_OUT.store(true, Ordering::Release);
    STATE.store(OFF, Ordering::Release);
}

/// True if the recording ended for lack of memory.
pub fn ran_out_of_memory() -> bool {
    MEMORY_RAN_OUT.load(Ordering::Acquire)
}

/// Ends the recording without a word (the end of the process).
pub fn finish() {
    STATE.store(OFF, Ordering::Release);
}

/// In the child of a fork: the parent's recording is not ours. The writer thread does not exist here, and CUDA itself
/// is unusable in the child of a process that has initialised it.
pub fn abandon() {
    STATE.store(OFF, Ordering::Release);
    process::signals_in_child();
}
