//! Traces made here, record by record.

use oomhook_trace::Encoder;
use oomhook_trace::header::{Header, Process};
use oomhook_trace::record::{Device, EndKind, Event, Library, Record, Space, What};
use std::path::PathBuf;
use tempfile::TempDir;

/// One MiB.
pub const MIB: u64 = 1 << 20;

/// A trace in the making.
pub struct Story {
    pub header: Header,
    pub records: Vec<Record>,
    pub time_ns: u64,
}

impl Story {
    pub fn new(pid: u32) -> Story {
        let header = Header {
            process: Process {
                host: "node7".into(),
                pid,
                ppid: 1,
                command: vec!["/app/trainer".into()],
                start_unix_ns: 1_764_436_380_000_000_000 + u64::from(pid),
                ..Process::default()
            },
            ..Header::default()
        };
        let mut story = Story {
            header,
            records: Vec::new(),
            time_ns: 0,
        };
        for (id, path) in [
            (1, "/app/trainer"),
            (2, "/lib/libcudart.so.13"),
            (3, "/lib/libweights.so"),
        ] {
            story.records.push(Record::Library(Library {
                id,
                path: path.into(),
                build_id: vec![1, 2, 3],
                start: 0,
                end: 0,
                bias: 0,
                time_ns: 0,
            }));
        }
        story.records.push(Record::Call {
            id: 1,
            name: "cudaMalloc".into(),
        });
        // Frame 1 is the runtime's, the others are sites.
        for (id, library) in [(1, 2), (2, 1), (3, 3)] {
            story.records.push(Record::Frame {
                id,
                library,
                offset: u64::from(id) * 0x100,
            });
        }
        for (id, site) in [(1, 2), (2, 3)] {
            story.records.push(Record::Stack {
                id,
                frames: vec![1, site],
            });
        }
        story.records.push(Record::Device(Device {
            ordinal: 0,
            uuid: (0..16).collect(),
            name: "NVIDIA H200".into(),
            pci_bus_id: "0000:01:00.0".into(),
            total_bytes: 16 << 30,
        }));
        story
    }

    pub fn happens(mut self, stack: u32, what: What) -> Story {
        self.time_ns += 1_000_000;
        self.records.push(Record::Event(Event {
            time_ns: self.time_ns,
            thread: 0,
            device: Some(0),
            call: 1,
            stack,
            what,
        }));
        self
    }

    pub fn alloc(self, stack: u32, address: u64, bytes: u64) -> Story {
        self.happens(
            stack,
            What::Alloc {
                space: Space::Device,
                address,
                bytes,
                requested: bytes,
                context: 0xc0,
                stream: 0,
                pool: 0,
            },
        )
    }

    pub fn free(self, address: u64) -> Story {
        self.happens(
            1,
            What::Free {
                space: Space::Device,
                address,
                stream: 0,
            },
        )
    }

    pub fn exits(self) -> Story {
        self.happens(
            0,
            What::End {
                kind: EndKind::Exit,
                code: Some(0),
                signal: None,
            },
        )
    }

    /// Writes the trace, `every` records to a chunk.
    pub fn bytes(&self, every: usize) -> Vec<u8> {
        let mut bytes = self.header.encode().expect("a header");
        let mut encoder = Encoder::default();
        for records in self.records.chunks(every) {
            for record in records {
                encoder.put(record);
            }
            encoder.finish_chunk(&mut bytes);
        }
        bytes
    }

    pub fn write(&self, folder: &TempDir) -> PathBuf {
        let path = folder
            .path()
            .join(format!("oomhook.node7.{}.trace", self.header.process.pid));
        std::fs::write(&path, self.bytes(100)).expect("a file");
        path
    }
}

/// Leaks 2 MiB, peaks at 300 MiB at the second allocation.
pub fn leaky(pid: u32) -> Story {
    Story::new(pid)
        .alloc(1, 0x1000, 100 * MIB)
        .alloc(2, 0x2000, 200 * MIB)
        .free(0x1000)
        .free(0x2000)
        .alloc(2, 0x3000, MIB)
        .alloc(2, 0x4000, MIB)
        .exits()
}

/// Frees everything.
pub fn healthy(pid: u32) -> Story {
    Story::new(pid)
        .alloc(1, 0x1000, 300 * MIB)
        .free(0x1000)
        .exits()
}
