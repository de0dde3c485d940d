//! What the books can be asked.

use crate::amount::Amount;
use crate::anomalies::Anomalies;
use crate::belongings::LimitIn;
use crate::blocks::Block;
use crate::contexts::{Contexts, Released};
use crate::costs::Costs;
use crate::definitions::Definitions;
use crate::devices::{DeviceUse, Devices};
use crate::graphs::Graphs;
use crate::history::Ended;
use crate::ledger::{End, Ledger, ThreadUse, Totals};
use crate::log::Log;
use crate::objects::Objects;
use crate::oom::OutOfMemory;
use crate::phases::Phases;
use crate::pools::{PoolUse, Pools};
use crate::rows::{Row, RowId};
use crate::shares::Shares;
use crate::tensors::Tensors;
use crate::vmm::{Hold, Physical};
use oomhook_trace::{Space, ThreadId};

impl Ledger {
    /// Blocks that ended lately, the latest first.
    pub fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.history.newest()
    }

    /// Counts over the whole process.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Live bytes and peaks by device and space.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// One device's use, if it was used.
    #[must_use]
    pub fn device(&self, device: Option<u8>) -> Option<&DeviceUse> {
        self.devices.get(device)
    }

    /// Every row with its number.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &Row)> {
        self.rows.iter()
    }

    /// What calls took without saying so, and looks at whole devices.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Phases of the program.
    #[must_use]
    pub fn phases(&self) -> &Phases {
        &self.phases
    }

    /// The program's own output lines.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Blocks inside frameworks' caches.
    #[must_use]
    pub fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// One row.
    #[must_use]
    pub fn row(&self, id: RowId) -> Option<&Row> {
        self.rows.get(id)
    }

    /// What lived of a row when its device's device bytes were at their peak.
    #[must_use]
    pub fn at_peak(&self, row: &Row) -> Amount {
        row.at_peak(self.devices.peak_number(row.key.device))
    }

    /// Every living block, in no order.
    pub fn live_blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.live().map(|(_, block)| block)
    }

    /// Names, libraries, frames, stacks, threads, devices.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Mappings and references of physical memory.
    #[must_use]
    pub fn physical(&self) -> &Physical {
        &self.physical
    }

    /// What ran out of memory.
    #[must_use]
    pub fn oom(&self) -> &OutOfMemory {
        &self.oom
    }

    /// What was wrong with frees and registrations.
    #[must_use]
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// What went with resets and destroyed contexts.
    #[must_use]
    pub fn released(&self) -> &Released {
        &self.released
    }

    /// Contexts.
    #[must_use]
    pub fn contexts(&self) -> &Contexts {
        &self.contexts
    }

    /// Modules, graphs, streams and their like.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Nodes that allocate, captures, memory kept for graphs.
    #[must_use]
    pub fn graphs(&self) -> &Graphs {
        &self.graphs
    }

    /// Limits that were set: device and the driver's number of the limit, with the value.
    pub fn limits(&self) -> impl Iterator<Item = (Option<u8>, u32, u64)> + '_ {
        self.limits
            .iter()
            .map(|((device, limit), value)| (*device, *limit, *value))
    }

    /// Limits of contexts that are not their device's primary one.
    #[must_use]
    pub fn limits_in(&self) -> &[LimitIn] {
        &self.limits_in
    }

    /// Pools, as last seen.
    pub fn pools(&self) -> impl Iterator<Item = &PoolUse> {
        self.pools.iter()
    }

    /// Everything about pools.
    #[must_use]
    pub fn pool_books(&self) -> &Pools {
        &self.pools
    }

    /// What is shared with other processes.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Living physical memory with what keeps it; also other processes' that is mapped here.
    pub fn physical_blocks(&self) -> impl Iterator<Item = (&Block, Hold)> {
        let holds = |(slot, block)| (block, self.physical.hold(slot));
        let all = self
            .blocks
            .live()
            .filter(|(slot, block)| match block.space {
                Space::Vmm => true,
                Space::Pinned => self.physical.knows(*slot),
                Space::Imported => self.physical.hold(*slot).mappings > 0,
                _ => false,
            });
        all.map(holds)
    }

    /// Threads that made a call, by number.
    #[must_use]
    pub fn threads(&self) -> Vec<(ThreadId, ThreadUse)> {
        let mut all: Vec<_> = self
            .threads
            .iter()
            .map(|(id, usage)| (*id, *usage))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    }

    /// What the recording wants the reader to know.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How the process ended, if the trace says.
    #[must_use]
    pub fn end_of_process(&self) -> Option<End> {
        self.end
    }

    /// Time of the latest event.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }
}
