//! Physical memory and where it is mapped.

use crate::announcements::Effect;
use crate::ledger::Ledger;
use crate::vmm::{Hold, Mapping};
use oomhook_trace::{Event, ThreadId};

impl Ledger {
    pub(crate) fn map(&mut self, thread: ThreadId, address: u64, bytes: u64, handle: u64) {
        let Some(slot) = self.find_handle(handle) else {
            return;
        };
        if let Some(block) = self.blocks.get(slot) {
            self.recent.came(thread, address, bytes, block.row);
        }
        self.physical.change(slot, |hold| hold.mappings += 1);
        if let Some(old) = self.physical.map(address, Mapping { bytes, slot }) {
            let hold = self.lose_mapping(old);
            if hold.open == 0 {
                self.vacate(old.slot);
            }
        }
    }

    pub(crate) fn unmap(&mut self, event: &Event, address: u64, bytes: u64) {
        let mappings = self.physical.unmap(address, bytes);
        for (_, mapping) in &mappings {
            self.lose_mapping(*mapping);
        }
        self.announce(event, address, Effect::Unmapped { mappings });
    }

    fn lose_mapping(&mut self, mapping: Mapping) -> Hold {
        let hold = self.physical.change(mapping.slot, |hold| {
            hold.mappings = hold.mappings.saturating_sub(1);
        });
        if !hold.keeps() {
            self.end(mapping.slot);
        }
        hold
    }
}
