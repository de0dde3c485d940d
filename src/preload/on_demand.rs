//! A report of a process that goes on, asked for by a signal (`OOMHOOK_SIGNAL`).
//!
//! The handler only leaves word. The writer hands a copy of its books to a short-lived thread, which finds the names and
//! writes: neither the interrupted thread nor the writer may do that. One report at a time; signals that come meanwhile
//! are answered together by one more.

use super::state::{self, Recorder};
use super::writer::Books;
use super::{report, thread};
use std::ffi::{c_int, c_void};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// A signal has come since the last look.
static ASKED: AtomicBool = AtomicBool::new(false);
/// A report is being made.
static UNDERWAY: AtomicBool = AtomicBool::new(false);
/// The signal that asks; 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);
/// What the program had done with it. Made once, never freed: handlers may run at any time.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

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
        let print = AssertUnwindSafe(|| report::print_now(recorder, &books));
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

/// Installs the handler.
pub fn watch_signal(signal: c_int) {
    let Some(before) = action(signal, None) else {
        return state::say(&format!(
            "signal {signal} cannot ask for a report here; none is used"
        ));
    };
    let before = Box::leak(Box::new(before));
    BEFORE.store(before, Ordering::Release);
    SIGNAL.store(signal, Ordering::Release);
    let mut ours = *before;
    if function_of(before).is_none() {
        // SAFETY: an empty set is made of whatever it was.
        unsafe { libc::sigemptyset(&mut ours.sa_mask) };
        ours.sa_flags = libc::SA_RESTART;
    }
    // Where the program has a handler, its flags stay: it may want its system calls interrupted, or one signal only.
    ours.sa_flags |= libc::SA_SIGINFO | libc::SA_ONSTACK;
    ours.sa_sigaction = handler as *const () as usize;
    if action(signal, Some(&ours)).is_none() {
        state::say(&format!(
            "signal {signal} cannot ask for a report here; none is used"
        ));
    }
}

/// In the child of a fork: the signal means to it what it would have meant without us.
pub fn in_child() {
    let signal = SIGNAL.load(Ordering::Acquire);
    if signal == 0 {
        return;
    }
    // SAFETY: set once to a leaked box.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    let is_ours =
        action(signal, None).is_some_and(|now| now.sa_sigaction == handler as *const () as usize);
    if let Some(before) = before.filter(|_| is_ours) {
        action(signal, Some(before));
    }
}

/// Sets what is done with a signal, if `new` says something; what was done before.
fn action(signal: c_int, new: Option<&libc::sigaction>) -> Option<libc::sigaction> {
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `new` is NULL or valid for reads; `before` is filled on success.
    unsafe {
        (libc::sigaction(signal, new, before.as_mut_ptr()) == 0).then(|| before.assume_init())
    }
}

/// The program's handler, if it has one.
fn function_of(action: &libc::sigaction) -> Option<usize> {
    let function = action.sa_sigaction;
    (function != libc::SIG_DFL && function != libc::SIG_IGN).then_some(function)
}

/// Leaves word, and does what the program's handler does.
unsafe extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    type Plain = unsafe extern "C" fn(c_int);
    type Told = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    asked_by_signal();
    // SAFETY: set once to a leaked box, before the handler was installed.
    let Some(before) = (unsafe { BEFORE.load(Ordering::Acquire).as_ref() }) else {
        return;
    };
    let Some(function) = function_of(before) else {
        return;
    };
    // SAFETY: the program installed this function, of the kind that its own flags say.
    unsafe {
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            std::mem::transmute::<usize, Told>(function)(signal, info, context);
        } else {
            std::mem::transmute::<usize, Plain>(function)(signal);
        }
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
