//! A trace with segments missing, damaged or cut: from the next checkpoint on the answers are exact again.

mod common;

use common::{MIB, Story};
use oomhook_ledger::{Ledger, Replay, replay};
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

fn file(segments: usize) -> File {
    let records = history(segments);
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
