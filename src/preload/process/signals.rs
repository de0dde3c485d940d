//! Signals that end the process. Where the program has left one at its default action, a handler of ours stands in for it:
//! it has the trace closed and the report printed, puts the default action back, and lets the signal end the process as it
//! would have done without us.
//!
//! What the handler does itself is safe in one: it stores and sleeps. The work is done by the writer, whose thread takes
//! no signals.

use super::super::guard::{self, NO_ID};
use super::super::on_demand;
use super::super::state;
use super::super::writer::{self, hold};
use super::dispositions::{self, Action};
use oomhook_trace::record::EndKind;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The signals whose default action ends a process and which may be caught.
pub const ENDING: [c_int; 20] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGSYS,
];

/// Sent by the kernel for an instruction that will fault again when the handler returns.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Set once the handlers are there; stays set in the children of forks, which inherit them.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// How long a signal in the middle of the process's own end waits for the trace.
const PATIENCE_WITH_END: Duration = Duration::from_secs(2);

/// True if our handler may stand in for this signal's default action.
pub fn is_watched(signal: c_int) -> bool {
    let is_known = ENDING.contains(&signal) || dispositions::is_asking(signal);
    is_known && WATCHING.load(Ordering::Acquire)
}

/// Stands in for every default action. Called once, when the recording begins.
pub fn watch() {
    WATCHING.store(true, Ordering::Release);
    watch_again();
}

/// Stands in for every default action that is not ours yet.
pub fn watch_again() {
    let ours = |signal: &c_int| may_stand_in(*signal) && !dispositions::is_asking(*signal);
    for signal in ENDING.into_iter().filter(ours) {
        dispositions::stand_in(signal);
    }
}

/// The kernel keeps every signal that has no handler from the first process of a container, except for its own faults: a
/// handler of ours would let them through.
pub fn may_stand_in(signal: c_int) -> bool {
    !is_first_process() || FAULTS.contains(&signal)
}

fn is_first_process() -> bool {
    std::process::id() == 1
}

/// Our handler.
pub unsafe extern "C" fn ended(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the location of this thread's errno is always valid; `info` is the kernel's.
    let (errno, code) = unsafe { (*libc::__errno_location(), (*info).si_code) };
    let is_fault = code > 0 && FAULTS.contains(&signal);
    if is_first_process() && !is_fault {
        return;
    }
    close(signal);
    dispositions::put_back(signal);
    if !is_fault {
        // Blocked until this handler returns, and then it ends the process; with its sender as it was.
        // SAFETY: takes this process, this thread and the kernel's own description of the signal.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_rt_tgsigqueueinfo,
                libc::getpid(),
                libc::gettid(),
                signal,
                info,
            )
        };
        if sent != 0 {
            // SAFETY: takes a signal.
            unsafe { libc::raise(signal) };
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Has the trace closed, if this process is the one that is recorded. (A child of `vfork` shares its parent's memory.)
fn close(signal: c_int) {
    let Some(recorder) = state::recorder_at_the_end() else {
        return;
    };
    if recorder.pid != std::process::id() {
        return;
    }
    if super::is_ending() {
        // The trace is being closed already; where this thread was at it, the report is given up.
        let deadline = Instant::now() + PATIENCE_WITH_END;
        while !writer::is_closed() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        return;
    }
    let id = guard::with(|thread| thread.id.get());
    hold::close(hold::Seeming {
        kind: EndKind::Signal,
        signal: u8::try_from(signal).ok(),
        thread: if id == NO_ID { 0 } else { id },
    });
    hold::leave(recorder);
}

/// A handler of the program's that the kernel is to forget when it runs (`SA_RESETHAND`): the default action that comes back
/// then is ours to stand in for, so it is done here.
pub unsafe extern "C" fn once(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    match dispositions::take_once(signal) {
        // SAFETY: the kernel's own arguments.
        Some(handler) => unsafe { run(handler, signal, info, context) },
        // Another thread was first: what the kernel would have done.
        // SAFETY: our own handler, with the kernel's arguments.
        None => unsafe { ended(signal, info, context) },
    }
}

/// The signal that asks for a report: leaves word, and does what the program's own handler does. Without one the signal means
/// nothing else.
pub unsafe extern "C" fn asks(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let recorder = state::recorder_at_the_end();
    if recorder.is_some_and(|recorder| recorder.pid == std::process::id()) {
        on_demand::asked_by_signal();
    }
    if let Some(handler) = dispositions::besides(signal) {
        // SAFETY: the kernel's own arguments.
        unsafe { run(handler, signal, info, context) };
    }
}

/// Runs a handler of the program's with what the kernel says.
///
/// # Safety
/// The arguments are those of a signal's delivery.
unsafe fn run(handler: Action, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the program's own handler, of the kind that it was installed as.
    unsafe {
        match handler {
            Action::Plain(handler) => handler(signal),
            Action::WithInfo(handler) => handler(signal, info, context),
        }
    }
}
