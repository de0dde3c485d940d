//! The stack of the calling thread, as a reference into the table of stacks.

mod kept;
mod native;
mod python;
mod readable;
mod reads;
mod room;

use super::raw::Raw;
use super::state::Recorder;
use super::{channel, libraries};
use kept::{Kept, Zeroed};
use oomhook_trace::Record;
pub use python::words;
use room::Room;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most words of a stack.
const MOST_WORDS: usize = native::MOST_FRAMES + python::MOST_FRAMES + 1;

/// What a capture fills, kept for each thread.
struct Workspace {
    native: native::Captures,
    python: python::Captures,
    words: Room<u64, MOST_WORDS>,
    /// Reference of the latest capture; 0 if there is none. In a loop the next one is the same, and need be neither merged nor
    /// looked up.
    latest: u32,
    /// The loaded objects were those of this generation.
    generation: u32,
}

// SAFETY: numbers, and lists without items.
unsafe impl Zeroed for Workspace {}

thread_local! {
    static WORKSPACE: Kept<Workspace> = const { Kept::new() };
}

/// Captures the calling thread's stack: a reference into the table; 0 if there is no frame, or no room.
pub fn capture(recorder: &Recorder) -> u32 {
    let config = &recorder.config;
    if !config.native_stacks && !config.python_stacks {
        return 0;
    }
    if !native::has_room() {
        return say_no_room(recorder);
    }
    WORKSPACE.with(|workspace| {
        workspace.with(|workspace| workspace.map_or(0, |workspace| fill(recorder, workspace)))
    })
}

fn fill(recorder: &Recorder, workspace: &mut Workspace) -> u32 {
    let config = &recorder.config;
    let Workspace {
        native,
        python,
        words,
        latest,
        generation,
    } = workspace;
    let counts = libraries::now();
    let mut is_known = *latest != 0 && *generation == counts.generation;
    if config.native_stacks {
        is_known &= native.take(counts.unloads, config.depth);
    }
    if config.python_stacks {
        is_known &= python.take(recorder, counts.generation);
    }
    if is_known {
        return *latest;
    }
    *latest = 0;
    let (frames, python) = (native.frames(), python.stack());
    words.reset(MOST_WORDS);
    python::merge::merge(frames, python.frames(), &python.evaluation, |word| {
        words.push(word);
    });
    if words.is_empty() {
        return 0;
    }
    if frames.is_cut() {
        words.push(python::words::CUT);
    }
    *latest = recorder.stacks.intern(counts.generation, words);
    *generation = counts.generation;
    *latest
}

#[cold]
#[inline(never)]
fn say_no_room(recorder: &Recorder) -> u32 {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    if !IS_SAID.swap(true, Ordering::AcqRel) {
        let note = Record::Note {
            time_ns: recorder.now(),
            text: "a thread called with less than 24 KiB of its stack left: such calls have no stack here".into(),
        };
        channel::send(&recorder.sender, Raw::boxed(note));
    }
    0
}

/// The first unwind and the first scan are slow and may allocate: done before the first event.
pub fn warm_up() {
    libraries::now();
    native::warm_up();
}

/// The calling thread ends: what was kept for it goes.
pub fn forget() {
    native::forget();
    WORKSPACE.with(|workspace| {
        workspace.forget(|workspace| {
            workspace.native.forget();
            workspace.python.forget();
        });
    });
}
