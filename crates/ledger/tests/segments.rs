//! A trace with segments missing, damaged or cut: from the next checkpoint on the answers are exact again.

mod common;

use common::{MIB, Story};
use oomhook_ledger::definitions::Frame;
use oomhook_ledger::{Ledger, Replay, replay};
use oomhook_trace::record::Code;
use oomhook_trace::{Encoder, Header, Reader, Record, Space};
use std::borrow::Cow;
use std::io::Cursor;

/// Events of one segment.
const EVENTS: usize = 200;
/// Chunks of one segment, its checkpoint not counted.
const CHUNKS: usize = 4;

/// A file of several segments, where each chunk of it begins, and the whole truth.
struct File {
    bytes: Vec<u8>,
    /// Offsets of the chunks, segment by segment; the first segment has no checkpoint.
    chunks: Vec<Vec<usize>>,
    truth: Ledger,
}

fn history(segments: usize) -> Vec<Record> {
    let mut story = Story::new();
    for step in 0..(segments * EVENTS) as u64 {
        let slot = step % 60;
        let address = 0x7f00_0000_0000 + slot * MIB;
        match (step / 60) % 2 {
            0 => story.alloc(
                1 + (step % 7) as u32,
                Space::Device,
                address,
                (1 + step % 5) * MIB,
            ),
            _ => story.free_in(9, Space::Device, address),
        }
    }
    story.records
}

/// Everything that Python defines, with the events in between.
fn with_python(mut records: Vec<Record>) -> Vec<Record> {
    let code = |id| {
        Record::Code(Code {
            id,
            file: format!("/w/{id}.py"),
            name: format!("f{id}"),
            first_line: id,
        })
    };
    for id in 1..=7 {
        let at = records.len() * id as usize / 8;
        let frames = vec![id * 10, id * 10 + 1];
        let new = [
            code(id),
            Record::PythonFrame {
                id: id * 10,
                code: id,
                line: id + 100,
            },
            Record::LeftOut {
                id: id * 10 + 1,
                frames: u64::from(id),
            },
            Record::Stack { id, frames },
        ];
        records.splice(at..at, new);
    }
    records
}

#[test]
fn python_frames_outlive_the_segment_that_defines_them() {
    let whole = file_of(with_python(history(4)), 4);
    let mut bytes = whole.bytes;
    // Only the last segment is left.
    let last = whole.chunks[3][0];
    let first = whole.chunks[0][0];
    bytes.drain(first..last);
    let definitions = &read(bytes).ledger;
    let definitions = definitions.definitions();
    for id in 1..=7 {
        let stack = definitions.stack(id);
        assert_eq!(stack, [id * 10, id * 10 + 1]);
        let frame = Frame::Python {
            code: id,
            line: id + 100,
        };
        assert_eq!(definitions.frame(stack[0]), Some(frame));
        assert_eq!(
            definitions.frame(stack[1]),
            Some(Frame::LeftOut(u64::from(id)))
        );
        let code = definitions.code(id).expect("it is defined");
        assert_eq!(
            (&*code.file, &*code.name),
            (&*format!("/w/{id}.py"), &*format!("f{id}"))
        );
    }
}

fn file(segments: usize) -> File {
    file_of(history(segments), segments)
}

fn file_of(records: Vec<Record>, segments: usize) -> File {
    let mut bytes = Header::default().encode().expect("a header");
    let mut encoder = Encoder::default();
    let mut truth = Ledger::default();
    let mut chunks = Vec::new();
    let per_segment = records.len().div_ceil(segments);
    for (number, segment) in records.chunks(per_segment).enumerate() {
        let mut starts = Vec::new();
        if number > 0 {
            starts.push(bytes.len());
            let (state, records) = truth.checkpoint().expect("a state");
            encoder.begin_segment(&state, records.map(Cow::Owned), &mut bytes);
        }
        for chunk in segment.chunks(segment.len().div_ceil(CHUNKS)) {
            starts.push(bytes.len());
            for record in chunk {
                encoder.put(record);
                truth.apply(record);
            }
            encoder.finish_chunk(&mut bytes);
        }
        chunks.push(starts);
    }
    File {
        bytes,
        chunks,
        truth,
    }
}

fn read(bytes: Vec<u8>) -> Replay {
    replay(Reader::new(Cursor::new(bytes)).expect("a trace"))
}

/// All that a reader is told, without the order of rows.
fn answers(ledger: &Ledger) -> String {
    let mut rows: Vec<String> = ledger
        .rows()
        .map(|(_, row)| format!("{:?} {:?} {:?}", row.key, row.live, ledger.at_peak(row)))
        .collect();
    rows.sort();
    format!(
        "{:?} {:?} {rows:?}",
        ledger.totals(),
        ledger.device(Some(0))
    )
}

#[test]
fn a_whole_file_tells_the_truth() {
    let file = file(5);
    let replay = read(file.bytes);
    assert_eq!(replay.damage, Vec::<String>::new());
    assert_eq!(answers(&replay.ledger), answers(&file.truth));
}

#[test]
fn segments_missing_from_the_middle_are_said_and_cost_nothing_in_the_end() {
    let mut file = file(6);
    let (from, to) = (file.chunks[2][0], file.chunks[4][0]);
    file.bytes.drain(from..to);
    let replay = read(file.bytes);
    assert_eq!(replay.damage.len(), 1, "{:?}", replay.damage);
    assert!(
        replay.damage[0].contains("10 chunks are missing"),
        "{:?}",
        replay.damage
    );
    assert_eq!(answers(&replay.ledger), answers(&file.truth));
}

#[test]
fn segments_missing_from_the_beginning_cost_nothing() {
    let mut file = file(4);
    let (from, to) = (file.chunks[0][0], file.chunks[2][0]);
    file.bytes.drain(from..to);
    let replay = read(file.bytes);
    assert_eq!(
        (replay.damage, replay.first_segment),
        (Vec::<String>::new(), 2)
    );
    assert_eq!(answers(&replay.ledger), answers(&file.truth));
}

#[test]
fn a_damaged_checkpoint_alone_costs_nothing() {
    let mut file = file(4);
    let at = file.chunks[2][0] + 60;
    file.bytes[at] ^= 0xff;
    let replay = read(file.bytes);
    assert!(!replay.damage.is_empty());
    assert_eq!(answers(&replay.ledger), answers(&file.truth));
}

#[test]
fn after_a_damaged_chunk_and_checkpoint_the_next_checkpoint_helps() {
    let mut file = file(5);
    for at in [file.chunks[1][2] + 40, file.chunks[2][0] + 60] {
        file.bytes[at] ^= 0xff;
    }
    let replay = read(file.bytes);
    assert!(replay.damage.len() >= 2, "{:?}", replay.damage);
    assert_eq!(answers(&replay.ledger), answers(&file.truth));
}

#[test]
fn a_cut_inside_a_segment_keeps_what_came_before() {
    let file = file(3);
    let cut = file.chunks[2][2] + 20;
    let replay = read(file.bytes[..cut].to_vec());
    assert_eq!(replay.damage.len(), 1, "{:?}", replay.damage);
    // Two segments and one chunk of the third.
    let records = history(3);
    let per_segment = records.len().div_ceil(3);
    let third = &records[2 * per_segment..];
    let whole = 2 * per_segment + third.len().div_ceil(CHUNKS);
    let mut truth = Ledger::default();
    records[..whole]
        .iter()
        .for_each(|record| truth.apply(record));
    assert_eq!(answers(&replay.ledger), answers(&truth));
}
