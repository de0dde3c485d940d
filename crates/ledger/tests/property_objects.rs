//! Random lives of objects and of the memory for graphs, against a model that keeps everything and counts it anew; and the
//! same, interrupted by a checkpoint.

mod common;

use common::{MIB, Story};
use oomhook_ledger::Ledger;
use oomhook_trace::record::Object;
use oomhook_trace::{Space, What};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    /// Also of a handle that lives: its end was not seen.
    Create {
        object: Object,
        handle: u64,
        stack: u32,
        device: u8,
        bytes: u64,
    },
    /// Also of a handle that nobody made.
    Destroy { object: Object, handle: u64 },
    /// A node of a graph: no memory.
    Node { address: u64, bytes: u64 },
    /// What the driver says that it keeps for graphs.
    Reserve { device: u8, stack: u32, mib: u64 },
    /// A block beside them.
    Block { device: u8, mib: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    let object = (0..4usize).prop_map(|at| Object::ALL[at]);
    let device = 0..2u8;
    prop_oneof![
        4 => (object.clone(), 1..6u64, 1..4u32, device.clone(), 0..100u64).prop_map(
            |(object, handle, stack, device, bytes)| Op::Create { object, handle, stack, device, bytes }
        ),
        3 => (object, 1..6u64).prop_map(|(object, handle)| Op::Destroy { object, handle }),
        1 => (1..9u64, 1..9u64).prop_map(|(address, bytes)| Op::Node { address, bytes }),
        3 => (device.clone(), 1..4u32, 0..5u64)
            .prop_map(|(device, stack, mib)| Op::Reserve { device, stack, mib }),
        1 => (device, 1..4u64).prop_map(|(device, mib)| Op::Block { device, mib }),
    ]
}

struct Living {
    object: Object,
    handle: u64,
    stack: u32,
    device: u8,
    bytes: u64,
}

#[derive(Default)]
struct Model {
    living: Vec<Living>,
    /// Created and destroyed, by kind.
    ever: BTreeMap<u8, (u64, u64)>,
    nodes: (u64, u64),
    /// By device: reserved, the most, and by whom it was changed last.
    reserved: BTreeMap<u8, (u64, u64, u32)>,
    blocks: BTreeMap<u8, u64>,
    peaks: BTreeMap<u8, u64>,
    next: u64,
}

impl Model {
    fn device_bytes(&self, device: u8) -> u64 {
        let reserved = self.reserved.get(&device).map_or(0, |reserve| reserve.0);
        reserved + self.blocks.get(&device).copied().unwrap_or(0)
    }

    fn step(&mut self, story: &mut Story, op: &Op) {
        let (device, stack, what) = match *op {
            Op::Create {
                object,
                handle,
                stack,
                device,
                bytes,
            } => {
                self.living
                    .retain(|one| (one.object, one.handle) != (object, handle));
                self.living.push(Living {
                    object,
                    handle,
                    stack,
                    device,
                    bytes,
                });
                self.ever.entry(object as u8).or_default().0 += 1;
                let what = What::Created {
                    object,
                    handle,
                    bytes,
                };
                (device, stack, what)
            }
            Op::Destroy { object, handle } => {
                let before = self.living.len();
                self.living
                    .retain(|one| (one.object, one.handle) != (object, handle));
                let gone = (before - self.living.len()) as u64;
                self.ever.entry(object as u8).or_default().1 += gone;
                (0, 0, What::Destroyed { object, handle })
            }
            Op::Node { address, bytes } => {
                self.nodes.0 += 1;
                self.nodes.1 += bytes;
                let what = What::GraphAlloc {
                    address,
                    bytes,
                    captured: false,
                };
                (0, 1, what)
            }
            Op::Reserve { device, stack, mib } => {
                let reserved = mib * MIB;
                let known = self.reserved.entry(device).or_default();
                let by = if known.0 == reserved { known.2 } else { stack };
                *known = (reserved, known.1.max(reserved), by);
                let what = What::GraphMemory {
                    used: reserved,
                    used_high: known.1,
                    reserved,
                    reserved_high: known.1,
                };
                (device, stack, what)
            }
            Op::Block { device, mib } => {
                *self.blocks.entry(device).or_default() += mib * MIB;
                self.next += 1;
                let what = What::Alloc {
                    space: Space::Device,
                    address: self.next * 16 * MIB,
                    bytes: mib * MIB,
                    requested: mib * MIB,
                    context: 0xc0,
                    stream: 0,
                    pool: 0,
                };
                (device, 9, what)
            }
        };
        story.device = Some(device);
        story.happens(stack, what);
        for device in 0..2 {
            let bytes = self.device_bytes(device);
            let peak = self.peaks.entry(device).or_default();
            *peak = bytes.max(*peak);
        }
    }

    fn compare(&self, ledger: &Ledger) {
        for object in Object::ALL {
            let of_kind = || self.living.iter().filter(|one| one.object == object);
            let (created, destroyed) = self.ever.get(&(object as u8)).copied().unwrap_or_default();
            let count = ledger.objects().count(object);
            assert_eq!((count.created, count.destroyed), (created, destroyed));
            assert_eq!(count.live, of_kind().count() as u64, "{object:?}");
            assert_eq!(count.bytes, of_kind().map(|one| one.bytes).sum::<u64>());
        }
        for site in ledger.objects().sites() {
            let here = || {
                self.living.iter().filter(|one| {
                    (one.object, one.stack, Some(one.device))
                        == (site.object, site.stack, site.device)
                })
            };
            assert_eq!(site.count.live, here().count() as u64, "{site:?}");
            assert_eq!(site.count.bytes, here().map(|one| one.bytes).sum::<u64>());
        }
        let graphs = ledger.graphs();
        assert_eq!((graphs.alloc_nodes, graphs.requested_bytes), self.nodes);
        for device in 0..2 {
            let reserve = self.reserved.get(&device);
            let known = graphs
                .memory(device)
                .map(|memory| (memory.reserved, memory.reserved_high));
            assert_eq!(known, reserve.map(|(now, high, _)| (*now, *high)));
            let used = ledger.device(Some(device));
            let figures = used.map_or((0, 0), |used| (used.live.bytes, used.peak.bytes));
            let peak = self.peaks.get(&device).copied().unwrap_or(0);
            assert_eq!(figures, (self.device_bytes(device), peak));
            // The reserve lies with who changed it last.
            let at = ledger
                .rows()
                .filter(|(_, row)| row.key.space == Space::Graph && row.key.device == Some(device));
            let lies: Vec<(u32, u64)> = at
                .map(|(_, row)| (row.key.stack, row.live.bytes))
                .filter(|(_, bytes)| *bytes != 0)
                .collect();
            let expected: Vec<(u32, u64)> = reserve
                .filter(|(bytes, _, _)| *bytes != 0)
                .map(|(bytes, _, stack)| (*stack, *bytes))
                .into_iter()
                .collect();
            assert_eq!(lies, expected);
        }
    }
}

proptest! {
    #[test]
    fn objects_and_reserves_are_those_of_a_model(ops in prop::collection::vec(op(), 1..80)) {
        let (mut story, mut model) = (Story::new(), Model::default());
        for op in &ops {
            model.step(&mut story, op);
            model.compare(&story.ledger);
        }
    }

    #[test]
    fn a_checkpoint_changes_nothing_of_them(
        ops in prop::collection::vec(op(), 2..80),
        cut in any::<prop::sample::Index>(),
    ) {
        let (mut story, mut model) = (Story::new(), Model::default());
        for (at, op) in ops.iter().enumerate() {
            if at == cut.index(ops.len()) {
                let (state, defined) = story.ledger.checkpoint().expect("the state can be written");
                let defined: Vec<_> = defined.collect();
                story.ledger = Ledger::restore(&state, &defined).expect("the state can be read");
            }
            model.step(&mut story, op);
        }
        model.compare(&story.ledger);
    }
}
