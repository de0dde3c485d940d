//! The whole state, to go on from it elsewhere: sums as JSON, definitions and living blocks as records.
//!
//! Slots are numbered anew: first the living blocks in the order of their records, then those in limbo.

use crate::amount::Amount;
use crate::announcements::{Announcement, Effect};
use crate::anomalies::Anomalies;
use crate::belongings::LimitsIn;
use crate::blocks::{Block, Slot, State};
use crate::contexts::{Contexts, Released};
use crate::costs::Costs;
use crate::devices::Devices;
use crate::graphs::Graphs;
use crate::hash::Map;
use crate::history::Ended;
use crate::ledger::{End, Ledger, ThreadUse, Totals};
use crate::log::Log;
use crate::objects::{Objects, SavedObjects};
use crate::oom::OutOfMemory;
use crate::phases::{PhaseId, Phases, SavedPhases};
use crate::pools::{PoolUse, Pools, SavedPools};
use crate::rows::{Lately, Row, RowKey, Sizes};
use crate::runs::Runs;
use crate::series::Series;
use crate::shares::Shares;
use crate::tensors::{self, SavedTensors, Tensors};
use crate::vmm::{Hold, Mapping};
use oomhook_trace::record::LiveBlock;
use oomhook_trace::{Event, Record, Space, ThreadId, What};
use serde::{Deserialize, Serialize};

/// A row in a few numbers.
type RowColumns = (
    u32,
    u32,
    u16,
    Option<u8>,
    Space,
    Amount,
    Amount,
    u64,
    u64,
    u64,
);

/// What a row was over time.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Life {
    lived_ns: u64,
    sizes: Sizes,
    serves_cache: bool,
    series: Option<Box<Series>>,
    phase: PhaseId,
}

impl Life {
    fn of(row: &Row) -> Life {
        Life {
            lived_ns: row.lived_ns,
            sizes: row.sizes,
            serves_cache: row.serves_cache,
            series: row.series.clone(),
            phase: row.key.phase,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Saved {
    totals: Totals,
    devices: Devices,
    rows: Vec<RowColumns>,
    lives: Vec<Life>,
    tensors: SavedTensors,
    phases: SavedPhases,
    log: Log,
    live_phases: Runs,
    handed_out_phases: Runs,
    hidden: Vec<u32>,
    limbo: Vec<Block>,
    holds: Vec<(Slot, Hold)>,
    mappings: Vec<(u64, Mapping)>,
    serial: u64,
    announcements: Vec<(ThreadId, Announcement)>,
    history: Vec<Ended>,
    contexts: Contexts,
    released: Released,
    oom: OutOfMemory,
    anomalies: Anomalies,
    threads: Vec<(ThreadId, ThreadUse)>,
    exited: Vec<ThreadId>,
    pools: Vec<PoolUse>,
    pool_blocks: SavedPools,
    shares: Shares,
    objects: SavedObjects,
    #[serde(default)]
    costs: Costs,
    graphs: Graphs,
    limits: Vec<((Option<u8>, u32), u64)>,
    limits_in: LimitsIn,
    notes: Vec<String>,
    end: Option<End>,
    last_ns: u64,
    scanned: u64,
}

impl Ledger {
    /// All that is needed to go on exactly: the sums as JSON; definitions and living blocks as records, which come
    /// one by one, so that a million blocks take no memory a second time.
    ///
    /// # Errors
    /// When the state cannot be written as JSON.
    pub fn checkpoint(
        &self,
    ) -> Result<(Vec<u8>, impl Iterator<Item = Record> + '_), serde_json::Error> {
        let state = serde_json::to_vec(&self.save())?;
        let live = self.blocks.live().map(|(_, block)| self.live_record(block));
        let handed_out = self.tensors.live_records();
        Ok((
            state,
            self.definitions
                .records()
                .chain(self.phases.names().cloned().map(Record::PhaseName))
                .chain(live)
                .chain(handed_out),
        ))
    }

    fn save(&self) -> Saved {
        let mut limbo = Vec::new();
        let mut hidden = Vec::new();
        let mut numbers: Map<Slot, Slot> = Map::default();
        let mut number = 0;
        // Only the slots that something else refers to need their new number.
        let referred = self.referred_slots();
        for (slot, _) in self.blocks.live() {
            if referred.contains_key(&slot) {
                numbers.insert(slot, renumbered(number));
                if !self.blocks.is_shown(slot) {
                    hidden.push(number);
                }
            }
            number += 1;
        }
        for (slot, block) in self.blocks.occupied() {
            if block.state == State::Limbo {
                numbers.insert(slot, renumbered(number));
                limbo.push(*block);
                number += 1;
            }
        }
        let new = |slot: Slot| numbers.get(&slot).copied();
        let holds = self.physical.holds();
        let mappings = self.physical.mappings();
        let announcements = self.announcements.iter();
        let (pools, pool_blocks) = self.pools.save();
        Saved {
            totals: self.totals,
            devices: self.devices.clone(),
            rows: self.rows.iter().map(|(_, row)| columns(row)).collect(),
            lives: self.rows.iter().map(|(_, row)| Life::of(row)).collect(),
            tensors: self.tensors.save(),
            phases: self.phases.save(),
            log: self.log.clone(),
            live_phases: Runs::of(self.blocks.live().map(|(_, block)| {
                let row = self.rows.get(block.row);
                row.map_or(0, |row| row.key.phase)
            })),
            handed_out_phases: self.tensors.live_phases(),
            hidden,
            limbo,
            holds: holds
                .filter_map(|(slot, hold)| Some((new(slot)?, hold)))
                .collect(),
            mappings: mappings
                .filter_map(|(at, mapping)| Some((at, renumber_mapping(mapping, &new)?)))
                .collect(),
            serial: self.announcements.serial(),
            announcements: announcements
                .map(|(thread, one)| (thread, renumber(one, &new)))
                .collect(),
            history: self.history.iter().copied().collect(),
            contexts: self.contexts.clone(),
            released: self.released.clone(),
            oom: self.oom.clone(),
            anomalies: self.anomalies.clone(),
            threads: self.threads(),
            exited: self.definitions.exited(),
            pools,
            pool_blocks,
            shares: self.shares.clone(),
            objects: self.objects.save(),
            costs: self.costs.clone(),
            graphs: self.graphs.clone(),
            limits_in: self.limits_in.clone(),
            limits: self
                .limits
                .iter()
                .map(|(limit, value)| (*limit, *value))
                .collect(),
            notes: self.notes.clone(),
            end: self.end,
            last_ns: self.last_ns,
            scanned: self.scanned,
        }
    }

    fn referred_slots(&self) -> Map<Slot, ()> {
        let held = self.physical.holds().map(|(slot, _)| slot);
        let mapped = self.physical.mappings().map(|(_, mapping)| mapping.slot);
        let announced = self
            .announcements
            .iter()
            .flat_map(|(_, one)| one.effect.slots());
        held.chain(mapped)
            .chain(announced)
            .map(|slot| (slot, ()))
            .collect()
    }

    fn live_record(&self, block: &Block) -> Record {
        let key = self.rows.get(block.row).map(|row| row.key);
        let context = self.contexts.get(block.context);
        Record::Event(Event {
            time_ns: block.time_ns,
            thread: key.map_or(0, |key| key.thread),
            device: key.and_then(|key| key.device),
            call: key.map_or(0, |key| key.call),
            stack: key.map_or(0, |key| key.stack),
            what: What::Live(LiveBlock {
                space: block.space,
                address: block.address,
                bytes: block.bytes,
                requested: block.requested,
                // Memory that outlived its context belongs to none.
                context: context
                    .filter(|context| context.destroyed_ns.is_none())
                    .map_or(0, |context| context.handle),
                stream: block.stream,
                number: block.number,
                references: 1,
            }),
        })
    }

    /// A ledger that goes on from a checkpoint.
    ///
    /// # Errors
    /// When the state is not what [`Ledger::checkpoint`] writes.
    pub fn restore(state: &[u8], records: &[Record]) -> Result<Ledger, serde_json::Error> {
        let saved: Saved = serde_json::from_slice(state)?;
        let mut ledger = Ledger {
            totals: saved.totals,
            devices: saved.devices,
            contexts: saved.contexts,
            released: saved.released,
            oom: saved.oom,
            anomalies: saved.anomalies,
            threads: saved.threads.into_iter().collect(),
            pools: Pools::restore(saved.pools, saved.pool_blocks),
            shares: saved.shares,
            objects: Objects::restore(saved.objects),
            costs: saved.costs,
            graphs: saved.graphs,
            limits: saved.limits.into_iter().collect(),
            limits_in: saved.limits_in,
            notes: saved.notes,
            end: saved.end,
            last_ns: saved.last_ns,
            restored_ns: saved.last_ns,
            host_memory: Map::default(),
            scanned: saved.scanned,
            ..Ledger::default()
        };
        let mut lives = saved.lives.into_iter();
        for row in saved.rows {
            let life = lives.next().unwrap_or_default();
            ledger.rows.restore(row_of(row, life));
        }
        ledger.tensors = Tensors::restore(saved.tensors);
        ledger.phases = Phases::restore(saved.phases);
        ledger.log = saved.log;
        let mut live_phases = saved.live_phases.numbers();
        let mut handed_out_phases = saved.handed_out_phases.numbers();
        ledger.contexts.reindex();
        ledger.shares.reindex();
        ledger.oom.reindex();
        for ended in saved.history {
            ledger.history.remember(ended);
        }
        let mut live = 0;
        for record in records {
            match record {
                Record::Event(event) => {
                    if let What::Live(block) = &event.what {
                        let phase = live_phases.next().unwrap_or(0);
                        let slot = ledger.restore_live(event, block, phase);
                        if saved.hidden.binary_search(&live).is_ok() {
                            ledger.blocks.hide(slot);
                        }
                        live += 1;
                    }
                }
                Record::Tensor(tensor) => {
                    let phase = handed_out_phases.next().unwrap_or(0);
                    let key = tensors::key_of(tensor, phase);
                    ledger.tensors.apply(tensor, key, 0, 0);
                }
                Record::PhaseName(name) => ledger.phases.define(name),
                definition => {
                    ledger.definitions.define(definition);
                }
            }
        }
        for block in saved.limbo {
            ledger.blocks.place(block);
        }
        for thread in saved.exited {
            ledger.definitions.thread_exited(thread, "");
        }
        for (slot, hold) in saved.holds {
            ledger.physical.restore_hold(slot, hold);
        }
        for (at, mapping) in saved.mappings {
            ledger.physical.map(at, mapping);
        }
        ledger
            .announcements
            .restore(saved.serial, saved.announcements);
        Ok(ledger)
    }
}

fn renumbered(number: u32) -> Slot {
    Slot {
        number,
        generation: 0,
    }
}

fn columns(row: &Row) -> RowColumns {
    let key = row.key;
    (
        key.stack,
        key.thread,
        key.call,
        key.device,
        key.space,
        row.live,
        row.at_peak,
        row.peak,
        row.allocs,
        row.cumulative_bytes,
    )
}

fn row_of(columns: RowColumns, life: Life) -> Row {
    let (stack, thread, call, device, space, live, at_peak, peak, allocs, cumulative_bytes) =
        columns;
    Row {
        key: RowKey {
            stack,
            thread,
            call,
            device,
            space,
            phase: life.phase,
        },
        live,
        at_peak,
        peak,
        allocs,
        cumulative_bytes,
        lately: Lately::default(),
        lived_ns: life.lived_ns,
        sizes: life.sizes,
        serves_cache: life.serves_cache,
        series: life.series,
    }
}

fn renumber_mapping(mapping: Mapping, new: &impl Fn(Slot) -> Option<Slot>) -> Option<Mapping> {
    Some(Mapping {
        slot: new(mapping.slot)?,
        ..mapping
    })
}

/// A slot that is no more gets a number that is never given.
fn renumber(one: &Announcement, new: &impl Fn(Slot) -> Option<Slot>) -> Announcement {
    let or_none = |slot: Slot| new(slot).unwrap_or(renumbered(u32::MAX));
    let effect = match &one.effect {
        Effect::FreeUnknown { family, counted } => Effect::FreeUnknown {
            family: *family,
            counted: *counted,
        },
        Effect::Dereferenced { slot } => Effect::Dereferenced {
            slot: or_none(*slot),
        },
        Effect::Freed {
            slot,
            crossed,
            elsewhere,
        } => Effect::Freed {
            slot: or_none(*slot),
            crossed: *crossed,
            elsewhere: *elsewhere,
        },
        Effect::Unmapped { mappings } => Effect::Unmapped {
            mappings: mappings
                .iter()
                .filter_map(|(at, mapping)| Some((*at, renumber_mapping(*mapping, new)?)))
                .collect(),
        },
        Effect::Released { slots, context } => Effect::Released {
            slots: slots.iter().copied().filter_map(new).collect(),
            context: *context,
        },
    };
    Announcement {
        effect,
        ..one.clone()
    }
}
