//! Our own walk: from frame to frame by cached rules, with two or three loads a frame. It reads only the calling
//! thread's stack, within its bounds, and gives the whole stack up when it meets what it does not understand.

use super::super::kept::Zeroed;
use super::super::reads::Reads;
use super::bounds::{self, Bounds};
use super::cache::RULES;
use super::remembered::{self, Memory, Position, Registers, Saved};
use super::rule::{Kind, Rule, Saved as Save};
use super::unwind_info::{self, signal};
use super::{Frame, Frames, MOST_FRAMES};
use crate::preload::libraries;
use std::ops::Range;

/// The walk met something that it does not understand: libgcc's must do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnderstood;

/// Most frames that are passed without being kept: our own, below a hook. (Built without optimisation there are some thirty-five.)
const MOST_OWN: usize = 64;

/// The reads of a walk: two for each frame.
const MOST_READS: usize = 2 * (MOST_FRAMES + MOST_OWN);

/// What the latest walk depends on: where it starts, and what it reads.
pub struct Unchanged {
    start: Registers,
    /// The frame pointer at the start leads somewhere. (Most functions keep any value there.)
    is_frame_used: bool,
    unloads: u32,
    reads: Reads<MOST_READS>,
}

// SAFETY: numbers, and no walk's reads.
unsafe impl Zeroed for Unchanged {}

impl Unchanged {
    /// No walk is known any more.
    pub fn forget(&mut self) {
        self.reads.clear();
    }

    /// The thread ends.
    pub fn end(&mut self) {
        self.reads.forget();
    }

    /// True if a walk is known.
    pub fn is_known(&self) -> bool {
        self.reads.are_whole()
    }

    #[inline]
    fn is(&self, start: Registers, unloads: u32) -> bool {
        self.start.stack == start.stack
            && self.start.pc == start.pc
            && self.unloads == unloads
            && (self.start.frame == start.frame || !self.is_frame_used)
            && self.reads.are_the_same()
    }
}

/// Takes down what a walk depends on.
trait Notes {
    /// A slot that leads to the caller.
    fn read(&mut self, at: u64, value: u64);
    /// The caller's frame pointer was in this slot.
    fn saved(&mut self, at: u64, value: u64);
    /// The frame pointer leads to the caller.
    fn uses_frame(&mut self);
    /// The walk depends on something else.
    fn spoil(&mut self);
}

/// Nothing is taken down.
impl Notes for () {
    #[inline(always)]
    fn read(&mut self, _: u64, _: u64) {}
    #[inline(always)]
    fn saved(&mut self, _: u64, _: u64) {}
    #[inline(always)]
    fn uses_frame(&mut self) {}
    #[inline(always)]
    fn spoil(&mut self) {}
}

struct Noted<'a> {
    unchanged: &'a mut Unchanged,
    /// Where the frame pointer was found; `None` as long as it is the start's.
    frame: Option<(u64, u64)>,
}

impl Notes for Noted<'_> {
    fn read(&mut self, at: u64, value: u64) {
        self.unchanged.reads.note(at, 8, value);
    }

    fn saved(&mut self, at: u64, value: u64) {
        self.frame = Some((at, value));
    }

    fn uses_frame(&mut self) {
        match self.frame {
            Some((at, value)) => self.unchanged.reads.note(at, 8, value),
            None => self.unchanged.is_frame_used = true,
        }
    }

    fn spoil(&mut self) {
        self.unchanged.reads.spoil();
    }
}

/// Whether a walk must be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The same frames as at the latest walk; nothing was filled.
    Same,
    /// The frames were filled.
    Frames,
}

/// Fills `to` with the frames of the calling thread, innermost first, without our own, if they may be others than at the
/// latest walk. What the walk depends on is noted in `unchanged` if that is worth it.
#[inline(never)]
pub fn capture(
    unloads: u32,
    to: &mut Frames,
    unchanged: &mut Unchanged,
    is_noted: bool,
) -> Result<Found, NotUnderstood> {
    let (pc, stack, frame): (u64, u64, u64);
    // SAFETY: reads three registers; nothing is changed.
    unsafe {
        std::arch::asm!(
            "lea {pc}, [rip]",
            "mov {stack}, rsp",
            "mov {frame}, rbp",
            pc = out(reg) pc,
            stack = out(reg) stack,
            frame = out(reg) frame,
            options(nomem, nostack, preserves_flags),
        );
    }
    let start = Registers { pc, stack, frame };
    // (Noted are walks within the thread's own stack alone, which stays.)
    if unchanged.is(start, unloads) {
        return Ok(Found::Same);
    }
    unchanged.forget();
    let bounds = bounds::of(start.stack).ok_or(NotUnderstood)?;
    let mut walk = Walk {
        at: start,
        behind: 0,
        bounds,
        own: libraries::own_range(),
        to,
        notes: (),
    };
    if is_noted && bounds::is_own(start.stack) {
        unchanged.start = start;
        unchanged.is_frame_used = false;
        unchanged.unloads = unloads;
        unchanged.reads.begin();
        walk.noting(unchanged).without_memory(unloads)?;
        unchanged.reads.end();
        return Ok(Found::Frames);
    }
    remembered::with(|memory| match memory {
        Some(memory) => walk.with_memory(memory, unloads),
        None => walk.without_memory(unloads),
    })?;
    Ok(Found::Frames)
}

/// Reads a slot of the stack.
#[inline]
fn slot(bounds: Bounds, at: u64) -> Option<u64> {
    if !bounds.holds(at, 8) {
        return None;
    }
    let at = std::ptr::with_exposed_provenance::<u64>(at as usize);
    // SAFETY: inside the bounds: the thread's own stack, or memory that the kernel has found to be readable just now, on
    // which this thread runs, so that nobody else unmaps it.
    Some(unsafe { at.read_unaligned() })
}

#[cold]
fn learn(pc: u64, unloads: u32) -> unwind_info::Found {
    let found = unwind_info::find(pc);
    if found.lasts {
        RULES.put(pc, unloads, found.rule);
    }
    found
}

/// A walk under way.
struct Walk<'a, N> {
    /// The frame that the walk has come to.
    at: Registers,
    /// What is subtracted to find its rule. A return address points behind its call; a program counter (ours, or where a
    /// signal came) points at what comes next.
    behind: u64,
    bounds: Bounds,
    own: Range<usize>,
    to: &'a mut Frames,
    notes: N,
}

/// What one step outwards led to.
enum Step {
    /// The caller, whose frame pointer was here.
    Caller(Saved),
    /// There is none, or it cannot be read.
    End,
}

impl<'a> Walk<'a, ()> {
    /// The same walk, taking down what it reads.
    fn noting(self, unchanged: &'a mut Unchanged) -> Walk<'a, Noted<'a>> {
        Walk {
            at: self.at,
            behind: self.behind,
            bounds: self.bounds,
            own: self.own,
            to: self.to,
            notes: Noted {
                unchanged,
                frame: None,
            },
        }
    }
}

impl<N: Notes> Walk<'_, N> {
    /// Reads a slot of the stack.
    #[inline]
    fn slot(&mut self, at: u64) -> Option<u64> {
        let found = slot(self.bounds, at);
        match found {
            Some(value) => self.notes.read(at, value),
            None => self.notes.spoil(),
        }
        found
    }

    #[inline]
    fn rule_of(&mut self, pc: u64, unloads: u32) -> Rule {
        RULES.get(pc, unloads).unwrap_or_else(|| {
            let found = learn(pc, unloads);
            if !found.lasts {
                self.notes.spoil();
            }
            found.rule
        })
    }

    /// Keeps the frame, unless it is ours; false if there is no more room.
    #[inline]
    fn keep(&mut self) -> bool {
        self.own.contains(&(self.at.pc as usize))
            || self.to.push(Frame {
                address: self.at.pc,
                stack: self.at.stack,
            })
    }

    fn without_memory(&mut self, unloads: u32) -> Result<(), NotUnderstood> {
        for _ in 0..self.to.limit() + MOST_OWN {
            if !self.keep() || matches!(self.step(unloads)?, Step::End) {
                return Ok(());
            }
        }
        self.to.cut();
        Ok(())
    }

    fn with_memory(&mut self, memory: &mut Memory, unloads: u32) -> Result<(), NotUnderstood> {
        let mut position = memory.begin(unloads);
        let mut is_over = false;
        for _ in 0..self.to.limit() + MOST_OWN {
            let is_call = self.behind == 1;
            if is_call && memory.find(&mut position, self.at) {
                let known = position;
                if !self.follow(memory, &mut position, unloads)? {
                    memory.end(known);
                    return Ok(());
                }
                memory.add_passed(known, position);
                position -= 1;
                continue;
            }
            if !self.keep() {
                is_over = true;
                break;
            }
            // Where a signal came the rule is another one than behind a call: such a frame is never found again.
            let frame = Registers {
                pc: if is_call { self.at.pc } else { 0 },
                ..self.at
            };
            match self.step(unloads)? {
                Step::Caller(saved) => memory.add(frame, saved),
                Step::End => {
                    memory.add(frame, Saved::INVOLVED);
                    is_over = true;
                    break;
                }
            }
        }
        if !is_over {
            self.to.cut();
        }
        memory.end(0);
        Ok(())
    }

    /// Goes outwards as long as what is remembered holds. True if it came to something new: the caller of the frame at the
    /// position is another one than was remembered.
    fn follow(
        &mut self,
        memory: &Memory,
        position: &mut Position,
        unloads: u32,
    ) -> Result<bool, NotUnderstood> {
        loop {
            if !self.keep() {
                return Ok(false);
            }
            let bounds = self.bounds;
            if let Some(caller) = memory.caller(*position, |at| slot(bounds, at)) {
                self.at = caller;
                *position -= 1;
                continue;
            }
            if let Step::End = self.step(unloads)? {
                return Ok(false);
            }
            let mut next = position.saturating_sub(1);
            if self.behind != 1 || !memory.find(&mut next, self.at) || next + 1 != *position {
                return Ok(true);
            }
            *position = next;
        }
    }

    /// Goes to the caller by the frame's rule.
    #[inline]
    fn step(&mut self, unloads: u32) -> Result<Step, NotUnderstood> {
        let at = self.at;
        let rule = self.rule_of(at.pc.wrapping_sub(self.behind), unloads);
        self.behind = 1;
        if matches!(rule.kind(), Kind::Base | Kind::AtBase) || rule.saved() == Save::AtBase {
            self.notes.uses_frame();
        }
        let cfa = match rule.kind() {
            Kind::Stack => Some(at.stack.wrapping_add(rule.cfa())),
            Kind::Base => Some(at.frame.wrapping_add(rule.cfa())),
            Kind::AtBase => self.slot(at.frame.wrapping_add(rule.cfa())),
            Kind::Signal => {
                self.notes.spoil();
                return Ok(self.interrupted());
            }
            Kind::Stop => None,
            Kind::Foreign => return Err(NotUnderstood),
        };
        let Some(cfa) = cfa else {
            return Ok(Step::End);
        };
        let Some(pc) = self.return_address(cfa).filter(|pc| *pc != 0) else {
            return Ok(Step::End);
        };
        let (frame, saved) = match rule.saved() {
            Save::Same => (Some(at.frame), Saved::SAME),
            Save::AtCfa => self.saved(cfa.wrapping_add(rule.saved_at())),
            Save::AtBase => self.saved(at.frame.wrapping_add(rule.saved_at())),
        };
        let Some(frame) = frame else {
            return Ok(Step::End);
        };
        self.at = Registers {
            pc,
            stack: cfa,
            frame,
        };
        let is_involved = rule.kind() == Kind::AtBase;
        Ok(Step::Caller(match is_involved {
            true => Saved::INVOLVED,
            false => saved,
        }))
    }

    #[inline]
    fn saved(&mut self, at: u64) -> (Option<u64>, Saved) {
        let frame = slot(self.bounds, at);
        match frame {
            Some(value) => self.notes.saved(at, value),
            None => self.notes.spoil(),
        }
        (frame, Saved::at(at))
    }

    #[inline]
    fn return_address(&mut self, cfa: u64) -> Option<u64> {
        let at = cfa.wrapping_sub(8);
        self.slot(at).or_else(|| {
            // A function that switched stacks, or a stack larger than was looked at.
            self.bounds = self.bounds.joined(bounds::of(at)?);
            slot(self.bounds, at)
        })
    }

    /// To what a signal interrupted, perhaps on another stack.
    #[cold]
    fn interrupted(&mut self) -> Step {
        let register = |offset| slot(self.bounds, self.at.stack.wrapping_add_signed(offset));
        let found = (|| {
            Some(Registers {
                pc: register(signal::PC).filter(|pc| *pc != 0)?,
                stack: register(signal::STACK)?,
                frame: register(signal::FRAME)?,
            })
        })();
        let Some((found, bounds)) = found.and_then(|found| Some((found, bounds::of(found.stack)?)))
        else {
            return Step::End;
        };
        self.at = found;
        self.bounds = self.bounds.joined(bounds);
        self.behind = 0;
        Step::Caller(Saved::INVOLVED)
    }
}
