//! Frees, their undoing, and what was wrong with the failing ones.
//!
//! A free is announced before the real call, so the books are closed first and reopened if the call failed.

use crate::announcements::{Announcement, Effect, Origin};
use crate::anomalies::{Anomaly, Kind, Subject};
use crate::blocks::{Block, Class, Slot, State};
use crate::history::{Cause, Ended};
use crate::ledger::Ledger;
use oomhook_trace::{Event, Space};

/// Interior addresses are looked for by scanning all blocks; so many blocks are looked at in all, then no more.
const SCAN_BUDGET: u64 = 200_000_000;

impl Ledger {
    /// A block is about to go.
    pub(crate) fn free(&mut self, event: &Event, family: Space, address: u64) {
        let effect = match self.find_freed(family, address) {
            Some(slot) => self.free_known(event, family, slot),
            None => {
                let counted = family.is_allocation() && !self.graphs.gives(address);
                if counted {
                    self.totals.frees += 1;
                    self.totals.untracked_frees += 1;
                    self.thread_mut(event.thread).frees += 1;
                }
                Effect::FreeUnknown { family, counted }
            }
        };
        self.announce(event, address, effect);
    }

    pub(crate) fn announce(&mut self, event: &Event, address: u64, effect: Effect) {
        for slot in effect.slots() {
            if self.physical.knows(slot) {
                self.physical.change(slot, |hold| hold.open += 1);
            }
        }
        let last = self.announcements.announce(event.into(), address, effect);
        if let Some(last) = last {
            self.finalise(&last);
        }
    }

    /// The announced end has happened for good.
    pub(crate) fn finalise(&mut self, announcement: &Announcement) {
        for slot in announcement.effect.slots() {
            self.conclude(slot);
        }
    }

    /// An announcement about this block is over; if it was the last one and the block has ended, its slot is vacant.
    fn conclude(&mut self, slot: Slot) {
        if self.physical.knows(slot) {
            let hold = self.physical.change(slot, |hold| {
                hold.open = hold.open.saturating_sub(1);
            });
            if hold.open > 0 {
                return;
            }
        }
        self.vacate(slot);
    }

    /// Empties the slot of a block that has ended.
    pub(crate) fn vacate(&mut self, slot: Slot) {
        let block = self.blocks.get(slot);
        let ended = block.filter(|block| block.state == State::Limbo);
        let block = ended.map(|block| (Class::of(block.space), block.address));
        if block.is_some() {
            self.physical.forget(slot);
            self.blocks.release(slot);
            if self.pools.lists_blocks()
                && let Some((class, address)) = block.filter(|of| of.0 == Class::Pointer)
                && self.blocks.find(class, address).is_none()
            {
                self.pools.forget(address);
            }
        }
    }

    /// The block that a free of this family means.
    fn find_freed(&self, family: Space, address: u64) -> Option<Slot> {
        let found = self.blocks.find(Class::of(family), address);
        if family == Space::Vmm {
            // Physical memory on the host is pinned memory with a handle.
            return found.or_else(|| self.find_host_handle(address));
        }
        found
    }

    pub(crate) fn find_host_handle(&self, handle: u64) -> Option<Slot> {
        self.blocks.find(Class::Pointer, handle).filter(|slot| {
            let space = self.blocks.get(*slot).map(|block| block.space);
            matches!(space, Some(Space::Pinned | Space::Imported))
        })
    }

    fn free_known(&mut self, event: &Event, family: Space, slot: Slot) -> Effect {
        let imported = self.blocks.get(slot).copied();
        if let Some(block) = imported.filter(|block| block.space == Space::Imported) {
            self.shares.close(block.address, event.time_ns);
        }
        let counts_references = family == Space::Vmm || self.physical.knows(slot);
        let mut mappings = 0;
        if counts_references {
            let hold = self.physical.change(slot, |hold| {
                hold.references = hold.references.saturating_sub(1);
            });
            if hold.references > 0 {
                return Effect::Dereferenced { slot };
            }
            mappings = hold.mappings;
        }
        let Some(block) = self.blocks.get(slot).copied() else {
            return Effect::Dereferenced { slot };
        };
        self.blocks.hide(slot);
        self.remember(event.into(), &block, Cause::Freed);
        self.count_free(event, &block);
        self.shares.freed(&block, event.into());
        let elsewhere = self.free_on_stream(event, family, &block);
        let crossed = is_crossed(family, block.space);
        if crossed {
            let subject = Some(subject(&block));
            let by = event.into();
            self.anomalies
                .add(anomaly(Kind::CrossApiFree, by, block.address, 0, subject));
        }
        if mappings == 0 {
            self.end(slot);
        }
        Effect::Freed {
            slot,
            crossed,
            elsewhere,
        }
    }

    fn count_free(&mut self, event: &Event, block: &Block) {
        let device = self.rows.get(block.row).and_then(|row| row.key.device);
        let usage = self.devices.get_mut(device).spaces.get_mut(block.space);
        usage.frees += 1;
        self.devices.everywhere_mut().get_mut(block.space).frees += 1;
        if block.space.is_allocation() {
            self.totals.frees += 1;
            self.thread_mut(event.thread).frees += 1;
        }
    }

    fn uncount_free(&mut self, origin: Origin, block: &Block) {
        if block.space.is_allocation() {
            self.totals.frees = self.totals.frees.saturating_sub(1);
            let thread = self.thread_mut(origin.thread);
            thread.frees = thread.frees.saturating_sub(1);
        }
    }

    fn uncount_space_free(&mut self, block: &Block) {
        let device = self.rows.get(block.row).and_then(|row| row.key.device);
        let usage = self.devices.get_mut(device).spaces.get_mut(block.space);
        usage.frees = usage.frees.saturating_sub(1);
        let usage = self.devices.everywhere_mut().get_mut(block.space);
        usage.frees = usage.frees.saturating_sub(1);
    }

    pub(crate) fn remember(&mut self, by: Origin, block: &Block, cause: Cause) {
        self.history.remember(Ended {
            address: block.address,
            bytes: block.bytes,
            number: block.number,
            by,
            row: block.row,
            class: Class::of(block.space),
            cause,
        });
    }

    /// The thread's announcement did not come true.
    pub(crate) fn undo(&mut self, event: &Event, address: u64, code: u32) {
        let Some(announcement) = self.announcements.take(event.thread, address) else {
            return;
        };
        let origin = announcement.origin;
        match announcement.effect {
            Effect::Freed {
                slot,
                crossed,
                elsewhere,
            } => {
                self.undo_share(slot, Some(origin), elsewhere);
                self.undo_free(event, &announcement, slot, crossed, code);
            }
            Effect::FreeUnknown { family, counted } => {
                if counted {
                    self.totals.frees = self.totals.frees.saturating_sub(1);
                    self.totals.untracked_frees = self.totals.untracked_frees.saturating_sub(1);
                    let thread = self.thread_mut(event.thread);
                    thread.frees = thread.frees.saturating_sub(1);
                }
                if code != 0 {
                    self.explain(origin, family, address, code);
                }
            }
            Effect::Dereferenced { slot } => {
                self.undo_share(slot, None, false);
                self.physical.change(slot, |hold| hold.references += 1);
                self.note_failed_free(origin, slot, code);
            }
            Effect::Unmapped { ref mappings } => {
                for (at, mapping) in mappings {
                    self.physical.map(*at, *mapping);
                    self.physical
                        .change(mapping.slot, |hold| hold.mappings += 1);
                    self.revive(event, mapping.slot);
                }
            }
            Effect::Released { ref slots, context } => self.undo_release(event, slots, context),
        }
        self.finalise(&announcement);
    }

    /// A free that did not happen neither closed nor took what processes share. `freed`: the whole block was freed, by that.
    fn undo_share(&mut self, slot: Slot, freed: Option<Origin>, elsewhere: bool) {
        let Some(block) = self.blocks.get(slot).copied() else {
            return;
        };
        if block.space == Space::Imported {
            self.shares.unclose(block.address);
        }
        if let Some(origin) = freed {
            self.shares.unfreed(&block, origin);
            if elsewhere {
                self.undo_free_on_stream(origin, &block);
            }
        }
    }

    fn undo_free(
        &mut self,
        event: &Event,
        announcement: &Announcement,
        slot: Slot,
        crossed: bool,
        code: u32,
    ) {
        let Some(block) = self.blocks.get(slot).copied() else {
            return;
        };
        let origin = announcement.origin;
        self.uncount_free(origin, &block);
        if crossed {
            self.anomalies.take_back(Kind::CrossApiFree, block.address);
        }
        let class = Class::of(block.space);
        let rival = self.announcements.rival(block.address, announcement.serial);
        if let Some(rival) = rival {
            // Two threads freed the block at once, and it was the other's call that did it.
            rival.effect = Effect::Freed {
                slot,
                crossed: false,
                elsewhere: false,
            };
            let by = rival.origin;
            if self.physical.knows(slot) {
                self.physical.change(slot, |hold| hold.open += 1);
            }
            self.totals.untracked_frees = self.totals.untracked_frees.saturating_sub(1);
            self.remember(by, &block, Cause::Freed);
            self.shares.freed(&block, by);
            self.blame_double_free(origin, &block, code);
            return;
        }
        self.uncount_space_free(&block);
        if self.blocks.find(class, block.address).is_some() {
            // The address was given out again, so the block had ended before.
            self.blame_double_free(origin, &block, code);
            return;
        }
        if self.physical.knows(slot) {
            self.physical.change(slot, |hold| hold.references += 1);
        }
        self.history.forget(class, block.address);
        self.blocks.show(slot);
        self.revive(event, slot);
        self.note_failed_free(origin, slot, code);
    }

    fn blame_double_free(&mut self, by: Origin, block: &Block, code: u32) {
        if code == 0 {
            return;
        }
        self.totals.failed_frees += 1;
        let class = Class::of(block.space);
        let ended = self.history.find(class, block.address).copied();
        self.anomalies.add(Anomaly {
            ended,
            ..anomaly(
                Kind::DoubleFree,
                by,
                block.address,
                code,
                Some(subject(block)),
            )
        });
    }

    fn note_failed_free(&mut self, by: Origin, slot: Slot, code: u32) {
        let Some(block) = self.blocks.get(slot).filter(|_| code != 0) else {
            return;
        };
        let subject = Some(subject(block));
        self.totals.failed_frees += 1;
        self.anomalies
            .add(anomaly(Kind::FailedFree, by, block.address, code, subject));
    }

    /// A free of an address where nothing lived has failed: what was it?
    fn explain(&mut self, by: Origin, family: Space, address: u64, code: u32) {
        if let Some(slot) = self.find_freed(family, address) {
            // It lives again: another thread's free of it failed as well.
            self.note_failed_free(by, slot, code);
            return;
        }
        self.totals.failed_frees += 1;
        let class = Class::of(family);
        let ended = self.history.find(class, address).copied();
        let (kind, block) = match ended {
            Some(ended) => {
                let kind = match ended.cause {
                    Cause::Freed => Kind::DoubleFree,
                    Cause::Reset | Cause::ContextDestroyed => Kind::FreeAfterReset,
                };
                let block = Subject {
                    address: ended.address,
                    bytes: ended.bytes,
                    number: ended.number,
                    row: ended.row,
                };
                (kind, Some(block))
            }
            None => match self.find_around(class, address) {
                Some(block) => (Kind::InteriorFree, Some(block)),
                None => (Kind::UnknownFree, None),
            },
        };
        self.anomalies.add(Anomaly {
            ended,
            ..anomaly(kind, by, address, code, block)
        });
    }

    /// True if all blocks may be looked at once more.
    pub(crate) fn may_scan(&mut self) -> bool {
        if self.scanned > SCAN_BUDGET {
            return false;
        }
        self.scanned += self.blocks.scan_cost();
        true
    }

    pub(crate) fn find_around(&mut self, class: Class, address: u64) -> Option<Subject> {
        if !class.has_interior() || !self.may_scan() {
            return None;
        }
        let mut live = self.blocks.live();
        live.find(|(_, block)| Class::of(block.space) == class && block.contains_inside(address))
            .map(|(_, block)| subject(block))
    }

    /// A host range could not be registered because it is already.
    pub(crate) fn failed_register(&mut self, event: &Event, address: u64, code: u32) {
        let class = Class::of(Space::Registered);
        let first = match self
            .blocks
            .find(class, address)
            .and_then(|slot| self.blocks.get(slot))
        {
            Some(block) => Some(subject(block)),
            // The new range may begin inside the old one.
            None => self.find_around(class, address),
        };
        self.anomalies.add(anomaly(
            Kind::FailedRegister,
            event.into(),
            address,
            code,
            first,
        ));
    }

    /// A block ends: it counts no more, and waits in limbo until that is final.
    pub(crate) fn end(&mut self, slot: Slot) {
        if let Some(block) = self.blocks.get(slot).copied() {
            self.discharge(&block);
            self.blocks.set_state(slot, State::Limbo);
        }
    }

    /// A block did not end after all; does nothing if it lives.
    pub(crate) fn revive(&mut self, event: &Event, slot: Slot) {
        let block = self.blocks.get(slot).copied();
        if let Some(block) = block.filter(|block| block.state == State::Limbo) {
            self.recharge(&block, event.time_ns);
            self.unend(&block);
            self.blocks.set_state(slot, State::Live);
        }
    }
}

fn is_crossed(family: Space, space: Space) -> bool {
    matches!(
        (family, space),
        (Space::Device, Space::Async) | (Space::Async, Space::Device)
    )
}

fn subject(block: &Block) -> Subject {
    Subject {
        address: block.address,
        bytes: block.bytes,
        number: block.number,
        row: block.row,
    }
}

fn anomaly(kind: Kind, by: Origin, address: u64, code: u32, block: Option<Subject>) -> Anomaly {
    Anomaly {
        kind,
        by,
        address,
        code,
        block,
        ended: None,
    }
}
