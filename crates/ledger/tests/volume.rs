//! What a million living blocks cost. Alone in its file, so that no other test shares the process's memory.

mod common;

use common::MIB;
use oomhook_ledger::Ledger;
use oomhook_trace::{Event, Record, Space, What};

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.and_then(|kib| kib.parse::<u64>().ok()).expect("a size") * 1024
}

fn event(time_ns: u64, what: What) -> Record {
    Record::Event(Event {
        time_ns,
        thread: 0,
        device: Some(0),
        call: 1,
        stack: 1 + (time_ns % 100) as u32,
        what,
    })
}

#[test]
fn a_million_living_blocks_fit_into_a_hundred_mebibytes() {
    const BLOCKS: u64 = 1_000_000;
    let mut ledger = Ledger::default();
    let before = resident_bytes();
    let address = |i: u64| 0x7f00_0000_0000 + i * 512;
    let alloc = |i: u64| What::Alloc {
        space: Space::Device,
        address: address(i),
        bytes: 256,
        requested: 256,
        context: 0xc0,
        stream: 0,
        pool: 0,
    };
    for i in 0..BLOCKS {
        ledger.apply(&event(i, alloc(i)));
    }
    let cost = resident_bytes().saturating_sub(before);
    assert!(cost < 90 * MIB, "{} MiB", cost / MIB);
    let device = ledger.device(Some(0)).expect("it was used");
    assert_eq!(device.live.bytes, 256_000_000);
    for i in 0..BLOCKS {
        let free = What::Free {
            space: Space::Device,
            address: address(i),
            stream: 0,
        };
        ledger.apply(&event(BLOCKS + i, free));
    }
    let device = ledger.device(Some(0)).expect("it was used");
    assert_eq!(device.live.bytes, 0);
    assert_eq!(device.peak.bytes, 256_000_000);
    assert_eq!(ledger.totals().frees, BLOCKS);
    let cost = resident_bytes().saturating_sub(before);
    assert!(cost < 100 * MIB, "{} MiB", cost / MIB);
    let (state, _) = ledger.checkpoint().expect("the state can be written");
    assert!((state.len() as u64) < 6 * MIB, "{}", state.len());
}
