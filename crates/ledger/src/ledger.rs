//! Takes records and keeps the books.

use crate::announcements::Announcements;
use crate::anomalies::Anomalies;
use crate::apart::Made;
use crate::belongings::LimitsIn;
use crate::blocks::{Block, Blocks, Class, Slot, State};
use crate::contexts::{Contexts, Released};
use crate::costs::{CostKey, Costs, Look};
use crate::definitions::Definitions;
use crate::devices::Devices;
use crate::graphs::Graphs;
use crate::hash::Map;
use crate::heights::highest_so_far;
use crate::history::History;
use crate::holes::Recent;
use crate::log::Log;
use crate::objects::Objects;
use crate::oom::OutOfMemory;
use crate::phases::{PhaseId, Phases};
use crate::pools::Pools;
use crate::rows::{Instant, Row, RowId, RowKey, Rows};
use crate::shares::Shares;
use crate::tensors::{self, Tensors};
use crate::vmm::Physical;
use oomhook_trace::record::{
    Cost, CostKind, Deed, DeedKind, EndKind, HostMemory, LiveBlock, Object,
};
use oomhook_trace::told::{Tensor, TensorWhat};
use oomhook_trace::{Event, Record, Space, ThreadId, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Notes kept.
const MOST_NOTES: usize = 256;
/// Counts over the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Successful calls that made a block of memory.
    pub allocs: u64,
    /// Successful frees of such blocks.
    pub frees: u64,
    /// Failed calls that would have made a block.
    pub failed_allocs: u64,
    /// Frees that failed.
    pub failed_frees: u64,
    /// Frees of NULL.
    pub null_frees: u64,
    /// Successful calls for zero bytes.
    pub zero_size: u64,
    /// Device bytes that ever came.
    pub cumulative_bytes: u64,
    /// Successful frees of blocks whose allocation was not seen (these count as frees, too).
    pub untracked_frees: u64,
    /// Blocks that ended unseen: their address was given out again.
    pub replaced: u64,
    /// Every event.
    pub events: u64,
}

/// A thread's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Allocations it made.
    pub allocs: u64,
    /// Frees it made, of whomever's blocks.
    pub frees: u64,
}

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// In which way.
    pub kind: EndKind,
    /// Exit code, where known.
    pub code: Option<u8>,
    /// Signal, where one ended it.
    pub signal: Option<u8>,
}

/// The books of one process.
#[derive(Clone, Default)]
pub struct Ledger {
    pub(crate) definitions: Definitions,
    pub(crate) blocks: Blocks,
    pub(crate) rows: Rows,
    pub(crate) devices: Devices,
    pub(crate) physical: Physical,
    pub(crate) announcements: Announcements,
    pub(crate) history: History,
    pub(crate) contexts: Contexts,
    pub(crate) released: Released,
    pub(crate) oom: OutOfMemory,
    pub(crate) anomalies: Anomalies,
    pub(crate) threads: Map<ThreadId, ThreadUse>,
    pub(crate) pools: Pools,
    pub(crate) shares: Shares,
    pub(crate) objects: Objects,
    pub(crate) tensors: Tensors,
    pub(crate) phases: Phases,
    pub(crate) recent: Recent,
    pub(crate) log: Log,
    // When a thread last got a block of a cache; kept from the first failure on.
    pub(crate) tensor_times: Map<ThreadId, u64>,
    pub(crate) costs: Costs,
    pub(crate) graphs: Graphs,
    pub(crate) limits: BTreeMap<(Option<u8>, u32), u64>,
    pub(crate) limits_in: LimitsIn,
    pub(crate) totals: Totals,
    pub(crate) notes: Vec<String>,
    pub(crate) end: Option<End>,
    pub(crate) last_ns: u64,
    // The host's memory, of threads whose failure comes next.
    pub(crate) host_memory: Map<ThreadId, HostMemory>,
    // When these books were taken over from a checkpoint, which does not say what changed lately.
    pub(crate) restored_ns: u64,
    // What scans of all blocks have cost so far.
    pub(crate) scanned: u64,
}

impl Ledger {
    /// Bytes that a device's pools keep and nobody uses, by their latest figures.
    #[must_use]
    pub fn pool_idle(&self, device: u8) -> u64 {
        self.pools.idle(Some(device))
    }

    /// The same at the device's peak, and whether that is an estimate; `None` if what its pools reserve was never told.
    #[must_use]
    pub fn pool_idle_at_peak(&self, device: u8) -> Option<(u64, bool)> {
        let device = Some(device);
        let peak = self.devices.get(device).map(|usage| usage.peak)?;
        self.pools.idle_at_peak(device, &peak)
    }

    /// True if the driver has said what the device's pools reserve, or nothing came from one.
    #[must_use]
    pub fn knows_pools(&self, device: u8) -> bool {
        self.pools.are_known(Some(device))
    }

    /// Takes in a record. Records must come in the order of the trace.
    pub fn apply(&mut self, record: &Record) {
        // An end holds only if nothing follows: `exec` may fail, and a signal may turn out not to end the process.
        self.end = None;
        match record {
            Record::Event(event) => self.apply_event(event),
            Record::Note { text, .. } => self.note(text),
            Record::HostMemory(host) => {
                self.host_memory.insert(host.thread, *host);
            }
            Record::Tensor(tensor) => self.tensor(tensor),
            Record::PhaseName(name) => self.phases.define(name),
            Record::Phase(phase) => {
                self.last_ns = self.last_ns.max(phase.time_ns);
                let heights = self.heights();
                let (devices, tensors) = (&self.devices, &self.tensors);
                self.phases
                    .apply(phase, heights, || highest_so_far(devices, tensors));
            }
            Record::LogLine(line) => {
                self.last_ns = self.last_ns.max(line.time_ns);
                let now = self.figures();
                self.log.line(line, now);
            }
            Record::Cost(cost) => {
                self.last_ns = self.last_ns.max(cost.time_ns);
                self.costs.add(cost);
                if cost.bytes != Cost::ALL_BACK {
                    self.phases.took(cost.thread, cost.bytes);
                }
            }
            Record::Sample(sample) => {
                let device = Some(sample.device);
                let tracked = self.devices.get(device).map_or(0, |usage| usage.live.bytes);
                let made = self.pools.are_known(device).then(|| self.made());
                let look = Look {
                    sample: sample.clone(),
                    tracked,
                    pool_idle: self.pools.idle(device),
                    costs: self.costs.sum(sample.device),
                    counts: Object::ALL
                        .into_iter()
                        .map(|kind| (kind, self.objects.count(kind).live))
                        .filter(|(_, live)| *live > 0)
                        .collect(),
                };
                self.costs.look(look, made.as_ref());
            }
            Record::Deed(deed) => {
                self.last_ns = self.last_ns.max(deed.time_ns);
                self.deed(deed);
            }
            definition => {
                self.definitions.define(definition);
            }
        }
    }

    fn deed(&mut self, deed: &Deed) {
        match deed.kind {
            Some(DeedKind::Launches) => self.graphs.launches += deed.value,
            Some(DeedKind::Export) => self.export(deed),
            Some(DeedKind::Open) => self.shares.import(deed),
            Some(DeedKind::Unmeasured) => self.not_measured(deed),
            Some(DeedKind::MadeIn) => self.made_in(deed),
            Some(DeedKind::LimitIn) => self.limit_in(deed),
            Some(DeedKind::ContextGone) => self.context_gone(deed),
            Some(kind) => self.pools.deed(deed, kind),
            None => {}
        }
    }

    fn not_measured(&mut self, deed: &Deed) {
        let Some(device) = deed.device else { return };
        let key = CostKey {
            device,
            kind: CostKind::from_wire(deed.subject).unwrap_or(CostKind::Other),
            call: deed.call,
            stack: deed.stack,
        };
        self.costs.not_measured(key, deed.time_ns, deed.value);
    }

    /// How many objects were ever made that take memory, by purpose.
    fn made(&self) -> Made {
        let count = |kind| self.objects.count(kind).created;
        Made::from([
            (
                CostKind::Code,
                count(Object::Module) + count(Object::Library),
            ),
            (CostKind::Stream, count(Object::Stream)),
            (CostKind::GraphExec, count(Object::GraphExec)),
        ])
    }

    fn tensor(&mut self, tensor: &Tensor) {
        self.last_ns = self.last_ns.max(tensor.time_ns);
        match tensor.what {
            TensorWhat::Alloc { address, bytes } => {
                self.tensor_succeeded(tensor, bytes);
                // The first block in a new segment shows that the segment is the cache's.
                while let Some(row) = self.recent.holding(tensor.thread, address, bytes) {
                    self.serves_cache(row);
                }
            }
            TensorWhat::Failed { requested } => self.tensor_failed(tensor, requested),
            TensorWhat::Free { .. } | TensorWhat::Live { .. } => {}
        }
        let now = self.present_window();
        let phase = self.phases.of_thread(tensor.thread);
        self.tensors.apply(
            tensor,
            tensors::key_of(tensor, phase),
            self.phases.round(phase),
            now,
        );
        if matches!(tensor.what, TensorWhat::Alloc { .. }) {
            self.phases.tensors_grew(tensor.device, tensor.allocated);
            self.log.tensors_grew(tensor.allocated);
        }
    }

    /// All blocks of this row are segments of a framework's cache.
    fn serves_cache(&mut self, row: RowId) {
        let Some(row) = self.rows.get_mut(row).filter(|row| !row.serves_cache) else {
            return;
        };
        row.serves_cache = true;
        if let Some(device) = segments_on(row) {
            self.tensors.segment_came(device, row.live.bytes);
        }
    }

    fn note(&mut self, text: &str) {
        if self.notes.len() < MOST_NOTES && !self.notes.iter().any(|known| known == text) {
            self.notes.push(text.to_owned());
        }
    }

    fn apply_event(&mut self, event: &Event) {
        self.totals.events += 1;
        self.last_ns = self.last_ns.max(event.time_ns);
        match event.what {
            What::Alloc { .. } => self.alloc(event),
            What::AllocFailed { .. } => self.alloc_failed(event),
            What::Free { space, address, .. } => self.free(event, space, address),
            What::Undo { address, code } => self.undo(event, address, code),
            What::NullFree => self.totals.null_frees += 1,
            What::ZeroSize => self.totals.zero_size += 1,
            What::Retain { handle } => {
                if let Some(slot) = self.find_handle(handle) {
                    self.physical.change(slot, |hold| hold.references += 1);
                }
            }
            What::Map {
                address,
                bytes,
                handle,
                ..
            } => self.map(event.thread, address, bytes, handle),
            What::Unmap { address, bytes } => self.unmap(event, address, bytes),
            What::ContextCreate { context, explicit } => {
                self.contexts.create(context, explicit, event);
            }
            What::ContextDestroy { context } => self.destroy_context(event, context),
            What::Reset => self.reset(event),
            What::PoolState { .. } => self.pools.state(event, &self.devices),
            What::Created {
                object,
                handle,
                bytes,
            } => {
                match object {
                    Object::Pool => self.pools.made(event, handle),
                    Object::GreenContext => self.contexts.create_green(handle, event),
                    _ => {}
                }
                self.objects.create(event, object, handle, bytes);
            }
            What::Destroyed { object, handle } => {
                match object {
                    Object::Pool => self.destroy_pool(event, handle),
                    Object::GreenContext => self.contexts.end_green(handle, event.time_ns),
                    _ => {}
                }
                self.objects.destroy(object, handle);
            }
            What::GraphAlloc { .. } => self.graphs.alloc_node(event),
            What::GraphFree { .. } => self.graphs.free_nodes += 1,
            What::GraphMemory { .. } => self.graph_memory(event),
            What::CaptureEnd { ok: true } => self.graphs.captures += 1,
            What::CaptureEnd { ok: false } => self.graphs.failed_captures += 1,
            What::Limit { limit, value } => {
                self.limits.insert((event.device, limit), value);
            }
            What::ThreadExit { ref name } => {
                self.definitions.thread_exited(event.thread, name);
                let heights = self.heights();
                self.phases
                    .thread_ended(event.thread, event.time_ns, &heights);
                for last in self.announcements.finish_thread(event.thread) {
                    self.finalise(&last);
                }
            }
            What::End { kind, code, signal } => self.end = Some(End { kind, code, signal }),
            What::Live(ref block) => {
                self.restore_live(event, block, 0);
            }
        }
    }

    pub(crate) fn thread_mut(&mut self, thread: ThreadId) -> &mut ThreadUse {
        self.threads.entry(thread).or_default()
    }

    pub(crate) fn row_of(&mut self, event: &Event, space: Space, phase: PhaseId) -> RowId {
        let key = RowKey {
            stack: event.stack,
            thread: event.thread,
            call: event.call,
            device: event.device,
            space,
            phase,
        };
        let peak = self.devices.peak_number(event.device);
        self.rows.intern(key, peak)
    }

    fn alloc(&mut self, event: &Event) {
        let What::Alloc {
            space,
            address,
            bytes,
            requested,
            context,
            stream,
            pool,
        } = event.what
        else {
            return;
        };
        if let Some(old) = self.blocks.find(Class::of(space), address) {
            if space == Space::Imported {
                // Opening the same memory again gives the same pointer, and wants one more closing.
                self.physical.change(old, |hold| hold.references += 1);
                return;
            }
            self.replace(old);
        }
        let phase = self.phases.of_thread(event.thread);
        let row = self.row_of(event, space, phase);
        let mut number = 0;
        if space.is_allocation() {
            self.totals.allocs += 1;
            number = self.totals.allocs;
            self.thread_mut(event.thread).allocs += 1;
        }
        let block = Block {
            address,
            bytes,
            requested,
            stream,
            time_ns: event.time_ns,
            number,
            row,
            context: self.contexts.intern(context, event),
            generation: 0,
            space,
            state: State::Live,
        };
        let slot = self.blocks.place(block);
        self.blocks.show(slot);
        self.pools.comes(event, space, address, pool);
        self.charge(&block, event.time_ns);
        self.count_alloc(event, &block);
        if space.is_device() && space != Space::Vmm {
            self.recent.came(event.thread, address, bytes, row);
        }
        let ended = self.ended_bytes(event.device);
        self.oom.succeed(event, requested, ended);
    }

    fn count_alloc(&mut self, event: &Event, block: &Block) {
        self.rows.count(block.row, block.bytes);
        let device = self.devices.get_mut(event.device);
        let one = device.spaces.get_mut(block.space);
        one.allocs += 1;
        one.cumulative_bytes = one.cumulative_bytes.saturating_add(block.bytes);
        let all = self.devices.everywhere_mut().get_mut(block.space);
        all.allocs += 1;
        all.cumulative_bytes = all.cumulative_bytes.saturating_add(block.bytes);
        if block.space.is_device() {
            self.totals.cumulative_bytes = self.totals.cumulative_bytes.saturating_add(block.bytes);
        }
    }

    /// The address of a living block was given out again: its end was not seen.
    fn replace(&mut self, old: Slot) {
        self.blocks.hide(old);
        let hold = self.physical.hold(old);
        if self.physical.knows(old) {
            self.physical.change(old, |hold| hold.references = 0);
        }
        if hold.mappings > 0 {
            return;
        }
        self.totals.replaced += 1;
        self.end(old);
        if hold.open == 0 {
            self.vacate(old);
        }
    }

    pub(crate) fn find_handle(&self, handle: u64) -> Option<Slot> {
        self.blocks
            .find(Class::Handle, handle)
            .or_else(|| self.find_host_handle(handle))
    }

    fn instant(&self, device: Option<u8>) -> Instant {
        Instant {
            peak: self.devices.peak_number(device),
            window: self.present_window(),
            tick: self.totals.allocs,
        }
    }

    /// A block counts from now on.
    pub(crate) fn charge(&mut self, block: &Block, time_ns: u64) {
        if let Some(device) = self.rows.get(block.row).and_then(segments_on) {
            self.tensors.segment_came(device, block.bytes);
        }
        self.enter(block, time_ns);
    }

    /// A block counts after all; so does a segment of a cache that the cache has not given back.
    pub(crate) fn recharge(&mut self, block: &Block, time_ns: u64) {
        if let Some(device) = self.rows.get(block.row).and_then(segments_on) {
            self.tensors.segment_stays(device, block.bytes);
        }
        self.enter(block, time_ns);
    }

    fn enter(&mut self, block: &Block, time_ns: u64) {
        let Some(key) = self.rows.get(block.row).map(|row| row.key) else {
            return;
        };
        let of = key.device;
        let phase = (key.phase, self.phases.round(key.phase));
        let amount = block.amount();
        let now = self.instant(of);
        self.rows.change(block.row, now, |live| *live += amount);
        let device = self.devices.get_mut(of);
        self.pools.charge(block, of, now.peak);
        device.spaces.get_mut(block.space).add(amount);
        if block.space.is_device() {
            device.grow(amount, self.totals.allocs, time_ns, phase);
            let live = device.live.bytes;
            self.phases.grew(of, live);
            self.log.grew(live);
        }
        self.devices
            .everywhere_mut()
            .get_mut(block.space)
            .add(amount);
    }

    /// A block counts no more.
    pub(crate) fn discharge(&mut self, block: &Block) {
        let Some(row) = self.rows.get(block.row) else {
            return;
        };
        let of = row.key.device;
        if let Some(device) = segments_on(row) {
            self.tensors.segment_went(device, block.bytes);
        }
        let amount = block.amount();
        let now = self.instant(of);
        self.rows.change(block.row, now, |live| *live -= amount);
        let device = self.devices.get_mut(of);
        self.pools.discharge(block, of, now.peak);
        self.rows
            .buried(block.row, self.last_ns.saturating_sub(block.time_ns));
        device.spaces.get_mut(block.space).live -= amount;
        if block.space.is_device() {
            device.live -= amount;
            device.ended_bytes = device.ended_bytes.saturating_add(block.bytes);
        }
        self.devices.everywhere_mut().get_mut(block.space).live -= amount;
    }

    /// The block's end was taken back: it was no end.
    pub(crate) fn unend(&mut self, block: &Block) {
        if block.space.is_device()
            && let Some(row) = self.rows.get(block.row)
        {
            let device = self.devices.get_mut(row.key.device);
            device.ended_bytes = device.ended_bytes.saturating_sub(block.bytes);
        }
    }

    /// Puts a block of a checkpoint in its slot, without counting it again.
    pub(crate) fn restore_live(&mut self, event: &Event, live: &LiveBlock, phase: PhaseId) -> Slot {
        let row = self.row_of(event, live.space, phase);
        let block = Block {
            address: live.address,
            bytes: live.bytes,
            requested: live.requested,
            stream: live.stream,
            time_ns: event.time_ns,
            number: live.number,
            row,
            context: self.contexts.intern(live.context, event),
            generation: 0,
            space: live.space,
            state: State::Live,
        };
        let slot = self.blocks.place(block);
        self.blocks.show(slot);
        slot
    }
}

/// The device on which a row's blocks are segments of a cache.
fn segments_on(row: &Row) -> Option<u8> {
    row.key
        .device
        .filter(|_| row.serves_cache && row.key.space.is_device())
}
