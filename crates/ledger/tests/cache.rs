//! What a framework's cache holds when it gives segments back to the driver and says nothing of it.

mod common;

use common::{MIB, Story};
use oomhook_ledger::Ledger;
use oomhook_ledger::tensors::Cache;
use oomhook_trace::told::{Tensor, TensorWhat};
use oomhook_trace::{Record, Space, What};

const SEGMENT: u32 = 1;
const BLOCK: u32 = 2;
const OTHER: u32 = 3;
const FREE: u32 = 4;
const AT: u64 = 0x7000_0000_0000;

impl Story {
    /// The cache says what it did, and what it has handed out and holds now.
    fn cache_says(&mut self, what: TensorWhat, [allocated, reserved]: [u64; 2]) {
        let record = Record::Tensor(Tensor {
            time_ns: self.ledger.last_ns() + 1,
            thread: self.thread,
            device: 0,
            stack: BLOCK,
            what,
            allocated: allocated * MIB,
            reserved: reserved * MIB,
        });
        self.ledger.apply(&record);
        self.records.push(record);
    }

    fn hands_out(&mut self, address: u64, mib: u64, sums: [u64; 2]) {
        let bytes = mib * MIB;
        self.cache_says(TensorWhat::Alloc { address, bytes }, sums);
    }

    fn takes_back(&mut self, address: u64, mib: u64, sums: [u64; 2]) {
        let bytes = mib * MIB;
        self.cache_says(TensorWhat::Free { address, bytes }, sums);
    }

    fn cache(&self) -> Cache {
        *self.ledger.tensors().cache(0).expect("a cache")
    }

    /// MiB that the cache holds, and most that it held.
    fn held(&self) -> (u64, u64) {
        let cache = self.cache();
        (cache.reserved / MIB, cache.reserved_peak.bytes / MIB)
    }
}

/// Two segments of 300 and 500 MiB, of which the second is idle.
fn two_segments() -> Story {
    let mut story = Story::new();
    story.malloc(SEGMENT, AT, 300 * MIB);
    story.hands_out(AT, 300, [300, 300]);
    story.malloc(SEGMENT, AT + 300 * MIB, 500 * MIB);
    story.hands_out(AT + 300 * MIB, 500, [800, 800]);
    story.takes_back(AT + 300 * MIB, 500, [300, 800]);
    story
}

#[test]
fn a_segment_that_is_given_back_is_held_no_more() {
    let mut story = two_segments();
    assert_eq!(story.held(), (800, 800));
    story.free(FREE, AT + 300 * MIB);
    assert_eq!(story.held(), (300, 800));
    assert_eq!(story.cache().idle(), 0);
    let map = story.ledger.cache_map(0).expect("a map");
    assert_eq!((map.segments, map.bytes), (1, 300 * MIB));
    // What the program itself has beside the cache is none of that.
    story.malloc(OTHER, AT + 900 * MIB, 7 * MIB);
    story.free(FREE, AT + 900 * MIB);
    assert_eq!(story.held(), (300, 800));
    // The cache's own word counts at any time.
    story.malloc(SEGMENT, AT + 300 * MIB, 20 * MIB);
    assert_eq!(story.held(), (300, 800));
    story.hands_out(AT + 300 * MIB, 4, [304, 320]);
    assert_eq!(story.held(), (320, 800));
}

#[test]
fn a_free_that_failed_gave_nothing_back() {
    let mut story = two_segments();
    story.failing_free(FREE, AT + 300 * MIB);
    assert_eq!(story.held(), (800, 800));
    story.free(FREE, AT + 300 * MIB);
    assert_eq!(story.held(), (300, 800));
}

#[test]
fn mapped_memory_is_held_until_it_is_neither_mapped_nor_referred_to() {
    let mut story = Story::new();
    let piece = |number: u64| AT + number * 20 * MIB;
    for number in 0..3 {
        story.alloc(SEGMENT, Space::Vmm, 0x70 + number, 20 * MIB);
        let map = What::Map {
            address: piece(number),
            bytes: 20 * MIB,
            handle: 0x70 + number,
            offset: 0,
        };
        story.happens(SEGMENT, map);
    }
    story.hands_out(AT, 60, [60, 60]);
    story.takes_back(AT, 60, [0, 60]);
    for number in 0..3 {
        let unmap = What::Unmap {
            address: piece(number),
            bytes: 20 * MIB,
        };
        story.happens(FREE, unmap);
        assert_eq!(story.held().0, 60 - number * 20);
        story.free_in(FREE, Space::Vmm, 0x70 + number);
        assert_eq!(story.held().0, 40 - number * 20);
    }
    assert_eq!(story.held(), (0, 60));
}

/// Without stacks the program's own blocks look like segments. Then the cache's word is all there is.
#[test]
fn what_is_no_segment_for_sure_changes_nothing() {
    let mut story = Story::new();
    story.malloc(0, AT + 900 * MIB, 7 * MIB);
    story.malloc(0, AT, 300 * MIB);
    story.hands_out(AT, 300, [300, 300]);
    story.free(0, AT + 900 * MIB);
    assert_eq!(story.held(), (300, 300));
    // Now both agree again.
    story.takes_back(AT, 300, [0, 300]);
    story.free(0, AT);
    assert_eq!(story.held(), (0, 300));
}

#[test]
fn a_checkpoint_keeps_what_is_held() {
    let mut story = two_segments();
    let (state, records) = story.ledger.checkpoint().expect("the state can be written");
    let records: Vec<_> = records.collect();
    story.ledger = Ledger::restore(&state, &records).expect("the state can be read");
    assert_eq!(story.held(), (800, 800));
    story.free(FREE, AT + 300 * MIB);
    assert_eq!(story.held(), (300, 800));
}
