//! A thread's native stacks: the latest and the one before, so that it is seen when they are the same.

use super::super::kept::Zeroed;
use super::super::reads::Repeats;
#[cfg(target_arch = "x86_64")]
use super::walk;
use super::{Frames, libgcc};

/// What a thread keeps from capture to capture.
pub struct Captures {
    /// They take turns.
    stacks: [Frames; 2],
    latest: usize,
    repeats: Repeats,
    #[cfg(target_arch = "x86_64")]
    unchanged: walk::Unchanged,
}

// SAFETY: numbers, lists without items, and no walk.
unsafe impl Zeroed for Captures {}

impl Captures {
    /// Takes the calling thread's frames, innermost first, without our own ones and no more than `depth`; true if they are those
    /// of the latest capture. `unloads` is the loader's count of objects that went.
    #[inline]
    pub fn take(&mut self, unloads: u32, depth: usize) -> bool {
        let frames = &mut self.stacks[1 - self.latest];
        frames.reset(depth);
        #[cfg(target_arch = "x86_64")]
        let notes = {
            let is_noted = self.repeats.are_worth_notes();
            match walk::capture(unloads, frames, &mut self.unchanged, is_noted) {
                Ok(walk::Found::Same) => {
                    self.repeats.saved();
                    return true;
                }
                Ok(walk::Found::Frames) => {}
                Err(walk::NotUnderstood) => {
                    self.unchanged.forget();
                    frames.clear();
                    libgcc::capture(frames);
                }
            }
            is_noted.then(|| self.unchanged.is_known())
        };
        #[cfg(not(target_arch = "x86_64"))]
        let notes = {
            let _ = unloads;
            libgcc::capture(frames);
            None
        };
        self.latest = 1 - self.latest;
        let [one, other] = &self.stacks;
        let is_same = one[..] == other[..] && one.is_cut() == other.is_cut();
        self.repeats.walked(is_same, notes);
        is_same
    }

    /// The thread ends.
    pub fn forget(&mut self) {
        #[cfg(target_arch = "x86_64")]
        self.unchanged.end();
    }

    /// The latest.
    pub fn frames(&self) -> &Frames {
        &self.stacks[self.latest]
    }
}
