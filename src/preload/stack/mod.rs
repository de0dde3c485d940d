//! The stack of the calling thread, as a reference into the table of stacks.

mod native;

use super::libraries;
use super::state::Recorder;

/// Most frames that any setting can ask for.
pub const MOST_FRAMES: usize = 256;

/// Captures the calling thread's stack: a reference into the table; 0 if there is no frame, or no room.
pub fn capture(recorder: &Recorder) -> u32 {
    let mut addresses = [0u64; MOST_FRAMES];
    let depth = recorder.config.depth.min(MOST_FRAMES);
    let length = native::capture(&mut addresses[..depth]);
    if length == 0 {
        return 0;
    }
    let generation = libraries::generation();
    recorder.stacks.intern(generation, &addresses[..length])
}

/// The first unwind and the first scan are slow and may allocate: done before the first event.
pub fn warm_up() {
    libraries::generation();
    native::capture(&mut [0; 8]);
}
