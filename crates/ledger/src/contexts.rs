//! Contexts, and the memory that goes with them.
//!
//! A reset or a destroyed context takes linear, array, managed, pinned and opened foreign memory with it.
//! Stream-ordered and physical memory outlives both, as the driver has it; so does a registration of host memory.

use crate::amount::Amount;
use crate::announcements::Effect;
use crate::blocks::{Block, Class, Slot};
use crate::hash::Map;
use crate::history::Cause;
use crate::ledger::Ledger;
use oomhook_trace::{Event, Space, StackId};
use serde::{Deserialize, Serialize};

/// One context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// The driver's value.
    pub handle: u64,
    /// Its device, if known.
    pub device: Option<u8>,
    /// Made by `cuCtxCreate`; otherwise a primary context, or one whose making was not seen.
    pub explicit: bool,
    /// Made by `cuGreenCtxCreate`: a part of the device, with streams of its own and no memory.
    #[serde(default)]
    pub green: bool,
    /// When it was seen first.
    pub time_ns: u64,
    /// When it was destroyed.
    pub destroyed_ns: Option<u64>,
    /// The stack that made it; 0 if its making was not seen.
    #[serde(default)]
    pub stack: StackId,
}

/// All contexts. Number 0 stands for none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Contexts {
    contexts: Vec<Context>,
    #[serde(skip)]
    numbers: Map<u64, u32>,
}

impl Contexts {
    /// The number of the living context with this handle; made at its first mention.
    pub(crate) fn intern(&mut self, handle: u64, event: &Event) -> u32 {
        if handle == 0 {
            return 0;
        }
        if let Some(number) = self.numbers.get(&handle) {
            return *number;
        }
        self.add(handle, false, event)
    }

    fn add(&mut self, handle: u64, explicit: bool, event: &Event) -> u32 {
        self.contexts.push(Context {
            handle,
            device: event.device,
            explicit,
            green: false,
            time_ns: event.time_ns,
            destroyed_ns: None,
            stack: 0,
        });
        let number = self.contexts.len() as u32;
        self.numbers.insert(handle, number);
        number
    }

    /// A context was made. One that was met before (in its own making) keeps its number.
    pub(crate) fn create(&mut self, handle: u64, explicit: bool, event: &Event) {
        match self.numbers.get(&handle) {
            Some(number) => {
                let context = &mut self.contexts[*number as usize - 1];
                context.explicit = explicit;
                context.stack = event.stack;
            }
            None if handle != 0 => {
                self.add(handle, explicit, event);
                if let Some(context) = self.contexts.last_mut() {
                    context.stack = event.stack;
                }
            }
            None => {}
        }
    }

    /// A green context was made. Nothing else speaks of it by its handle, so it has no number.
    pub(crate) fn create_green(&mut self, handle: u64, event: &Event) {
        self.contexts.push(Context {
            handle,
            device: event.device,
            explicit: true,
            green: true,
            time_ns: event.time_ns,
            destroyed_ns: None,
            stack: event.stack,
        });
    }

    pub(crate) fn end_green(&mut self, handle: u64, time_ns: u64) {
        let mut all = self.contexts.iter_mut().rev();
        let is_it =
            |one: &&mut Context| one.green && one.handle == handle && one.destroyed_ns.is_none();
        if let Some(context) = all.find(is_it) {
            context.destroyed_ns = Some(time_ns);
        }
    }

    /// The primary context of the device was reset, or released for the last time.
    pub(crate) fn primary_gone(&mut self, device: Option<u8>, time_ns: u64) {
        for context in &mut self.contexts {
            let is_primary = !context.explicit && context.device == device;
            if is_primary && context.destroyed_ns.is_none() {
                context.destroyed_ns = Some(time_ns);
                self.numbers.remove(&context.handle);
            }
        }
    }

    fn destroy(&mut self, handle: u64, time_ns: u64) -> Option<u32> {
        let number = self.numbers.remove(&handle)?;
        self.contexts[number as usize - 1].destroyed_ns = Some(time_ns);
        Some(number)
    }

    fn undo_destroy(&mut self, number: u32) {
        if let Some(context) = self.contexts.get_mut((number as usize).wrapping_sub(1)) {
            context.destroyed_ns = None;
            self.numbers.insert(context.handle, number);
        }
    }

    /// The context with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Context> {
        self.contexts.get((number as usize).wrapping_sub(1))
    }

    /// Every context ever seen, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Context> {
        self.contexts.iter()
    }

    pub(crate) fn reindex(&mut self) {
        let numbered = self.contexts.iter().zip(1..);
        self.numbers = numbered
            .filter(|(context, _)| context.destroyed_ns.is_none() && !context.green)
            .map(|(context, number)| (context.handle, number))
            .collect();
    }
}

/// What went with resets or destroyed contexts, by space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedSpaces([Amount; Space::ALL.len()]);

impl ReleasedSpaces {
    /// What went of one space.
    #[must_use]
    pub fn get(&self, space: Space) -> Amount {
        self.0[space as usize - 1]
    }

    fn get_mut(&mut self, space: Space) -> &mut Amount {
        &mut self.0[space as usize - 1]
    }
}

/// What went without being freed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// With the reset of a device.
    pub by_reset: ReleasedSpaces,
    /// With a destroyed context.
    pub by_context_destroy: ReleasedSpaces,
}

impl Released {
    fn of(&mut self, cause: Cause) -> &mut ReleasedSpaces {
        match cause {
            Cause::Reset => &mut self.by_reset,
            Cause::Freed | Cause::ContextDestroyed => &mut self.by_context_destroy,
        }
    }
}

fn goes_with_its_context(space: Space) -> bool {
    matches!(
        space,
        Space::Device | Space::Array | Space::Managed | Space::Pinned | Space::Imported
    )
}

impl Ledger {
    /// The device's primary context is about to be reset.
    pub(crate) fn reset(&mut self, event: &Event) {
        let explicit = |number| {
            self.contexts
                .get(number)
                .is_some_and(|context| context.explicit)
        };
        let goes = |block: &Block| {
            let device = self.rows.get(block.row).and_then(|row| row.key.device);
            device == event.device && !explicit(block.context)
        };
        let slots = self.taken_along(goes);
        let address = event.device.map_or(0, u64::from);
        self.release_all(event, address, slots, Cause::Reset, None);
    }

    /// A context is about to go.
    pub(crate) fn destroy_context(&mut self, event: &Event, handle: u64) {
        let number = self.contexts.destroy(handle, event.time_ns);
        let slots = match number {
            Some(number) => self.taken_along(|block| block.context == number),
            None => Vec::new(),
        };
        if let Some(device) = number.and_then(|number| self.contexts.get(number)?.device) {
            self.costs.reopen(device);
        }
        self.release_all(event, handle, slots, Cause::ContextDestroyed, number);
    }

    fn taken_along(&self, goes: impl Fn(&Block) -> bool) -> Vec<Slot> {
        let live = self.blocks.live();
        live.filter(|(_, block)| goes_with_its_context(block.space) && goes(block))
            // Physical memory on the host is pinned memory, but no context's.
            .filter(|(slot, block)| block.space != Space::Pinned || !self.physical.knows(*slot))
            .map(|(slot, _)| slot)
            .collect()
    }

    fn release_all(
        &mut self,
        event: &Event,
        address: u64,
        slots: Vec<Slot>,
        cause: Cause,
        context: Option<u32>,
    ) {
        for slot in &slots {
            if let Some(block) = self.blocks.get(*slot).copied() {
                self.blocks.hide(*slot);
                self.remember(event.into(), &block, cause);
                *self.released.of(cause).get_mut(block.space) += block.amount();
                self.shares.freed(&block, event.into());
                if block.space == Space::Imported {
                    self.shares.release(block.address, event.time_ns);
                }
                self.end(*slot);
            }
        }
        self.announce(event, address, Effect::Released { slots, context });
    }

    /// The context stayed, or the reset failed.
    pub(crate) fn undo_release(&mut self, event: &Event, slots: &[Slot], context: Option<u32>) {
        let cause = match context {
            Some(_) => Cause::ContextDestroyed,
            None => Cause::Reset,
        };
        if let Some(number) = context {
            self.contexts.undo_destroy(number);
        }
        // Device memory comes last: if its return is a new peak, all that came back is part of it.
        let is_device = |slot: &&Slot| {
            let block = self.blocks.get(**slot);
            block.is_some_and(|block| block.space.is_device())
        };
        let (device, other): (Vec<&Slot>, Vec<&Slot>) = slots.iter().partition(is_device);
        for slot in other.into_iter().chain(device) {
            self.undo_one_release(event, *slot, cause);
        }
    }

    fn undo_one_release(&mut self, event: &Event, slot: Slot, cause: Cause) {
        let Some(block) = self.blocks.get(slot).copied() else {
            return;
        };
        *self.released.of(cause).get_mut(block.space) -= block.amount();
        let class = Class::of(block.space);
        self.history.forget(class, block.address);
        if self.blocks.find(class, block.address).is_some() {
            // The address was given out again, so the block did go.
            return;
        }
        if block.space == Space::Imported {
            self.shares.unrelease(block.address);
        }
        self.blocks.show(slot);
        self.revive(event, slot);
    }
}
