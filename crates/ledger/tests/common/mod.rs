//! Writes histories in few words.
#![allow(dead_code)]

use oomhook_ledger::{Ledger, SpaceUse};
use oomhook_trace::record::{Deed, DeedKind};
use oomhook_trace::{Event, Record, Space, What};

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

/// A ledger that is told what happens, with a clock that ticks at every event.
#[derive(Default)]
pub struct Story {
    pub ledger: Ledger,
    pub records: Vec<Record>,
    pub thread: u32,
    pub device: Option<u8>,
    pub context: u64,
    time_ns: u64,
}

impl Story {
    pub fn new() -> Story {
        Story {
            device: Some(0),
            context: 0xc0,
            ..Story::default()
        }
    }

    pub fn happens(&mut self, stack: u32, what: What) {
        self.time_ns += 1000;
        let record = Record::Event(Event {
            time_ns: self.time_ns,
            thread: self.thread,
            device: self.device,
            call: 1,
            stack,
            what,
        });
        self.ledger.apply(&record);
        self.records.push(record);
    }

    pub fn does(&mut self, kind: DeedKind, subject: u64, value: u64, other: u64) {
        let record = Record::Deed(Deed {
            time_ns: self.ledger.last_ns() + 1,
            thread: self.thread,
            device: self.device,
            call: 1,
            stack: 4,
            kind: Some(kind),
            subject,
            value,
            other,
        });
        self.ledger.apply(&record);
        self.records.push(record);
    }

    pub fn alloc(&mut self, stack: u32, space: Space, address: u64, bytes: u64) {
        let context = if matches!(space, Space::Async | Space::Vmm) {
            0
        } else {
            self.context
        };
        self.happens(
            stack,
            What::Alloc {
                space,
                address,
                bytes,
                requested: bytes,
                context,
                stream: 0,
                pool: 0,
            },
        );
    }

    pub fn malloc(&mut self, stack: u32, address: u64, bytes: u64) {
        self.alloc(stack, Space::Device, address, bytes);
    }

    pub fn free_in(&mut self, stack: u32, space: Space, address: u64) {
        self.happens(
            stack,
            What::Free {
                space,
                address,
                stream: 0,
            },
        );
    }

    pub fn free(&mut self, stack: u32, address: u64) {
        self.free_in(stack, Space::Device, address);
    }

    pub fn undo(&mut self, address: u64, code: u32) {
        self.happens(0, What::Undo { address, code });
    }

    pub fn failing_free(&mut self, stack: u32, address: u64) {
        self.free(stack, address);
        self.undo(address, 1);
    }

    pub fn fails(&mut self, stack: u32, space: Option<Space>, requested: Option<u64>, code: u32) {
        self.fails_with(stack, space, requested, code, None);
    }

    pub fn cannot_register(&mut self, stack: u32, address: u64, bytes: u64, code: u32) {
        self.happens(
            stack,
            What::AllocFailed {
                space: Some(Space::Registered),
                requested: Some(bytes),
                code,
                free: None,
                total: None,
                address: Some(address),
            },
        );
    }

    pub fn fails_with(
        &mut self,
        stack: u32,
        space: Option<Space>,
        requested: Option<u64>,
        code: u32,
        free: Option<u64>,
    ) {
        self.happens(
            stack,
            What::AllocFailed {
                space,
                requested,
                code,
                free,
                total: free.map(|_| 16 * GIB),
                address: None,
            },
        );
    }

    pub fn space(&self, space: Space) -> SpaceUse {
        *self.ledger.devices().everywhere().get(space)
    }

    pub fn peak(&self) -> (u64, u64) {
        let device = self
            .ledger
            .device(self.device)
            .expect("the device was used");
        (device.peak.bytes, device.peak.event)
    }

    pub fn live_bytes(&self) -> u64 {
        self.ledger
            .device(self.device)
            .map_or(0, |device| device.live.bytes)
    }

    /// (stack, bytes, blocks) of the rows that lived at the peak, by stack.
    pub fn composition(&self) -> Vec<(u32, u64, u64)> {
        let mut rows: Vec<_> = self
            .ledger
            .rows()
            .filter(|(_, row)| row.key.space.is_device() && row.key.device == self.device)
            .map(|(_, row)| {
                let amount = self.ledger.at_peak(row);
                (row.key.stack, amount.bytes, amount.blocks)
            })
            .filter(|(_, bytes, _)| *bytes > 0)
            .collect();
        rows.sort_unstable();
        rows
    }
}
