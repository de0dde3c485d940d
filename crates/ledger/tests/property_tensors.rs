//! Random lives of blocks inside a cache and of phases, against a model that keeps everything and counts it anew; and the same,
//! interrupted by a checkpoint.

mod common;

use common::MIB;
use oomhook_ledger::Ledger;
use oomhook_ledger::phases::Instance;
use oomhook_trace::told::{Phase, PhaseName, PhaseWhat, Tensor, TensorWhat};
use oomhook_trace::{Event, Record, Space, What};
use proptest::prelude::*;
use std::collections::BTreeMap;

const DEVICES: u8 = 2;
/// What the cache holds beyond what it has handed out.
const IDLE: u64 = 7 * MIB;

#[derive(Clone, Debug)]
enum Op {
    /// A block comes; at an address that is taken, the old one went unseen.
    Alloc {
        device: u8,
        place: u64,
        mib: u64,
        stack: u32,
    },
    /// A block goes, perhaps one that was never seen.
    Free { device: u8, place: u64 },
    /// A thread enters a range.
    Push { thread: u32, name: u32 },
    /// It leaves the innermost one, if it is in any.
    Pop { thread: u32 },
    /// It is gone.
    End { thread: u32 },
    /// A block of the driver's.
    Driver { mib: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let (device, thread) = (0..DEVICES, 1..3u32);
    prop_oneof![
        5 => (device.clone(), 0..6u64, 1..50u64, 1..4u32)
            .prop_map(|(device, place, mib, stack)| Op::Alloc { device, place, mib, stack }),
        4 => (device, 0..6u64).prop_map(|(device, place)| Op::Free { device, place }),
        2 => (thread.clone(), 1..4u32).prop_map(|(thread, name)| Op::Push { thread, name }),
        2 => thread.clone().prop_map(|thread| Op::Pop { thread }),
        1 => thread.prop_map(|thread| Op::End { thread }),
        1 => (1..50u64).prop_map(|mib| Op::Driver { mib }),
    ]
}

/// What a phase's finished instances came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Finished {
    count: u64,
    /// Most bytes handed out on one device, in one of them.
    highest: u64,
}

#[derive(Default)]
struct Model {
    time_ns: u64,
    /// Bytes, stack, device; by address.
    blocks: BTreeMap<u64, (u64, u32, u8)>,
    allocs: [u64; 2],
    frees: [u64; 2],
    unknown: [u64; 2],
    peaks: [u64; 2],
    /// What was handed out at the peak, by stack.
    at_peak: [BTreeMap<u32, u64>; 2],
    /// Name, and most bytes of each device since; by thread, innermost last.
    open: BTreeMap<u32, Vec<(u32, [u64; 2])>>,
    finished: BTreeMap<u32, Finished>,
}

fn address(device: u8, place: u64) -> u64 {
    0x7000_0000_0000 + (u64::from(device) << 32) + place * 64 * MIB
}

fn name(id: u32) -> &'static str {
    ["forward", "backward", "step"][id as usize - 1]
}

impl Model {
    fn allocated(&self, device: u8) -> u64 {
        let here = self.blocks.values().filter(|block| block.2 == device);
        here.map(|block| block.0).sum()
    }

    fn by_stack(&self, device: u8) -> BTreeMap<u32, u64> {
        let mut sums = BTreeMap::new();
        for (bytes, stack, _) in self.blocks.values().filter(|block| block.2 == device) {
            *sums.entry(*stack).or_default() += bytes;
        }
        sums
    }

    fn tensor(&self, device: u8, stack: u32, what: TensorWhat) -> Record {
        Record::Tensor(Tensor {
            time_ns: self.time_ns,
            thread: 1,
            device,
            stack,
            what,
            allocated: self.allocated(device),
            reserved: self.allocated(device) + IDLE,
        })
    }

    fn step(&mut self, ledger: &mut Ledger, op: &Op) {
        self.time_ns += 1000;
        match *op {
            Op::Alloc {
                device,
                place,
                mib,
                stack,
            } => {
                let (address, bytes) = (address(device, place), mib * MIB);
                let number = usize::from(device);
                // What lay there was taken back, and nobody told.
                let gone = self.blocks.insert(address, (bytes, stack, device));
                self.unknown[number] += u64::from(gone.is_some());
                self.allocs[number] += 1;
                let what = TensorWhat::Alloc { address, bytes };
                ledger.apply(&self.tensor(device, stack, what));
                let allocated = self.allocated(device);
                if allocated > self.peaks[number] {
                    self.peaks[number] = allocated;
                    self.at_peak[number] = self.by_stack(device);
                }
                for (_, heights) in self.open.values_mut().flatten() {
                    heights[number] = heights[number].max(allocated);
                }
            }
            Op::Free { device, place } => {
                let address = address(device, place);
                let number = usize::from(device);
                let known = self.blocks.remove(&address);
                self.frees[number] += 1;
                self.unknown[number] += u64::from(known.is_none());
                let bytes = known.map_or(MIB, |block| block.0);
                ledger.apply(&self.tensor(device, 0, TensorWhat::Free { address, bytes }));
            }
            Op::Push { thread, name } => {
                let now = [self.allocated(0), self.allocated(1)];
                self.open.entry(thread).or_default().push((name, now));
                self.phase(ledger, thread, PhaseWhat::Push { name, domain: 0 });
            }
            Op::Pop { thread } => {
                if let Some(one) = self.open.entry(thread).or_default().pop() {
                    self.finish(one);
                    self.phase(ledger, thread, PhaseWhat::Pop { domain: 0 });
                }
            }
            Op::End { thread } => {
                for one in self.open.remove(&thread).unwrap_or_default() {
                    self.finish(one);
                }
                let name = String::new();
                ledger.apply(&Record::Event(Event {
                    time_ns: self.time_ns,
                    thread,
                    device: None,
                    call: 0,
                    stack: 0,
                    what: What::ThreadExit { name },
                }));
            }
            Op::Driver { mib } => ledger.apply(&Record::Event(Event {
                time_ns: self.time_ns,
                thread: 1,
                device: Some(0),
                call: 1,
                stack: 9,
                what: What::Alloc {
                    space: Space::Device,
                    address: 0x1000_0000 + self.time_ns * MIB,
                    bytes: mib * MIB,
                    requested: mib * MIB,
                    context: 0xc0,
                    stream: 0,
                    pool: 0,
                },
            })),
        }
    }

    fn finish(&mut self, (name, heights): (u32, [u64; 2])) {
        let finished = self.finished.entry(name).or_default();
        finished.count += 1;
        finished.highest = finished.highest.max(heights[0]).max(heights[1]);
    }

    fn phase(&self, ledger: &mut Ledger, thread: u32, what: PhaseWhat) {
        ledger.apply(&Record::Phase(Phase {
            time_ns: self.time_ns,
            thread,
            what,
        }));
    }

    /// What lasts stands where all its inner ones do, and asking changes nothing.
    fn compare_lasting(&self, ledger: &Ledger) {
        let mut lasting: Vec<(&str, u32, [u64; 2])> = Vec::new();
        for (thread, open) in &self.open {
            lasting.extend(open.iter().map(|one| (name(one.0), *thread, one.1)));
        }
        let of = |instance: &Instance, device| {
            let mut heights = instance.heights.iter();
            let height = heights.find(|height| height.device == Some(device));
            height.map_or(0, |height| height.tensors_peak)
        };
        let all = ledger.lasting_phases().into_iter();
        let mut told: Vec<(&str, u32, [u64; 2])> = all
            .map(|(id, instance)| {
                assert_eq!(instance.ended_ns, None);
                let phase = ledger.phases().get(id).expect("a phase");
                let heights = [of(&instance, 0), of(&instance, 1)];
                (phase.name(), instance.thread, heights)
            })
            .collect();
        lasting.sort_unstable();
        told.sort_unstable();
        assert_eq!(told, lasting);
    }

    fn compare(&self, ledger: &Ledger) {
        let tensors = ledger.tensors();
        for device in 0..DEVICES {
            let number = usize::from(device);
            let Some(cache) = tensors.cache(device) else {
                assert_eq!((self.allocs[number], self.frees[number]), (0, 0));
                continue;
            };
            assert_eq!(cache.allocs, self.allocs[number]);
            assert_eq!(cache.frees, self.frees[number]);
            assert_eq!(cache.unknown_frees, self.unknown[number]);
            assert_eq!(cache.live.bytes, self.allocated(device));
            assert_eq!(cache.allocated, self.allocated(device));
            assert_eq!(cache.idle(), IDLE);
            assert_eq!(cache.allocated_peak.bytes, self.peaks[number]);
            let sums = |of: &dyn Fn(&oomhook_ledger::Row) -> u64| {
                let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
                let rows = tensors.rows().map(|(_, row)| row);
                for row in rows.filter(|row| row.key.device == Some(device)) {
                    if of(row) > 0 {
                        *sums.entry(row.key.stack).or_default() += of(row);
                    }
                }
                sums
            };
            assert_eq!(sums(&|row| row.live.bytes), self.by_stack(device));
            assert_eq!(
                sums(&|row| tensors.at_peak(row).bytes),
                self.at_peak[number]
            );
        }
        assert_eq!(tensors.blocks().count(), self.blocks.len());
        self.compare_lasting(ledger);
        let finished: BTreeMap<u32, Finished> = (1..4)
            .filter_map(|id| {
                let mut phases = ledger.phases().iter();
                let (_, phase) = phases.find(|(_, phase)| phase.name() == name(id))?;
                let highest = phase.highest_tensors.as_ref();
                let highest = highest.map_or(0, |(_, instance)| {
                    let heights = instance.heights.iter();
                    heights.map(|height| height.tensors_peak).max().unwrap_or(0)
                });
                (phase.count > 0).then_some((
                    id,
                    Finished {
                        count: phase.count,
                        highest,
                    },
                ))
            })
            .collect();
        assert_eq!(finished, self.finished);
    }
}

fn begin() -> Ledger {
    let mut ledger = Ledger::default();
    for id in 1..4 {
        ledger.apply(&Record::PhaseName(PhaseName {
            id,
            domain: String::new(),
            name: name(id).to_owned(),
        }));
    }
    ledger
}

proptest! {
    #[test]
    fn blocks_and_phases_are_those_of_a_model(ops in prop::collection::vec(op(), 1..80)) {
        let (mut ledger, mut model) = (begin(), Model::default());
        for op in &ops {
            model.step(&mut ledger, op);
            model.compare(&ledger);
        }
    }

    #[test]
    fn a_checkpoint_changes_nothing_of_them(
        ops in prop::collection::vec(op(), 2..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut ledger, mut model) = (begin(), Model::default());
        for (at, op) in ops.iter().enumerate() {
            if at == cut.index(ops.len()) {
                let (state, defined) = ledger.checkpoint().expect("the state can be written");
                let defined: Vec<_> = defined.collect();
                ledger = Ledger::restore(&state, &defined).expect("the state can be read");
            }
            model.step(&mut ledger, op);
        }
        model.compare(&ledger);
    }
}
