//! Ends that run no exit handlers: `_exit`, `_Exit` and `quick_exit`. They are exported, since glibc's are told of by nobody.
//! (`exit` ends by glibc's own inner call, which does not come here.)

use super::super::cancel::NoCancel;
use super::super::guard::Busy;
use super::super::state::{self, Recorder};
use super::super::writer;
use super::{EXIT_CODE, Underway, ask_and_look, end};
use oomhook_trace::record::EndKind;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

// SAFETY: the signature of <stdlib.h> of glibc.
unsafe extern "C" {
    fn at_quick_exit(function: unsafe extern "C" fn()) -> c_int;
}

/// Has the end by `quick_exit` told: the handlers that the program registers later run before ours.
pub fn watch() {
    // SAFETY: a function of this library, which is never unloaded.
    unsafe { at_quick_exit(quick) };
}

unsafe extern "C" fn quick() {
    close();
}

/// Closes the trace and prints the report, if this process is the one that is recorded. A child of `vfork` shares its
/// parent's memory: it must leave everything as it is.
fn close() {
    let Some(recorder) = recorder_of_this_process() else {
        return;
    };
    writer::hurry();
    ask_and_look();
    // Also where the call comes from a signal handler that interrupted our own work: the writer is another thread, and
    // waiting for it needs no lock.
    let _underway = Underway::begin(recorder);
    let _busy = Busy::enter();
    let _whole = NoCancel::begin();
    let ended = std::panic::catch_unwind(|| end(recorder, EndKind::ImmediateExit));
    if ended.is_err() {
        state::finish();
    }
}

/// Not `own_recorder`, which would switch the parent's recording off in a child of `vfork`.
fn recorder_of_this_process() -> Option<&'static Recorder> {
    state::recorder().filter(|recorder| recorder.pid == std::process::id())
}

/// Keeps the code for the closing record. (Where it is not known, none is invented.)
#[cfg_attr(test, allow(dead_code))]
fn remember(code: c_int) {
    if recorder_of_this_process().is_some() {
        EXIT_CODE.store(code & 0xff, Ordering::Release);
    }
}

/// `_exit`, as far as it is ours.
#[cfg_attr(test, allow(dead_code))]
fn immediately(code: c_int) -> ! {
    remember(code);
    close();
    // SAFETY: ends the process, as glibc's `_exit` does.
    unsafe {
        libc::syscall(libc::SYS_exit_group, code);
    }
    unreachable!("exit_group does not return")
}

#[cfg(not(test))]
mod export {
    use super::{immediately, remember};
    use crate::preload::doors;
    use std::ffi::c_int;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn _exit(code: c_int) -> ! {
        immediately(code)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn _Exit(code: c_int) -> ! {
        immediately(code)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn quick_exit(code: c_int) -> ! {
        remember(code);
        let real = doors::behind_us(c"quick_exit");
        if real.is_null() {
            immediately(code)
        }
        type QuickExit = unsafe extern "C" fn(c_int) -> !;
        // SAFETY: glibc's function of this name and signature.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, QuickExit>(real)(code) }
    }
}
