//! Our own walk: from frame to frame by cached rules, with two or three loads a frame. It reads only the calling
//! thread's stack, within its bounds, and gives the whole stack up when it meets what it does not understand.

use super::Frame;
use super::bounds::{self, Bounds};
use super::cache::RULES;
use super::rule::{Kind, Rule, Saved};
use super::unwind_info::{self, signal};
use crate::preload::libraries;

/// The walk met something that it does not understand: libgcc's must do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUnderstood;

/// Most frames that are passed without being kept: our own, below a hook.
const MOST_OWN: usize = 32;

/// The registers that lead to the caller.
#[derive(Clone, Copy)]
struct Registers {
    pc: u64,
    stack: u64,
    frame: u64,
}

/// Fills `to` with the frames of the calling thread, innermost first, without our own.
#[inline(never)]
pub fn capture(unloads: u32, to: &mut [Frame]) -> Result<usize, NotUnderstood> {
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
    walk(Registers { pc, stack, frame }, unloads, to)
}

/// Reads a slot of the stack.
#[inline]
fn slot(bounds: Bounds, at: u64) -> Option<u64> {
    if !bounds.holds(at, 8) {
        return None;
    }
    let at = std::ptr::with_exposed_provenance::<u64>(at as usize);
    // SAFETY: inside the bounds, which the kernel has found to be readable; it is this thread's own stack, which nobody
    // else unmaps or changes while the thread is here.
    Some(unsafe { at.read_unaligned() })
}

#[inline]
fn rule_of(pc: u64, unloads: u32) -> Rule {
    RULES.get(pc, unloads).unwrap_or_else(|| learn(pc, unloads))
}

#[cold]
fn learn(pc: u64, unloads: u32) -> Rule {
    let found = unwind_info::find(pc);
    if found.lasts {
        RULES.put(pc, unloads, found.rule);
    }
    found.rule
}

fn walk(mut at: Registers, unloads: u32, to: &mut [Frame]) -> Result<usize, NotUnderstood> {
    let own = libraries::own_range();
    let mut bounds = bounds::of(at.stack).ok_or(NotUnderstood)?;
    let mut length = 0;
    let mut left = to.len() + MOST_OWN;
    // A return address points behind its call; a program counter (ours, or where a signal came) points at what is next.
    let mut behind = 0;
    loop {
        if !own.contains(&(at.pc as usize)) {
            let Some(frame) = to.get_mut(length) else {
                return Ok(length);
            };
            *frame = Frame {
                address: at.pc,
                stack: at.stack,
            };
            length += 1;
        }
        left -= 1;
        if left == 0 {
            return Ok(length);
        }
        let rule = rule_of(at.pc.wrapping_sub(behind), unloads);
        behind = 1;
        let cfa = match rule.kind() {
            Kind::Stack => at.stack.wrapping_add(rule.cfa()),
            Kind::Base => at.frame.wrapping_add(rule.cfa()),
            Kind::Stop => return Ok(length),
            Kind::Foreign => return Err(NotUnderstood),
            Kind::AtBase => match slot(bounds, at.frame.wrapping_add(rule.cfa())) {
                Some(cfa) => cfa,
                None => return Ok(length),
            },
            Kind::Signal => {
                let Some(before) = interrupted(at.stack, bounds) else {
                    return Ok(length);
                };
                let Some(around) = bounds::of(before.stack) else {
                    return Ok(length);
                };
                (at, bounds, behind) = (before, bounds.joined(around), 0);
                if at.pc == 0 {
                    return Ok(length);
                }
                continue;
            }
        };
        let Some(pc) = slot(bounds, cfa.wrapping_sub(8)).or_else(|| {
            // A function that switched stacks, or a stack larger than was looked at.
            bounds = bounds.joined(bounds::of(cfa.wrapping_sub(8))?);
            slot(bounds, cfa.wrapping_sub(8))
        }) else {
            return Ok(length);
        };
        let saved = match rule.saved() {
            Saved::Same => Some(at.frame),
            Saved::AtCfa => slot(bounds, cfa.wrapping_add(rule.saved_at())),
            Saved::AtBase => slot(bounds, at.frame.wrapping_add(rule.saved_at())),
        };
        let Some(frame) = saved else {
            return Ok(length);
        };
        if pc == 0 {
            return Ok(length);
        }
        at = Registers {
            pc,
            stack: cfa,
            frame,
        };
    }
}

/// The registers as a signal found them.
#[cold]
fn interrupted(stack: u64, bounds: Bounds) -> Option<Registers> {
    let register = |offset| slot(bounds, stack.wrapping_add_signed(offset));
    Some(Registers {
        pc: register(signal::PC)?,
        stack: register(signal::STACK)?,
        frame: register(signal::FRAME)?,
    })
}
