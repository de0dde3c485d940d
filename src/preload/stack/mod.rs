//! The stack of the calling thread, as a reference into the table of stacks.

mod native;

use super::libraries;
use super::state::Recorder;
use native::Frame;

/// Most native frames that any setting can ask for.
pub const MOST_FRAMES: usize = 256;

/// Captures the calling thread's stack: a reference into the table; 0 if there is no frame, or no room.
pub fn capture(recorder: &Recorder) -> u32 {
    let mut frames = [Frame::default(); MOST_FRAMES];
    let depth = recorder.config.depth.min(MOST_FRAMES);
    let counts = libraries::now();
    let length = native::capture(counts.unloads, &mut frames[..depth]);
    if length == 0 {
        return 0;
    }
    let mut words = [0u64; MOST_FRAMES];
    for (word, frame) in words.iter_mut().zip(&frames[..length]) {
        *word = frame.address;
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
