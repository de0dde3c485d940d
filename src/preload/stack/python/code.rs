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
    let Some(key) = key(layout, seen) else {
        return words::frame(0, 0);
    };
    match LINES.get(&key) {
        Some(word) => word,
        None => resolve(recorder, layout, types, &key),
    }
}

#[inline]
fn key(layout: &Layout, seen: &Seen) -> Option<Key> {
    let code = seen.code;
    let mut key = Key {
        code,
        ip: seen.ip,
        file: Known.word(code + layout.code_filename)?,
        name: Known.word(code + layout.code_name)?,
        lines: Known.word(code + layout.code_lines)?,
        digest: 0,
    };
    let first = Known.int(code + layout.code_first_line)? as u32;
    let version: Option<u32> = layout
        .code_version
        .and_then(|version| Known.read(code + version));
    key.digest = match version {
        // No two code objects have the same, unless there have been 2^32.
        Some(version) if version != 0 => u64::from(first) << 32 | u64::from(version),
        _ => digest(layout, &key, first)?,
    };
    Some(key)
}

/// Of older versions: what the three objects hold, since a new one may lie exactly where an old one lay.
fn digest(layout: &Layout, key: &Key, first: u32) -> Option<u64> {
    const HASH: u64 = 24;
    let mut digest = u64::from(first);
    let mut mix = |value: u64| {
        digest = (digest.rotate_left(23) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    };
    for text in [key.name, key.file] {
        let length = Known.word(text + layout.text_length)?;
        let hash = Known.word(text + HASH)?;
        mix(length);
        mix(hash);
        if hash == u64::MAX {
            // Python has not hashed it yet.
            ends(text + layout.text_ascii, length, &mut mix)?;
        }
    }
    let length = Known.word(key.lines + layout.bytes_length)?;
    mix(length);
    ends(key.lines + layout.bytes_data, length, &mut mix)?;
    Some(digest)
}

/// Mixes the first 64 bytes and the last whole words of so many bytes.
fn ends(data: u64, length: u64, mix: &mut impl FnMut(u64)) -> Option<()> {
    // An object's end is padded to a whole word.
    let words = length.div_ceil(8);
    for at in (0..words.min(8)).chain(words.saturating_sub(2).max(8)..words) {
        mix(Known.word(data + at * 8)?);
    }
    Some(())
}

#[cold]
fn resolve(recorder: &Recorder, layout: &Layout, types: &Types, key: &Key) -> u64 {
    let found = read(layout, types, key, Known);
    let number = found
        .as_ref()
        .map_or(0, |(definition, _)| number(recorder, definition));
    let line = found.map_or(0, |(_, line)| line);
    let word = words::frame(number, line);
    LINES.put(key, word);
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
                text: format!(
                    "more than {} different Python functions (code made at run time?): new ones have no name",
                    MOST - 1
                ),
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
