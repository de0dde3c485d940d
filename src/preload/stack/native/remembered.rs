//! A thread's stack as its latest walk found it. Most of it is still there at the next walk, and need not be unwound again:
//! a frame with the same program counter, stack and frame pointer has the same rule, so it keeps its caller's state in the
//! same places; if these hold what they held, the caller is the same, and so on outwards.

use super::super::kept::{Kept, Zeroed};

/// Frames kept.
const MOST: usize = 256;

/// The registers that lead to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Frame pointer.
    pub frame: u64,
}

/// Where a frame keeps the frame pointer of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved(u64);

impl Saved {
    /// In the register.
    pub const SAME: Saved = Saved(0);
    /// More than two slots lead to the caller: such a frame is unwound each time.
    pub const INVOLVED: Saved = Saved(1);

    /// In a slot.
    pub fn at(address: u64) -> Saved {
        Saved(address)
    }
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    registers: Registers,
    saved: Saved,
}

/// What a thread remembers.
pub struct Memory {
    /// The loader's count of unloads at the latest walk.
    unloads: u32,
    /// Outermost first, so that what stays need not be moved.
    known: [Remembered; MOST],
    length: usize,
    /// Innermost first: what this walk has found out anew.
    fresh: [Remembered; MOST],
    found: usize,
}

// SAFETY: numbers, and no frames.
unsafe impl Zeroed for Memory {}

thread_local! {
    static MEMORY: Kept<Memory> = const { Kept::new() };
}

/// The thread's end has come: its memory goes, and none is made any more.
pub fn forget() {
    MEMORY.with(|memory| memory.forget(|_| {}));
}

/// Runs `walk` with what the calling thread remembers.
#[inline]
pub fn with<T>(walk: impl FnOnce(Option<&mut Memory>) -> T) -> T {
    MEMORY.with(|memory| memory.with(walk))
}

/// So many frames are remembered from a frame outwards, itself among them.
pub type Position = usize;

impl Memory {
    /// A walk begins: everything may still be there.
    #[inline]
    pub fn begin(&mut self, unloads: u32) -> Position {
        if self.unloads != unloads {
            self.unloads = unloads;
            self.length = 0;
        }
        self.found = 0;
        self.length
    }

    /// True if this frame is remembered, looking outwards from a position, which becomes its own.
    #[inline]
    pub fn find(&self, position: &mut Position, frame: Registers) -> bool {
        while let Some(known) = self.known[..self.length].get(position.wrapping_sub(1)) {
            if known.registers.stack >= frame.stack {
                return known.registers == frame;
            }
            *position -= 1;
        }
        false
    }

    /// The caller of the frame at a position, if what leads to it is unchanged; `slot` reads the stack.
    #[inline]
    pub fn caller(
        &self,
        position: Position,
        slot: impl Fn(u64) -> Option<u64>,
    ) -> Option<Registers> {
        let [.., caller, frame] = self.known.get(..position)? else {
            return None;
        };
        let caller = caller.registers;
        let unchanged = slot(caller.stack.wrapping_sub(8)) == Some(caller.pc)
            && match frame.saved {
                Saved::SAME => frame.registers.frame == caller.frame,
                Saved::INVOLVED => false,
                Saved(at) => slot(at) == Some(caller.frame),
            };
        unchanged.then_some(caller)
    }

    /// A frame was found out anew.
    #[inline]
    pub fn add(&mut self, registers: Registers, saved: Saved) {
        if let Some(place) = self.fresh.get_mut(self.found) {
            *place = Remembered { registers, saved };
        }
        self.found += 1;
    }

    /// The frames from one position outwards to another, this one included, stay, but what is outside of them does not.
    pub fn add_passed(&mut self, from: Position, to: Position) {
        for place in (to.saturating_sub(1)..from).rev() {
            let frame = self.known[place];
            self.add(frame.registers, frame.saved);
        }
    }

    /// The walk has ended: what is remembered from a position outwards stays, and what is new comes before it.
    #[inline]
    pub fn end(&mut self, kept: Position) {
        let length = kept + self.found;
        if length > MOST {
            self.length = 0;
            return;
        }
        let fresh = self.fresh[..self.found].iter().rev();
        for (place, frame) in self.known[kept..length].iter_mut().zip(fresh) {
            *place = *frame;
        }
        self.length = length;
    }
}
