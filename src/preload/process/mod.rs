//! The watched process's own life: its end, its forks, our panics.
//!
//! Order at exit (glibc): the program's own exit handlers, newest first, and with them ours, which was registered when
//! the recording began, so after `cuInit`: there the driver still answers. Then the program's static destructors, then
//! this library's `.fini_array`, then the libraries' destructors, where the driver answers no more.

use super::devices::pools;
use super::doors::bypass;
use super::guard::{self, Busy, NO_ID};
use super::raw::Raw;
use super::state::{self, Recorder};
use super::writer::{self, Ending};
use super::{channel, report};
use oomhook_trace::Record;
use oomhook_trace::record::EndKind;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The exit code as our exit handler was told; negative before.
static EXIT_CODE: AtomicI32 = AtomicI32::new(-1);

/// How long the end of the process may wait for the writer.
const PATIENCE: Duration = Duration::from_secs(5);

unsafe extern "C" {
    fn on_exit(function: unsafe extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registers for the end and for forks. Called once, when the recording begins.
pub fn watch_the_end() {
    // SAFETY: functions of this library, which is never unloaded.
    unsafe {
        on_exit(exiting, std::ptr::null_mut());
        libc::pthread_atfork(None, None, Some(forked));
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
    let Some(recorder) = state::recorder() else {
        return;
    };
    let Some(_busy) = Busy::enter() else { return };
    let _ = std::panic::catch_unwind(|| {
        for record in pools::all_states(recorder, thread_number()) {
            channel::send(&recorder.sender, Raw::boxed(record));
        }
    });
}

fn thread_number() -> u32 {
    let id = guard::with(|thread| thread.id.get());
    if id == NO_ID { 0 } else { id }
}

/// The child of a fork has no writer and no CUDA; it is not recorded, and what the parent had is not its own.
unsafe extern "C" fn forked() {
    state::abandon();
}

/// After the program's own destructors: the trace is closed and the report printed.
unsafe extern "C" fn finalise() {
    let Some(recorder) = state::recorder() else {
        return;
    };
    let Some(_busy) = Busy::enter() else { return };
    if std::panic::catch_unwind(|| end(recorder)).is_err() {
        state::finish();
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

fn end(recorder: &Recorder) {
    name_bypasses(recorder);
    let code = EXIT_CODE.load(Ordering::Acquire);
    let code = u8::try_from(code).ok();
    let ending = Ending {
        kind: EndKind::Exit,
        code,
        thread: thread_number(),
    };
    let books = writer::finish(ending, PATIENCE);
    state::finish();
    match books {
        Some(books) => report::print(recorder, &books),
        None => state::say("the writer did not finish in time; the trace may end early"),
    }
}

/// Run by the loader when the process ends.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".fini_array")]
static FINALISE: unsafe extern "C" fn() = finalise;

#[cfg(test)]
const _: unsafe extern "C" fn() = finalise;
