//! The stack of the calling thread, as a reference into the table of stacks.

mod native;
mod python;
mod readable;
mod room;

use super::libraries;
use super::state::Recorder;
use native::Frames;
pub use native::MOST_FRAMES;
pub use python::words;
use room::Room;

/// Most words of a stack.
const MOST_WORDS: usize = native::MOST_FRAMES + python::MOST_FRAMES;

/// Captures the calling thread's stack: a reference into the table; 0 if there is no frame, or no room.
pub fn capture(recorder: &Recorder) -> u32 {
    let config = &recorder.config;
    if !config.native_stacks && !config.python_stacks {
        return 0;
    }
    let counts = libraries::now();
    let mut frames = Frames::new(config.depth);
    if config.native_stacks {
        native::capture(counts.unloads, &mut frames);
    }
    let mut python = python::Stack::new();
    if config.python_stacks {
        python::capture(recorder, counts.generation, &mut python);
    }
    let mut words = Room::<u64, MOST_WORDS>::new(MOST_WORDS);
    python::merge::merge(&frames, python.frames(), &python.evaluation, |word| {
        words.push(word);
    });
    if words.is_empty() {
        return 0;
    }
    recorder.stacks.intern(counts.generation, &words)
}

/// The first unwind and the first scan are slow and may allocate: done before the first event.
pub fn warm_up() {
    libraries::now();
    native::warm_up();
}

/// The calling thread ends: what was kept for it goes.
pub fn forget() {
    native::forget();
}
