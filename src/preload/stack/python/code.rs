//! Code objects by number. What the trace must know of one is read at the first sight of it, inside the hook, while a frame
//! keeps it alive; its definition goes to the writer before any event can use its number.

use super::super::super::channel;
use super::super::super::raw::Raw;
use super::super::super::state::Recorder;
use super::cache::{Cache, Key};
use super::layout::{Layout, Lines};
use super::lines;
use super::memory::{Known, Memory};
use super::text::{self, Keep};
use super::walk::Seen;
use super::words;
use oomhook_trace::Record;
use oomhook_trace::record::Code;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Different code objects that get a number. A program that makes code all the time makes mostly the same again; one that
/// does not must not make the trace's definitions grow without end.
const MOST: u32 = 1 << 15;
const _: () = assert!(MOST == 32_768, "a note says the number");
/// Slots of the table of numbers (1 MiB).
const SLOTS: usize = 1 << 16;
/// Beyond this many probes a code object counts as new.
const PROBES: usize = 64;
/// Bytes of a function's name, and of a file's.
const LONGEST_NAME: usize = 512;
const LONGEST_FILE: usize = 2048;
/// A longer table of lines is none.
const LONGEST_TABLE: u64 = 16 << 20;

static LINES: Cache = Cache::new();

/// Numbers by what is defined: half of a hash, then the other half's highest bits and the number (0: not yet).
static NUMBERS: [[AtomicU64; 2]; SLOTS] = [const { [const { AtomicU64::new(0) }; 2] }; SLOTS];
static NEXT: AtomicU32 = AtomicU32::new(1);
static IS_FULL: AtomicBool = AtomicBool::new(false);

/// The types that tell whether an object is what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    pub code: u64,
    pub text: u64,
    pub bytes: u64,
}

/// The word of a frame.
#[inline]
pub fn word(recorder: &Recorder, layout: &Layout, types: &Types, seen: &Seen) -> u64 {
    match key(layout, seen, Known).and_then(|key| LINES.get(&key)) {
        Some(word) => word,
        // It makes its key anew: the one here need not be in memory.
        None => resolve(recorder, layout, types, seen),
    }
}

/// What no other code object of its interpreter has, with the line at which it begins.
#[inline(always)]
pub fn version(layout: &Layout, seen: &Seen, memory: impl Memory) -> Option<u64> {
    let version: u32 = memory.read(seen.code + layout.code_version?)?;
    let first = memory.int(seen.code + layout.code_first_line)? as u32;
    (version != 0).then_some(u64::from(first) << 32 | u64::from(version))
}

/// Reads what tells a frame's code object apart from all others.
pub fn tell_apart(layout: &Layout, seen: &Seen, memory: impl Memory) {
    if version(layout, seen, memory).is_none() {
        key(layout, seen, memory);
    }
}

#[inline(always)]
fn key(layout: &Layout, seen: &Seen, memory: impl Memory) -> Option<Key> {
    let code = seen.code;
    let mut key = Key {
        code,
        ip: seen.ip,
        file: memory.word(code + layout.code_filename)?,
        name: memory.word(code + layout.code_name)?,
        lines: memory.word(code + layout.code_lines)?,
        digest: 0,
    };
    key.digest = match version(layout, seen, memory) {
        // No two code objects of an interpreter have the same, unless there have been 2^32. (From 3.13 on a process that ends its
        // interpreter and begins another counts from 1 again: were each object to lie where another lay, names would be the old ones.
        // With Python's own allocators that was not to be had in 400 beginnings.)
        Some(version) => version,
        None => {
            let first = memory.int(code + layout.code_first_line)? as u32;
            digest(layout, &key, first, memory)?
        }
    };
    Some(key)
}

/// Of older versions: what the three objects hold, since a new one may lie exactly where an old one lay. A sum of products:
/// none waits for another.
fn digest(layout: &Layout, key: &Key, first: u32, memory: impl Memory) -> Option<u64> {
    let mut digest = u64::from(first);
    let mut mix = |value: u64, multiplier: u64| {
        digest = digest.wrapping_add((value ^ value >> 31).wrapping_mul(multiplier));
    };
    for (text, [by_length, by_hash]) in [(key.name, MULTIPLIERS[0]), (key.file, MULTIPLIERS[1])] {
        // Length and hash lie side by side.
        let [length, hash] = memory.words(text + layout.text_length)?;
        mix(length, by_length);
        mix(hash, by_hash);
        if hash == u64::MAX {
            // Python has not hashed it yet. What tells generated files apart is at their end.
            let (data, bytes) = text::place(layout, memory, text, length)?;
            ends::<1>(data, bytes, by_hash, memory, &mut mix)?;
        }
    }
    let length = memory.word(key.lines + layout.bytes_length)?;
    let [by_length, by_content] = MULTIPLIERS[2];
    mix(length, by_length);
    let data = key.lines + layout.bytes_data;
    ends::<4>(data, length, by_content, memory, &mut mix)?;
    Some(digest)
}

/// Odd, and with bits everywhere.
const MULTIPLIERS: [[u64; 2]; 3] = [
    [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9],
    [0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93],
    [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53],
];

/// Mixes so many bytes; of many, some of the first words and the last two.
#[inline]
fn ends<const FIRST: usize>(
    data: u64,
    length: u64,
    by: u64,
    memory: impl Memory,
    mix: &mut impl FnMut(u64, u64),
) -> Option<()> {
    // An object's end is padded to a whole word.
    let words = length.div_ceil(8);
    if words < (FIRST as u64).max(2) {
        for at in 0..words {
            mix(memory.word(data + at * 8)?, by.rotate_left(at as u32) | 1);
        }
        return Some(());
    }
    // They may overlap.
    let first: [u64; FIRST] = memory.words(data)?;
    let [one, other]: [u64; 2] = memory.words(data + (words - 2) * 8)?;
    let mut at = 0;
    while at < FIRST {
        mix(first[at], by.rotate_left(at as u32) | 1);
        at += 1;
    }
    mix(one, by.rotate_left(40) | 1);
    mix(other, by.rotate_left(50) | 1);
    Some(())
}

#[cold]
#[inline(never)]
fn resolve(recorder: &Recorder, layout: &Layout, types: &Types, seen: &Seen) -> u64 {
    let Some(key) = key(layout, seen, Known) else {
        return words::frame(0, 0);
    };
    let (number, line) = match read(layout, types, &key, Known) {
        Some((definition, line)) => (number(recorder, &definition), line),
        None => (0, 0),
    };
    let word = words::frame(number, line);
    LINES.put(&key, word);
    word
}

/// Name, file and lines of a code object, and the line of an instruction; `None` if it makes no sense.
pub fn read(layout: &Layout, types: &Types, key: &Key, memory: impl Memory) -> Option<(Code, u32)> {
    let is = |object: u64, wanted: u64| memory.word(object + layout.object_type) == Some(wanted);
    if !is(key.file, types.text) || !is(key.name, types.text) || !is(key.lines, types.bytes) {
        return None;
    }
    let first = memory.int(key.code + layout.code_first_line)?;
    let definition = Code {
        id: 0,
        name: text::cut(
            text::read(layout, memory, key.name)?,
            LONGEST_NAME,
            Keep::Start,
        ),
        file: text::cut(
            text::read(layout, memory, key.file)?,
            LONGEST_FILE,
            Keep::End,
        ),
        first_line: u32::try_from(first).unwrap_or(0),
    };
    let length = memory
        .word(key.lines + layout.bytes_length)
        .filter(|length| *length <= LONGEST_TABLE)?;
    let table = memory.bytes(key.lines + layout.bytes_data, length)?;
    let offset = match layout.code_start {
        Some(start) => key.ip.wrapping_sub(key.code + start) as i64,
        None if layout.lines == Lines::Ranges => key.ip as i64 * 2,
        None => key.ip as i64,
    };
    Some((definition, lines::line(layout.lines, &table, first, offset)))
}

/// What must be read of a frame's code object before its layout counts as checked.
pub fn is_sound(layout: &Layout, types: &Types, seen: &Seen, memory: impl Memory) -> bool {
    let at = |offset: u64| memory.word(seen.code + offset);
    let parts = (
        at(layout.code_filename),
        at(layout.code_name),
        at(layout.code_lines),
    );
    let (Some(file), Some(name), Some(lines)) = parts else {
        return false;
    };
    let key = Key {
        code: seen.code,
        ip: seen.ip,
        file,
        name,
        lines,
        digest: 0,
    };
    read(layout, types, &key, memory).is_some()
}

/// The number of a definition; the writer is told if it is new. Two threads that see one at the same time give it two
/// numbers, which the writer makes one again.
fn number(recorder: &Recorder, definition: &Code) -> u32 {
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (
            seed,
            &definition.file,
            &definition.name,
            definition.first_line,
        )
            .hash(&mut hasher);
        hasher.finish()
    };
    let (first, second) = (hash(1).max(1), hash(2) & !u64::from(words_mask()));
    let mut mine = None;
    for probe in 0..PROBES {
        let [key, value] = &NUMBERS[(first as usize).wrapping_add(probe) % SLOTS];
        let mut holder = key.load(Ordering::Acquire);
        if holder == 0 {
            let number = match mine {
                Some(number) => number,
                None => announce(recorder, definition),
            };
            if number == 0 {
                return 0;
            }
            mine = Some(number);
            match key.compare_exchange(0, first, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    value.store(second | u64::from(number), Ordering::Release);
                    return number;
                }
                Err(other) => holder = other,
            }
        }
        if holder == first {
            let value = value.load(Ordering::Acquire);
            if value & !u64::from(words_mask()) == second && value & u64::from(words_mask()) != 0 {
                return value as u32 & words_mask();
            }
            if value == 0 {
                // Another thread is about to say its number.
                break;
            }
        }
    }
    mine.unwrap_or_else(|| announce(recorder, definition))
}

const fn words_mask() -> u32 {
    (1 << 24) - 1
}

/// Gives a definition its number and sends it; 0 if there are too many.
fn announce(recorder: &Recorder, definition: &Code) -> u32 {
    let taken = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        (next < MOST).then_some(next + 1)
    });
    let Ok(id) = taken else {
        if !IS_FULL.swap(true, Ordering::AcqRel) {
            let note = Record::Note {
                time_ns: recorder.now(),
                text: "more than 32,767 different Python functions (code made at run time?): new ones \
                       have no name"
                    .into(),
            };
            channel::send(&recorder.sender, Raw::boxed(note));
        }
        return 0;
    };
    let record = Record::Code(Code {
        id,
        ..definition.clone()
    });
    channel::send(&recorder.sender, Raw::boxed(record));
    id
}
