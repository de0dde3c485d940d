//! Threads by number: assigned at a thread's first event; its name is taken then and again when it ends, since many
//! programs name their threads late.

use super::guard::{NO_ID, Thread};
use super::raw::{Kind, Raw, pack_name};
use super::state::Recorder;
use super::{channel, guard, phases, stack, state};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// `pthread_key_t` + 1 of the key whose destructor tells us of a thread's end; 0 before it is made.
static KEY: AtomicU32 = AtomicU32::new(0);

/// The thread's number; announces the thread when it has none yet.
#[inline]
pub fn number(recorder: &'static Recorder, thread: &Thread) -> u32 {
    let id = thread.id.get();
    if id != NO_ID {
        id
    } else {
        announce(recorder, thread)
    }
}

#[cold]
fn announce(recorder: &'static Recorder, thread: &Thread) -> u32 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    thread.id.set(id);
    let (low, high) = pack_name(&name());
    // SAFETY: gettid takes nothing.
    let tid = unsafe { libc::gettid() };
    let raw = Raw {
        a: low,
        b: high,
        c: tid as u64,
        thread: id,
        ..Raw::new(Kind::Thread)
    };
    channel::send(
        &recorder.sender,
        Raw {
            time_ns: recorder.now(),
            ..raw
        },
    );
    watch();
    phases::tell_open(recorder, id);
    id
}

fn name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: PR_GET_NAME writes 16 bytes at most, NUL-terminated.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    name
}

/// Has `ended` called when this thread ends. A pthread key and no Rust thread-local with a destructor: the latter would
/// pin the library by a call into the loader.
fn watch() {
    let mut key = KEY.load(Ordering::Acquire);
    if key == 0 {
        let mut made: libc::pthread_key_t = 0;
        // SAFETY: `made` is valid for writes; the destructor is a function of this library, which is never unloaded.
        if unsafe { libc::pthread_key_create(&mut made, Some(ended)) } != 0 {
            return;
        }
        match KEY.compare_exchange(0, made + 1, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => key = made + 1,
            Err(other) => {
                // SAFETY: our key, which nobody else has seen.
                unsafe { libc::pthread_key_delete(made) };
                key = other;
            }
        }
    }
    // SAFETY: a key made above; any non-null value makes the destructor run.
    unsafe { libc::pthread_setspecific(key - 1, std::ptr::dangling::<c_void>()) };
}

unsafe extern "C" fn ended(_: *mut c_void) {
    stack::forget();
    let Some(recorder) = state::recorder() else {
        return;
    };
    let id = guard::with(|thread| thread.id.get());
    if id == NO_ID {
        return;
    }
    let (low, high) = pack_name(&name());
    let raw = Raw {
        a: low,
        b: high,
        thread: id,
        ..Raw::new(Kind::ThreadExit)
    };
    channel::send(
        &recorder.sender,
        Raw {
            time_ns: recorder.now(),
            ..raw
        },
    );
}
