//! The stack of the calling thread, as a reference into the table of stacks.

mod native;
mod python;

use super::libraries;
use super::state::Recorder;
use native::Frame;
pub use python::words;

/// Most native frames that any setting can ask for.
pub const MOST_FRAMES: usize = 256;
/// Most words of a stack.
const MOST_WORDS: usize = MOST_FRAMES + python::MOST_FRAMES;

/// Captures the calling thread's stack: a reference into the table; 0 if there is no frame, or no room.
pub fn capture(recorder: &Recorder) -> u32 {
    let config = &recorder.config;
    if !config.native_stacks && !config.python_stacks {
        return 0;
    }
    let mut frames = [Frame::default(); MOST_FRAMES];
    let counts = libraries::now();
    let mut length = 0;
    if config.native_stacks {
        let depth = config.depth.min(MOST_FRAMES);
        length = native::capture(counts.unloads, &mut frames[..depth]);
    }
    let mut python = python::Stack::new();
    if config.python_stacks {
        python::capture(recorder, counts.generation, &mut python);
    }
    let mut words = [0u64; MOST_WORDS];
    let length = python::merge::merge(
        &frames[..length],
        python.frames(),
        &python.evaluation,
        &mut words,
    );
    if length == 0 {
        return 0;
    }
    recorder.stacks.intern(counts.generation, &words[..length])
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
