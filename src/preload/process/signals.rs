//! Signals that end the process. Where the program has left one at its default action, a handler of ours stands in for it:
//! it has the trace closed and the report printed, puts the default action back, and lets the signal end the process as it
//! would have done without us.
//!
//! What the handler does itself is safe in one: it stores and sleeps. The work is done by the writer, whose thread takes
//! no signals.

use super::super::guard::{self, NO_ID};
use super::super::on_demand;
use super::super::state;
use super::super::writer::hold;
use super::dispositions::{self, Action, is_recorded_here};
use oomhook_trace::record::EndKind;
use std::ffi::{c_int, c_void};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The signals whose default action ends a process and which may be caught, but for those of real time.
const NAMED: [c_int; 22] = [
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
    libc::SIGSTKFLT,
    libc::SIGPWR,
];

/// The first and last signal of real time; the two below are the C library's own.
const REAL_TIME: RangeInclusive<c_int> = 34..=64;

/// All of them.
fn ending() -> impl Iterator<Item = c_int> {
    NAMED.into_iter().chain(REAL_TIME)
}

/// Sent by the kernel for an instruction that will fault again when the handler returns.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// True for a signal that the kernel sends for an instruction.
pub fn is_fault(signal: u8) -> bool {
    FAULTS.contains(&c_int::from(signal))
}

/// Set once the handlers are there; stays set in the children of forks, which inherit them.
static WATCHING: AtomicBool = AtomicBool::new(false);

/// True if our handler may stand in for this signal's default action.
pub fn is_watched(signal: c_int) -> bool {
    let is_known =
        NAMED.contains(&signal) || REAL_TIME.contains(&signal) || dispositions::is_asking(signal);
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
    for signal in ending().filter(ours) {
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
    let is_ending = || super::is_ending() && is_recorded_here();
    if !is_fault && (is_ending() || !close(signal) && is_ending()) {
        // The process is ending by itself, perhaps in this very thread: the signal waits until the report is there.
        PUT_OFF.store(signal, Ordering::Release);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    if is_fault {
        close(signal);
    }
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

/// A signal that came while the process was ending by itself; 0 for none.
static PUT_OFF: AtomicI32 = AtomicI32::new(0);

/// Ends the process by a signal that was put off, or that waits for this thread to be disturbed again. For the thread that
/// ends it, when all is written.
pub fn catch_up(undisturbed: Undisturbed) {
    let put_off = PUT_OFF.swap(0, Ordering::AcqRel);
    let signal = if put_off != 0 {
        Some(put_off)
    } else {
        waiting()
    };
    if let Some(signal) = signal {
        close(signal);
        dispositions::put_back(signal);
        // SAFETY: takes a signal.
        unsafe { libc::raise(signal) };
    }
    drop(undisturbed);
}

/// A signal that waits and that we stand in for.
fn waiting() -> Option<c_int> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigpending fills the set.
    let set = unsafe {
        if libc::sigpending(set.as_mut_ptr()) != 0 {
            return None;
        }
        set.assume_init()
    };
    // SAFETY: a valid set.
    let is_waiting = |signal: &c_int| unsafe { libc::sigismember(&set, *signal) == 1 };
    ending()
        .filter(is_waiting)
        .find(|signal| dispositions::stands_in(*signal))
}

/// Keeps signals from the calling thread until dropped, but for those of its own faults: whoever sends them again and again
/// would never let it come to an end.
pub struct Undisturbed {
    before: libc::sigset_t,
}

impl Undisturbed {
    /// Until the value is dropped.
    pub fn begin() -> Undisturbed {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the set is filled before it is used; `before` is filled by the call.
        unsafe {
            libc::sigfillset(set.as_mut_ptr());
            for fault in FAULTS.into_iter().chain([libc::SIGTRAP, libc::SIGABRT]) {
                libc::sigdelset(set.as_mut_ptr(), fault);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            Undisturbed {
                before: before.assume_init(),
            }
        }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        // SAFETY: the mask that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Has the trace closed, if this process is the one that is recorded. (A child of `vfork` shares its parent's memory.)
///
/// False if that was put off.
fn close(signal: c_int) -> bool {
    let Some(recorder) = state::recorder_at_the_end() else {
        return true;
    };
    if !is_recorded_here() {
        return true;
    }
    let id = guard::with(|thread| thread.id.get());
    let thread = if id == NO_ID { 0 } else { id };
    let closed = hold::close(EndKind::Signal, u8::try_from(signal).ok(), thread);
    hold::leave(recorder);
    closed
}

/// A handler of the program's that the kernel is to forget when it runs (`SA_RESETHAND`): the default action that comes back
/// then is ours to stand in for, so it is done here.
pub unsafe extern "C" fn once(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    if !is_recorded_here() {
        // A child: of `vfork`, which must leave its parent's view as it is, or of `fork`. The kernel's disposition is its own.
        let handler = dispositions::handler_of(signal);
        dispositions::put_back(signal);
        if let Some(handler) = handler {
            // SAFETY: the kernel's own arguments.
            unsafe { run(handler, signal, info, context) };
        }
        return;
    }
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
    let handler = if is_recorded_here() {
        on_demand::asked_by_signal();
        dispositions::besides(signal)
    } else {
        dispositions::handler_of(signal)
    };
    if let Some(handler) = handler {
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
