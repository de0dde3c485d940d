//! The watched process's own life: its end, its forks, our panics.
//!
//! Order at exit (glibc): the program's own exit handlers, newest first, and with them ours, which was registered when
//! the recording began, so after `cuInit`: there the driver still answers. Then the program's static destructors, then
//! this library's `.fini_array`, then the libraries' destructors, where the driver answers no more.

mod dispositions;
mod ends;
mod exec;
mod signals;

pub use dispositions::{ask_by, in_child as signals_in_child};
pub use signals::{is_fault, watch_again as watch_signals_again};

use super::cancel::NoCancel;
use super::devices::pools;
use super::doors::bypass;
use super::guard::{self, Busy, NO_ID, NO_ROW};
use super::raw::Raw;
use super::state::{self, Recorder};
use super::writer::{self, Ending};
use super::{channel, loader, log, memory, nvml, report, talk};
use oomhook_trace::Record;
use oomhook_trace::record::EndKind;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// The exit code as our exit handler was told; negative before.
static EXIT_CODE: AtomicI32 = AtomicI32::new(-1);

/// How long the end of the process may wait for the writer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may wait for the driver's figures of its pools.
const PATIENCE_WITH_DRIVER: Duration = Duration::from_millis(500);

// SAFETY: the signature of <stdlib.h> of glibc.
unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registers for the end and for forks. Called once, when the recording begins.
pub fn watch_the_end() {
    // SAFETY: functions of this library, which is never unloaded.
    unsafe {
        on_exit(exiting, std::ptr::null_mut());
        ends::watch();
        signals::watch();
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(forked));
    }
}

/// A panic of ours is no business of the program's: one line instead of the standard message with its back trace.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map(|at| format!(" ({}:{})", at.file(), at.line()));
        state::say(&format!("internal error{}", place.unwrap_or_default()));
    }));
}

/// The first exit handler that we see. The driver still answers: the last moment to ask it for its figures.
unsafe extern "C" fn exiting(code: c_int, _: *mut c_void) {
    EXIT_CODE.store(code & 0xff, Ordering::Release);
    if own_recorder().is_some() {
        writer::hurry();
        ask_and_look();
    }
}

/// The figures of pools and a look at the devices, for the last time. They are asked for by a thread that is there: where
/// `exit` was called in a signal handler, the allocator may be locked for ever, and a new thread wants memory of it. Where a
/// call of the driver was interrupted, that may hold a lock of its own.
fn ask_and_look() {
    let in_a_call = guard::with(|thread| thread.depth.get() > 0 || thread.label.get() != NO_ROW);
    nvml::look_at_the_end(PATIENCE_WITH_DRIVER, !in_a_call && pools::any());
}

/// The recorder, unless this process is a child that came to be past `pthread_atfork` (`_Fork`, a raw system call).
fn own_recorder() -> Option<&'static Recorder> {
    let recorder = state::recorder_at_the_end()?;
    if recorder.pid == std::process::id() {
        return Some(recorder);
    }
    state::abandon();
    None
}

fn thread_number() -> u32 {
    let id = guard::with(|thread| thread.id.get());
    if id == NO_ID { 0 } else { id }
}

/// Set while the forking thread holds our heap for the fork.
static IS_HEAP_HELD: AtomicBool = AtomicBool::new(false);

/// Neither the list of loaded objects nor our heap may be in use at the moment of a fork: the child would find them so for
/// ever.
unsafe extern "C" fn before_fork() {
    // SAFETY: it takes nothing.
    unsafe { loader::before_fork() };
    IS_HEAP_HELD.store(memory::hold_for_fork(), Ordering::Release);
}

fn release_heap() {
    if IS_HEAP_HELD.swap(false, Ordering::AcqRel) {
        memory::release_after_fork();
    }
}

unsafe extern "C" fn after_fork() {
    release_heap();
    // SAFETY: it takes nothing.
    unsafe { loader::after_fork() };
}

/// The child of a fork has no writer and no CUDA; it is not recorded, and what the parent had is not its own.
unsafe extern "C" fn forked() {
    log::stop();
    state::abandon();
    release_heap();
    loader::in_child();
}

/// After the program's own destructors: the trace is closed and the report printed. Also when `exit` was called in a signal
/// handler that interrupted our own work: the writer is another thread, and waiting for it needs no lock.
unsafe extern "C" fn finalise() {
    if state::ran_out_of_memory() {
        return state::say("recording stopped for lack of memory; the trace ends early");
    }
    let Some(recorder) = own_recorder() else {
        return;
    };
    let _underway = Underway::begin(recorder);
    let _busy = Busy::enter();
    let _whole = NoCancel::begin();
    if std::panic::catch_unwind(|| end(recorder, EndKind::Exit)).is_err() {
        state::finish();
    }
}

/// Since when our own end of the process is under way, in nanoseconds of the recording plus one; 0 before and after.
static ENDING_SINCE: AtomicU64 = AtomicU64::new(0);

/// Longer than this our end of the process never takes, unless it hangs.
const LONGEST_END: Duration = Duration::from_secs(12);

/// True while our end of the process is under way.
pub fn is_ending() -> bool {
    ENDING_SINCE.load(Ordering::Acquire) != 0
}

/// True if it hangs: `exit` was called in a signal handler that interrupted an allocation, and the allocator waits for
/// itself. The writer looks after that.
pub fn hangs() -> bool {
    let since = ENDING_SINCE.load(Ordering::Acquire);
    let now = state::last_recorder().map_or(0, Recorder::now);
    since != 0 && now.saturating_sub(since) > LONGEST_END.as_nanos() as u64
}

/// Ends the process in the place of a thread that hangs in our own end of it. The trace is complete, the report is given up.
pub fn end_at_once() -> ! {
    // A text that exists: whatever allocates may hang as well.
    talk::write(
        "oomhook: the process ended in the middle of an allocation: no report; the trace is complete\n",
    );
    let code = EXIT_CODE.load(Ordering::Acquire).max(0);
    loop {
        // SAFETY: ends the process, with the code that it was to have.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// The code that the process ends with, as far as it is known.
pub fn exit_code() -> Option<u8> {
    u8::try_from(EXIT_CODE.load(Ordering::Acquire)).ok()
}

/// Marks our end of the process as under way until dropped.
struct Underway;

impl Underway {
    fn begin(recorder: &Recorder) -> Underway {
        ENDING_SINCE.store(recorder.now() + 1, Ordering::Release);
        Underway
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        ENDING_SINCE.store(0, Ordering::Release);
    }
}

/// Tells of libraries whose calls could not be seen.
fn name_bypasses(recorder: &Recorder) {
    for path in bypass::libraries() {
        let text = format!(
            "{path} was loaded with RTLD_DEEPBIND and goes round oomhook: if it has a CUDA runtime of its own inside, \
             what that allocates is not seen"
        );
        let time_ns = recorder.now();
        let note = Record::Note { time_ns, text };
        channel::send(&recorder.sender, Raw::boxed(note));
    }
}

fn end(recorder: &Recorder, kind: EndKind) {
    name_bypasses(recorder);
    // Other threads may be at it: the writer would never see the end of what they send.
    state::hold();
    let undisturbed = signals::Undisturbed::begin();
    let ending = Ending {
        kind,
        code: exit_code(),
        thread: thread_number(),
    };
    let books = writer::finish(ending, PATIENCE);
    match books.as_ref().map(|books| books.for_report()) {
        Some(Some(books)) => report::print(recorder, &books),
        Some(None) => state::say("too little memory for the report; the trace has everything"),
        None => state::say("the writer did not finish in time; the trace may end early"),
    }
    // A signal that was to end the process meanwhile has waited for that.
    signals::catch_up(undisturbed);
    state::finish();
}

/// Run by the loader when the process ends.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINALISE: unsafe extern "C" fn() = finalise;

#[cfg(test)]
const _: unsafe extern "C" fn() = finalise;
