//! What is written is read back; what is damaged is stepped over and said.

use oomhook_trace::record::{
    Code, Cost, CostKind, Deed, DeedKind, Device, EndKind, HostMemory, Library, LiveBlock, Object,
    Other, Sample,
};
use oomhook_trace::told::{LogLine, Phase, PhaseName, PhaseWhat, Tensor, TensorWhat};
use oomhook_trace::{Encoder, Event, Header, Item, OpenError, Reader, Record, Space, What};
use std::borrow::Cow;
use std::io::Cursor;

fn event(time_ns: u64, what: What) -> Record {
    Record::Event(Event {
        time_ns,
        thread: 1,
        device: Some(0),
        call: 3,
        stack: 7,
        what,
    })
}

fn alloc(time_ns: u64, address: u64, bytes: u64) -> Record {
    event(
        time_ns,
        What::Alloc {
            space: Space::Device,
            address,
            bytes,
            requested: bytes - 1,
            context: 9,
            stream: 0,
            pool: 0,
        },
    )
}

fn tensor(time_ns: u64, what: TensorWhat, allocated: u64, reserved: u64) -> Record {
    Record::Tensor(Tensor {
        time_ns,
        thread: 2,
        device: 1,
        stack: 4,
        what,
        allocated,
        reserved,
    })
}

fn phase(what: PhaseWhat) -> Record {
    Record::Phase(Phase {
        time_ns: 3,
        thread: 1,
        what,
    })
}

/// One record of every kind, with values at the edges of their types.
fn every_kind() -> Vec<Record> {
    let max = u64::MAX;
    vec![
        Record::Call {
            id: u16::MAX,
            name: "cudaMalloc".into(),
        },
        Record::Library(Library {
            id: 1,
            path: "/usr/lib/libé.so".into(),
            build_id: vec![0, 255],
            start: 0x7f00_0000_0000,
            end: 0x7f00_0010_0000,
            bias: 0x7f00_0000_0000,
            time_ns: 5,
        }),
        Record::Library(Library {
            id: 2,
            path: String::new(),
            build_id: vec![],
            start: 0x40_0000,
            end: 0x50_0000,
            bias: 0,
            time_ns: 4,
        }),
        Record::LibraryGone {
            id: 1,
            time_ns: max,
        },
        Record::Frame {
            id: 1,
            library: 1,
            offset: 0x1234,
        },
        Record::Frame {
            id: u32::MAX,
            library: 0,
            offset: max,
        },
        Record::Code(Code {
            id: u32::MAX,
            file: "/home/\u{e9}/train.py".into(),
            name: "Trainer.step.<locals>.<lambda>".into(),
            first_line: u32::MAX,
        }),
        Record::Code(Code::default()),
        Record::PythonFrame {
            id: 3,
            code: u32::MAX,
            line: 88,
        },
        Record::LeftOut { id: 4, frames: max },
        Record::Cost(Cost {
            time_ns: max,
            thread: u32::MAX,
            device: u8::MAX,
            call: u16::MAX,
            stack: u32::MAX,
            kind: CostKind::Launch,
            bytes: i64::MIN,
            estimated: true,
        }),
        tensor(
            7,
            TensorWhat::Alloc {
                address: 0x7f00,
                bytes: 512,
            },
            512,
            2 << 20,
        ),
        tensor(
            9,
            TensorWhat::Alloc {
                address: max,
                bytes: max,
            },
            511,
            2 << 20,
        ),
        tensor(
            8,
            TensorWhat::Free {
                address: 0x7f00,
                bytes: 512,
            },
            max,
            0,
        ),
        tensor(max, TensorWhat::Failed { requested: 1 << 40 }, 3, max),
        tensor(
            5,
            TensorWhat::Live {
                address: 0x7f00,
                bytes: 512,
                number: max,
            },
            0,
            0,
        ),
        Record::PhaseName(PhaseName {
            id: u32::MAX,
            domain: "NCCL".into(),
            name: "step 17 \u{e9}".into(),
        }),
        phase(PhaseWhat::Push {
            name: 1,
            domain: u32::MAX,
        }),
        phase(PhaseWhat::Pop { domain: 0 }),
        phase(PhaseWhat::Start {
            name: u32::MAX,
            range: max,
        }),
        phase(PhaseWhat::End { range: max }),
        phase(PhaseWhat::Mark { name: 0 }),
        Record::LogLine(LogLine {
            time_ns: max,
            thread: 3,
            stream: 2,
            late: true,
            text: "step=1282 loss=1.5".into(),
        }),
        Record::Deed(Deed {
            time_ns: max,
            thread: u32::MAX,
            device: Some(u8::MAX),
            call: u16::MAX,
            stack: u32::MAX,
            kind: Some(DeedKind::Open),
            subject: max,
            value: max,
            other: max,
        }),
        Record::Deed(Deed {
            time_ns: 0,
            thread: 0,
            device: None,
            call: 0,
            stack: 0,
            kind: None,
            subject: 0,
            value: 0,
            other: 0,
        }),
        Record::Sample(Sample::default()),
        Record::Sample(Sample {
            time_ns: max,
            device: 255,
            used: max,
            total: max,
            process: Some(0),
            others: vec![
                Other {
                    pid: u32::MAX,
                    name: "train.py \u{e9}".into(),
                    bytes: Some(max - 1),
                },
                Other {
                    pid: 0,
                    name: String::new(),
                    bytes: None,
                },
            ],
            others_known: true,
            is_quiet: true,
        }),
        Record::HostMemory(HostMemory::default()),
        Record::HostMemory(HostMemory {
            time_ns: max,
            thread: u32::MAX,
            total: Some(0),
            available: Some(1),
            address_space: Some(max - 1),
            address_space_limit: None,
            locked: Some(2),
            locked_limit: Some(3),
            group: Some(4),
            group_limit: Some(5),
        }),
        Record::Stack {
            id: 1,
            frames: vec![1, 2, 3, 4],
        },
        Record::Stack {
            id: 2,
            frames: vec![9, 2, 3, 4],
        },
        Record::Stack {
            id: 3,
            frames: vec![],
        },
        Record::Stack {
            id: 4,
            frames: vec![4],
        },
        Record::Thread {
            id: u32::MAX,
            tid: 1,
            name: "pt_autograd_0".into(),
        },
        Record::Device(Device {
            ordinal: 1,
            uuid: vec![7; 16],
            name: "GPU".into(),
            pci_bus_id: "0000:01:00.0".into(),
            total_bytes: max,
        }),
        Record::Note {
            time_ns: 0,
            text: "a note".into(),
        },
        alloc(10, 0x3000_0000_0000, 512),
        alloc(9, 512, 1),
        event(
            max,
            What::AllocFailed {
                space: None,
                requested: None,
                code: 2,
                free: None,
                total: None,
                address: None,
            },
        ),
        event(
            0,
            What::AllocFailed {
                space: Some(Space::Pinned),
                requested: Some(max),
                code: u32::MAX,
                free: Some(0),
                total: Some(max),
                address: Some(max),
            },
        ),
        event(
            1,
            What::Free {
                space: Space::Async,
                address: max,
                stream: max,
            },
        ),
        event(
            1,
            What::Undo {
                address: 0,
                code: 1,
            },
        ),
        event(1, What::NullFree),
        event(1, What::ZeroSize),
        event(1, What::Retain { handle: 3 }),
        event(
            1,
            What::Map {
                address: 1,
                bytes: 2,
                handle: max,
                offset: 4,
            },
        ),
        event(
            1,
            What::Unmap {
                address: 1,
                bytes: 2,
            },
        ),
        event(
            1,
            What::ContextCreate {
                context: max,
                explicit: true,
            },
        ),
        event(1, What::ContextDestroy { context: max }),
        event(1, What::Reset),
        event(
            1,
            What::PoolState {
                pool: 1,
                used: 2,
                used_high: 3,
                reserved: 4,
                reserved_high: 5,
                threshold: max,
            },
        ),
        event(
            1,
            What::Created {
                object: Object::Module,
                handle: max,
                bytes: max,
            },
        ),
        event(
            1,
            What::Destroyed {
                object: Object::Multicast,
                handle: 1,
            },
        ),
        event(
            1,
            What::GraphAlloc {
                address: 512,
                bytes: max,
                captured: true,
            },
        ),
        event(
            1,
            What::GraphFree {
                address: 512,
                captured: false,
            },
        ),
        event(
            1,
            What::GraphMemory {
                used: 1,
                used_high: 2,
                reserved: 3,
                reserved_high: max,
            },
        ),
        event(1, What::CaptureEnd { ok: false }),
        event(
            1,
            What::Limit {
                limit: u32::MAX,
                value: max,
            },
        ),
        event(
            1,
            What::ThreadExit {
                name: "worker".into(),
            },
        ),
        event(
            1,
            What::Live(LiveBlock {
                space: Space::Vmm,
                address: 3,
                bytes: 4,
                requested: max,
                context: 1,
                stream: 2,
                number: max,
                references: u32::MAX,
            }),
        ),
        event(
            2,
            What::End {
                kind: EndKind::Exit,
                code: Some(255),
                signal: None,
            },
        ),
    ]
}

fn file(chunks: &[u8]) -> Vec<u8> {
    let mut bytes = Header::default().encode().expect("a header");
    bytes.extend_from_slice(chunks);
    bytes
}

/// A file of `count` chunks of ten allocations each, and the offsets at which the chunks begin.
fn chunked(count: u64) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = file(&[]);
    let mut encoder = Encoder::default();
    let mut offsets = Vec::new();
    for chunk in 0..count {
        offsets.push(bytes.len());
        for index in 0..10 {
            encoder.put(&alloc(
                chunk * 10 + index,
                (chunk * 10 + index) * 512 + 1,
                512,
            ));
        }
        encoder.finish_chunk(&mut bytes);
    }
    (bytes, offsets)
}

fn read(bytes: Vec<u8>) -> (Vec<Item>, oomhook_trace::read::Ending) {
    let mut reader = Reader::new(Cursor::new(bytes)).expect("a trace");
    let items: Vec<Item> = reader.by_ref().collect();
    (items, reader.ending())
}

fn times(items: &[Item]) -> Vec<u64> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Record(Record::Event(event)) => Some(event.time_ns),
            _ => None,
        })
        .collect()
}

fn damages(items: &[Item]) -> Vec<&str> {
    items
        .iter()
        .filter_map(|item| match item {
            Item::Damage { what } => Some(what.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn every_record_comes_back_as_it_was() {
    let records = every_kind();
    let mut encoder = Encoder::default();
    records.iter().for_each(|record| encoder.put(record));
    let mut chunks = Vec::new();
    encoder.finish_chunk(&mut chunks);
    let (items, ending) = read(file(&chunks));
    let wanted: Vec<Item> = records.into_iter().map(Item::Record).collect();
    assert_eq!(items, wanted);
    assert_eq!(ending, oomhook_trace::read::Ending::Complete);
}

#[test]
fn a_checkpoint_comes_back_with_its_state_and_records() {
    let records = every_kind();
    let mut encoder = Encoder::default();
    let mut chunks = Vec::new();
    encoder.put(&alloc(1, 512, 512));
    encoder.begin_segment(b"{\"a\":1}", records.iter().map(Cow::Borrowed), &mut chunks);
    encoder.put(&alloc(2, 1024, 512));
    encoder.finish_chunk(&mut chunks);
    let (items, ending) = read(file(&chunks));
    assert_eq!(
        items,
        vec![
            Item::Record(alloc(1, 512, 512)),
            Item::Checkpoint {
                segment: 1,
                state: b"{\"a\":1}".to_vec(),
                records
            },
            Item::Record(alloc(2, 1024, 512)),
        ]
    );
    assert_eq!(ending, oomhook_trace::read::Ending::EndsEarly);
}

#[test]
fn every_cut_keeps_the_chunks_before_it() {
    let (bytes, offsets) = chunked(4);
    for cut in offsets[0]..bytes.len() {
        let (items, ending) = read(bytes[..cut].to_vec());
        let whole = offsets.iter().filter(|offset| **offset <= cut).count() - 1;
        assert_eq!(
            times(&items),
            (0..whole as u64 * 10).collect::<Vec<_>>(),
            "cut at {cut}"
        );
        let on_a_border = offsets.contains(&cut);
        assert_eq!(
            damages(&items).len(),
            usize::from(!on_a_border),
            "cut at {cut}"
        );
        assert_eq!(ending, oomhook_trace::read::Ending::EndsEarly);
    }
}

#[test]
fn every_flipped_byte_loses_one_chunk_and_says_so() {
    let (bytes, offsets) = chunked(3);
    for at in offsets[1]..offsets[2] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x41;
        let (items, _) = read(bytes);
        let wanted: Vec<u64> = (0..10).chain(20..30).collect();
        assert_eq!(times(&items), wanted, "byte {at}");
        assert!(!damages(&items).is_empty(), "byte {at}");
    }
}

#[test]
fn chunks_missing_from_the_middle_are_counted() {
    let (mut bytes, offsets) = chunked(4);
    bytes.drain(offsets[1]..offsets[3]);
    let (items, _) = read(bytes);
    assert_eq!(damages(&items), ["2 chunks are missing before chunk 3"]);
    assert_eq!(times(&items).len(), 20);
}

#[test]
fn files_that_are_no_trace_are_told_apart() {
    let open = |bytes: &[u8]| {
        Reader::new(Cursor::new(bytes.to_vec()))
            .err()
            .expect("no trace")
            .to_string()
    };
    assert!(matches!(
        Reader::new(Cursor::new(vec![])),
        Err(OpenError::Empty)
    ));
    assert_eq!(open(b"PK\x03\x04 and more text"), "is not an oomhook trace");
    assert_eq!(
        open(b"\x89oom"),
        "has a damaged header (the file ends inside it)"
    );
    let whole = file(&[]);
    for cut in 8..whole.len() {
        assert_eq!(
            open(&whole[..cut]),
            "has a damaged header (the file ends inside it)",
            "cut at {cut}"
        );
    }
    let mut later = whole.clone();
    later[8] = 2;
    assert_eq!(
        open(&later),
        "has trace version 2; this oomhook reads up to 1: update it"
    );
    let mut damaged = whole;
    damaged[20] ^= 1;
    assert_eq!(
        open(&damaged),
        "has a damaged header (its checksum is wrong)"
    );
}
