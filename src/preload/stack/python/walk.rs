//! The calling thread's own frames. It is inside a C call: its chain of frames cannot change meanwhile, and each frame keeps
//! its code object alive. So nothing is locked, and nothing of Python is called.

use super::super::room::Room;
use super::layout::{Chain, Layout};
use super::memory::Memory;
use super::merge::Evaluation;

/// Of longer stacks so many of the innermost frames are kept ...
pub const INNERMOST: usize = 96;
/// ... and so many of the outermost.
pub const OUTERMOST: usize = 32;
/// Beyond this many frames nothing is looked at: a chain without an end ends here.
const MOST: u64 = 100_000;
/// Owners from here on: a frame is no function's but the evaluation's own.
const FIRST_NO_FUNCTION: u8 = 3;

/// A frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its code object.
    pub code: u64,
    /// Where in it: an address, or the number that older versions keep.
    pub ip: u64,
    /// What runs it.
    pub by: Evaluation,
}

/// The frames of a thread, innermost first.
pub struct Walk {
    inner: Room<Seen, INNERMOST>,
    /// Those after them go round.
    outer: Room<Seen, OUTERMOST>,
    seen: u64,
    /// Where the frames of the evaluation in progress begin.
    open: u64,
}

/// A chain that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoChain;

impl Walk {
    /// No frames.
    #[cfg(test)]
    pub fn new() -> Walk {
        Walk {
            inner: Room::new(INNERMOST),
            outer: Room::new(OUTERMOST),
            seen: 0,
            open: 0,
        }
    }

    /// No frames any more.
    pub fn reset(&mut self) {
        self.inner.reset(INNERMOST);
        self.outer.reset(OUTERMOST);
        self.seen = 0;
        self.open = 0;
    }

    /// Goes through the frames of a thread's state.
    ///
    /// # Errors
    /// When a frame cannot be read or runs no code object.
    pub fn run(
        &mut self,
        layout: &Layout,
        thread: u64,
        code_type: u64,
        memory: impl Memory,
    ) -> Result<(), NoChain> {
        let mut at = memory.word(thread + layout.thread_frame).ok_or(NoChain)?;
        // What the thread's state leads to: the frame, or a mark that leads to it.
        let mut mark = match layout.chain {
            Chain::Objects { marks: Some(marks) } => memory.word(thread + marks).ok_or(NoChain)?,
            Chain::Objects { marks: None } => 0,
            _ => at,
        };
        if let Some(frame) = layout.mark_frame {
            at = memory.word(at + frame).ok_or(NoChain)?;
        }
        let mut looked = 0;
        while at != 0 && looked < MOST {
            looked += 1;
            let previous = memory.word(at + layout.frame_previous).ok_or(NoChain)?;
            let code = memory.word(at + layout.frame_code).ok_or(NoChain)?;
            match layout.chain {
                Chain::Objects { marks } => {
                    let ip = memory.int(at + layout.frame_ip).ok_or(NoChain)? as u64;
                    let by = match marks {
                        Some(_) => Evaluation::At(mark),
                        None => Evaluation::Next,
                    };
                    self.put(layout, code, ip, by, code_type, memory)?;
                    if marks.is_some() {
                        mark = memory.word(mark + 8).unwrap_or(0);
                    }
                }
                Chain::Marks { is_entry } => {
                    let ip = memory.word(at + layout.frame_ip).ok_or(NoChain)?;
                    self.put(layout, code, ip, Evaluation::At(mark), code_type, memory)?;
                    if memory.byte(at + is_entry).ok_or(NoChain)? != 0 {
                        mark = memory.word(mark + 16).unwrap_or(0);
                    }
                }
                Chain::Entries { owner } => {
                    if memory.byte(at + owner).ok_or(NoChain)? >= FIRST_NO_FUNCTION {
                        self.close(at);
                    } else {
                        let ip = memory.word(at + layout.frame_ip).ok_or(NoChain)?;
                        // The lowest bits are marks of the reference (from 3.14 on).
                        self.put(layout, code & !3, ip, Evaluation::At(0), code_type, memory)?;
                    }
                }
            }
            at = previous;
        }
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        layout: &Layout,
        code: u64,
        ip: u64,
        by: Evaluation,
        code_type: u64,
        memory: impl Memory,
    ) -> Result<(), NoChain> {
        if memory.word(code + layout.object_type) != Some(code_type) {
            return Err(NoChain);
        }
        let frame = Seen { code, ip, by };
        if !self.inner.push(frame) && !self.outer.push(frame) {
            self.outer[(self.seen as usize - INNERMOST) % OUTERMOST] = frame;
        }
        self.seen += 1;
        Ok(())
    }

    /// The frames since the last call belong to the evaluation that holds this address.
    fn close(&mut self, address: u64) {
        let by = Evaluation::At(address);
        let open = (self.open as usize).min(self.inner.len());
        self.inner[open..]
            .iter_mut()
            .for_each(|frame| frame.by = by);
        let first = self.seen.saturating_sub(OUTERMOST as u64).max(self.open);
        for number in first.max(INNERMOST as u64)..self.seen {
            self.outer[(number as usize - INNERMOST) % OUTERMOST].by = by;
        }
        self.open = self.seen;
    }

    /// The frames that are kept and, between the two parts, how many were left out.
    pub fn finish(&mut self) -> (&[Seen], u64, &[Seen]) {
        if self.outer.len() == OUTERMOST {
            let oldest = (self.seen as usize - INNERMOST) % OUTERMOST;
            self.outer.rotate_left(oldest);
        }
        let left_out = self.seen - (self.inner.len() + self.outer.len()) as u64;
        (&self.inner, left_out, &self.outer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::super::memory::{Asked, Known};
    use super::*;

    const CODE_TYPE: u64 = 0xc0de;

    /// A thread of CPython 3.12 with so many frames in evaluations of three, or one whose chain never ends.
    fn walked(frames: usize, endless: bool) -> (Walk, Vec<[u64; 12]>, Vec<u64>) {
        let layout = layout::of(0x030c_00f0, 0, Known).expect("3.12");
        let code = vec![0, CODE_TYPE];
        let mut chain = vec![[0u64; 12]; frames + frames / 3 + 1];
        let base = chain.as_ptr() as u64;
        for (number, frame) in chain.iter_mut().enumerate() {
            frame[0] = code.as_ptr() as u64;
            frame[1] = base + (number as u64 + 1) * 96;
            frame[7] = number as u64;
            if number % 4 == 3 {
                frame[8] = 3 << 48;
            }
        }
        let last = chain.len() - 1;
        chain[last][1] = if endless { base } else { 0 };
        let mark = [base];
        let mut thread = [0u64; 9];
        thread[7] = mark.as_ptr() as u64;
        let mut walk = Walk::new();
        let done = walk.run(&layout, thread.as_ptr() as u64, CODE_TYPE, Asked);
        assert_eq!(done, Ok(()));
        (walk, chain, code)
    }

    #[test]
    fn short_stacks_are_kept_whole_with_their_evaluations() {
        for frames in [1usize, 3, 4, 95, 96, 97, 127] {
            let (mut walk, chain, _code) = walked(frames, false);
            let base = chain.as_ptr() as u64;
            let (inner, left_out, outer) = walk.finish();
            let all: Vec<Seen> = inner.iter().chain(outer).copied().collect();
            assert!(left_out == 0 && all.len() >= frames, "{frames}");
            for (number, seen) in all.iter().enumerate() {
                let group = number / 3;
                assert_eq!(seen.ip, (number + group) as u64, "{frames}");
                let entry = group * 4 + 3;
                if entry < chain.len() {
                    assert_eq!(seen.by, Evaluation::At(base + entry as u64 * 96));
                }
            }
        }
    }

    #[test]
    fn of_deep_stacks_both_ends_are_kept() {
        for frames in [130usize, 1000, 1001, 1031] {
            let (mut walk, chain, _code) = walked(frames, false);
            let base = chain.as_ptr() as u64;
            let (inner, left_out, outer) = walk.finish();
            assert_eq!((inner.len(), outer.len()), (INNERMOST, OUTERMOST));
            let all = left_out as usize + INNERMOST + OUTERMOST;
            for (number, seen) in (0..INNERMOST)
                .zip(inner)
                .chain((all - OUTERMOST..all).zip(outer))
            {
                assert_eq!(seen.ip, (number + number / 3) as u64, "{frames}");
                let entry = number / 3 * 4 + 3;
                if entry < chain.len() {
                    assert_eq!(
                        seen.by,
                        Evaluation::At(base + entry as u64 * 96),
                        "{frames} {number}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_chain_without_an_end_ends() {
        let (mut walk, _chain, _code) = walked(5, true);
        let (_, left_out, _) = walk.finish();
        assert!((50_000..100_000).contains(&left_out), "{left_out}");
    }

    #[test]
    fn what_runs_no_code_is_no_chain() {
        let layout = layout::of(0x0308_00f0, 0, Known).expect("3.8");
        let mut frame = Box::new([0u64; 16]);
        frame[4] = frame.as_ptr() as u64;
        let mut thread = Box::new([0u64; 9]);
        let run =
            |thread: &[u64]| Walk::new().run(&layout, thread.as_ptr() as u64, CODE_TYPE, Asked);
        assert_eq!(run(&thread[..]), Ok(()), "no frames");
        thread[3] = frame.as_ptr() as u64;
        assert_eq!(run(&thread[..]), Err(NoChain));
        frame[1] = CODE_TYPE;
        frame[4] = frame.as_ptr() as u64;
        assert_eq!(run(&thread[..]), Ok(()));
        frame[3] = 0x1234_5678_9000;
        assert_eq!(run(&thread[..]), Err(NoChain), "not mapped");
    }
}
