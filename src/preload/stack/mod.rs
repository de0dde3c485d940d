//! The stack of the calling thread, as a reference into the table of stacks.

mod native;

use super::libraries;
use super::raw::Parcel;
use super::state::Recorder;

/// Most frames that any setting can ask for.
pub const MOST_FRAMES: usize = 256;

/// A captured stack.
pub enum Captured {
    /// In the table (0: no frame at all).
    Known(u32),
    /// The table is full: the stack itself.
    Parcel(Parcel),
}

/// Captures the calling thread's stack.
pub fn capture(recorder: &Recorder) -> Captured {
    let mut addresses = [0u64; MOST_FRAMES];
    let depth = recorder.config.depth.min(MOST_FRAMES);
    let length = native::capture(&mut addresses[..depth]);
    let addresses = &addresses[..length];
    if addresses.is_empty() {
        return Captured::Known(0);
    }
    let generation = libraries::generation();
    match recorder.stacks.intern(generation, addresses) {
        Some(reference) => Captured::Known(reference),
        None => Captured::Parcel(Parcel::Stack {
            generation,
            addresses: addresses.to_vec(),
        }),
    }
}

/// The first unwind and the first scan are slow and may allocate: done before the first event.
pub fn warm_up() {
    libraries::generation();
    native::capture(&mut [0; 8]);
}
