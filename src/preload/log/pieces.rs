//! Pieces of output on their way from the thread that wrote them to the writer: fixed rooms, of which a channel's event
//! carries the number.
//!
//! Safe in a signal handler: rooms are claimed by compare-and-swap, nothing is allocated, nothing waits. Where no room is
//! left the piece is counted and given up; the program is never held up for its own words. The latest of those is kept aside:
//! when memory runs out, the last words count.

use super::super::raw::{Kind, Raw};
use super::super::state::Recorder;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Most lines fit here.
const SMALL: usize = 240;
/// Of a longer piece so many bytes are kept, the last ones: they are the latest.
const LARGE: usize = 4096;

/// A piece as it comes out of its room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// 1 or 2.
    pub stream: u8,
    /// When it was written.
    pub time_ns: u64,
    /// By which thread.
    pub thread: u32,
    /// Bytes of the piece before these that were not kept.
    pub skipped: u64,
    /// The piece before it was given up.
    pub is_after_gap: bool,
    /// It begins where a line does.
    pub begins_line: bool,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Rooms of one size.
struct Rooms<const SIZE: usize, const WORDS: usize> {
    /// A bit for each room that is taken.
    taken: [AtomicU64; WORDS],
    rooms: UnsafeCell<[[[u8; SIZE]; 64]; WORDS]>,
}

// SAFETY: a room is written by the thread whose compare-and-swap set its bit, and read by the writer after the event that
// carries its number (the channel orders the two); only the writer clears the bit.
unsafe impl<const SIZE: usize, const WORDS: usize> Sync for Rooms<SIZE, WORDS> {}

impl<const SIZE: usize, const WORDS: usize> Rooms<SIZE, WORDS> {
    const fn new() -> Rooms<SIZE, WORDS> {
        Rooms {
            taken: [const { AtomicU64::new(0) }; WORDS],
            rooms: UnsafeCell::new([[[0; SIZE]; 64]; WORDS]),
        }
    }

    /// The lowest free room: those in use stay few, and warm.
    fn claim(&self) -> Option<usize> {
        for (number, word) in self.taken.iter().enumerate() {
            let mut now = word.load(Ordering::Relaxed);
            while now != u64::MAX {
                let bit = now.trailing_ones();
                match word.compare_exchange_weak(
                    now,
                    now | 1 << bit,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => return Some(number * 64 + bit as usize),
                    Err(other) => now = other,
                }
            }
        }
        None
    }

    fn release(&self, room: usize) {
        if let Some(word) = self.taken.get(room / 64) {
            word.fetch_and(!(1 << (room % 64)), Ordering::Release);
        }
    }

    /// Where a room begins.
    fn start(&self, room: usize) -> *mut u8 {
        let room = room.min(WORDS * 64 - 1);
        self.rooms.get().cast::<u8>().wrapping_add(room * SIZE)
    }
}

static SMALLS: Rooms<SMALL, 16> = Rooms::new();
static LARGES: Rooms<LARGE, 1> = Rooms::new();

/// Pieces that found no room.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

/// `Raw::flags`: the room is one of the large ones.
const IS_LARGE: u8 = 1;
/// `Raw::flags`: see [`Piece`].
const IS_AFTER_GAP: u8 = 2;
const BEGINS_LINE: u8 = 4;

/// What is known of a stream where it is written.
struct Stream {
    /// The latest piece ended within a line.
    is_within_line: AtomicBool,
    /// It was given up.
    has_gap: AtomicBool,
    /// Whoever sets it may use the latest piece that was given up.
    is_in_use: AtomicBool,
    latest: UnsafeCell<(Raw, [u8; LARGE])>,
}

// SAFETY: the piece is touched only by the thread that has changed `is_in_use` from false to true, until it changes it back.
unsafe impl Sync for Stream {}

static STREAMS: [Stream; 2] = [const {
    Stream {
        is_within_line: AtomicBool::new(false),
        has_gap: AtomicBool::new(false),
        is_in_use: AtomicBool::new(false),
        latest: UnsafeCell::new((Raw::new(Kind::Output), [0; LARGE])),
    }
}; 2];

impl Stream {
    fn of(stream: u8) -> &'static Stream {
        &STREAMS[usize::from(stream != 1)]
    }

    /// Has the latest piece that was given up changed or looked at, unless someone is at it: nobody waits.
    fn with_latest<T>(&self, work: impl FnOnce(&mut Raw, &mut [u8; LARGE]) -> T) -> Option<T> {
        if self.is_in_use.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: the swap made it ours.
        let (raw, bytes) = unsafe { &mut *self.latest.get() };
        let done = work(raw, bytes);
        self.is_in_use.store(false, Ordering::Release);
        Some(done)
    }
}

/// How many pieces found no room so far.
pub fn given_up() -> u64 {
    GIVEN_UP.load(Ordering::Relaxed)
}

/// Takes the last bytes of what was written: `written` bytes, from the beginning of the parts on.
///
/// # Safety
/// So many bytes of the parts are readable.
unsafe fn copy(parts: &[libc::iovec], written: usize, to: *mut u8, room: usize) -> usize {
    let mut skip = written.saturating_sub(room);
    let mut left = written;
    let mut length = 0;
    for part in parts {
        let size = part.iov_len.min(left);
        left -= size;
        let from = skip.min(size);
        skip -= from;
        // SAFETY: the caller's promise for the source; all the pieces together are no longer than the room.
        unsafe {
            let source = part.iov_base.cast::<u8>().add(from);
            std::ptr::copy_nonoverlapping(source, to.add(length), size - from);
        }
        length += size - from;
    }
    length
}

/// Sends what was written to one of the streams.
///
/// # Safety
/// The first `written` bytes of the parts are readable, since the kernel has just read them.
pub unsafe fn send(
    recorder: &Recorder,
    stream: u8,
    thread: u32,
    parts: &[libc::iovec],
    written: usize,
) {
    let of = Stream::of(stream);
    let mut raw = Raw {
        time_ns: recorder.now(),
        thread,
        device: stream,
        ..Raw::new(Kind::Output)
    };
    // SAFETY: the caller's promise.
    let ends_within = unsafe { last(parts, written) } != Some(b'\n');
    if !of.is_within_line.swap(ends_within, Ordering::Relaxed) {
        raw.flags |= BEGINS_LINE;
    }
    let is_small = written <= SMALL;
    let small = if is_small { SMALLS.claim() } else { None };
    let (room, is_large) = match small {
        Some(room) => (Some(room), false),
        None => (LARGES.claim(), true),
    };
    let Some(room) = room else {
        // SAFETY: the caller's promise.
        return unsafe { give_up(of, raw, parts, written) };
    };
    if of.has_gap.load(Ordering::Relaxed) && of.has_gap.swap(false, Ordering::Relaxed) {
        raw.flags |= IS_AFTER_GAP;
    }
    // SAFETY: the room was claimed for us alone; the parts are the caller's promise.
    let length = unsafe {
        if is_large {
            copy(parts, written, LARGES.start(room), LARGE)
        } else {
            copy(parts, written, SMALLS.start(room), SMALL)
        }
    };
    raw.a = room as u64;
    raw.b = length as u64;
    raw.c = (written - length) as u64;
    if is_large {
        raw.flags |= IS_LARGE;
    }
    // No waiting: this may be a signal handler, and it is the program's own time.
    if recorder.sender.try_send(raw).is_err() {
        free(&raw);
        // SAFETY: the caller's promise.
        unsafe { give_up(of, raw, parts, written) };
    }
}

/// The last byte of what was written.
///
/// # Safety
/// So many bytes of the parts are readable.
unsafe fn last(parts: &[libc::iovec], written: usize) -> Option<u8> {
    let mut byte = 0;
    // SAFETY: the caller's promise, into one byte.
    let length = unsafe { copy(parts, written, &raw mut byte, 1) };
    (length == 1).then_some(byte)
}

/// There is no room for a piece: it is kept aside until the next one.
///
/// # Safety
/// So many bytes of the parts are readable.
#[cold]
unsafe fn give_up(of: &Stream, raw: Raw, parts: &[libc::iovec], written: usize) {
    GIVEN_UP.fetch_add(1, Ordering::Relaxed);
    of.has_gap.store(true, Ordering::Relaxed);
    of.with_latest(|latest, bytes| {
        // SAFETY: the caller's promise, and the place is of that size.
        let length = unsafe { copy(parts, written, bytes.as_mut_ptr(), LARGE) };
        *latest = Raw {
            b: length as u64,
            c: (written - length) as u64,
            flags: raw.flags & BEGINS_LINE | IS_AFTER_GAP,
            ..raw
        };
    });
}

/// Has the latest piece of a stream looked at that was given up, if there is one. For the writer.
pub fn take_latest<T>(stream: u8, look: impl FnOnce(Piece<'_>) -> T) -> Option<T> {
    let taken = Stream::of(stream).with_latest(|raw, bytes| {
        let length = (std::mem::take(&mut raw.b) as usize).min(LARGE);
        (length > 0).then(|| look(piece(raw, &bytes[..length])))
    });
    taken.flatten()
}

fn piece<'a>(raw: &Raw, bytes: &'a [u8]) -> Piece<'a> {
    Piece {
        stream: raw.device,
        time_ns: raw.time_ns,
        thread: raw.thread,
        skipped: raw.c,
        is_after_gap: raw.flags & IS_AFTER_GAP != 0,
        begins_line: raw.flags & BEGINS_LINE != 0,
        bytes,
    }
}

fn free(raw: &Raw) {
    let room = raw.a as usize;
    if raw.flags & IS_LARGE != 0 {
        LARGES.release(room);
    } else {
        SMALLS.release(room);
    }
}

/// Has a piece looked at, and gives its room back. For the writer, which takes each event once.
pub fn take<T>(raw: &Raw, look: impl FnOnce(Piece<'_>) -> T) -> T {
    let is_large = raw.flags & IS_LARGE != 0;
    let (start, size) = if is_large {
        (LARGES.start(raw.a as usize), LARGE)
    } else {
        (SMALLS.start(raw.a as usize), SMALL)
    };
    // SAFETY: the event's sender has filled so many bytes of the room and touches it no more; the room is ours until it is
    // given back below.
    let bytes = unsafe { std::slice::from_raw_parts(start, (raw.b as usize).min(size)) };
    let found = look(piece(raw, bytes));
    free(raw);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &[u8]) -> libc::iovec {
        libc::iovec {
            iov_base: text.as_ptr().cast_mut().cast(),
            iov_len: text.len(),
        }
    }

    #[test]
    fn the_last_bytes_of_the_parts_are_taken() {
        let parts = [part(b"one "), part(b""), part(b"two "), part(b"three")];
        let copied = |written: usize, room: usize| {
            let mut to = [0; 32];
            // SAFETY: no more bytes than the parts have, into more than the room.
            let length = unsafe { copy(&parts, written, to.as_mut_ptr(), room) };
            String::from_utf8_lossy(&to[..length]).into_owned()
        };
        assert_eq!(copied(13, 32), "one two three");
        assert_eq!(copied(6, 32), "one tw");
        assert_eq!(copied(13, 8), "wo three");
        assert_eq!(copied(6, 3), " tw");
        assert_eq!(copied(0, 8), "");
    }

    #[test]
    fn a_room_is_nobody_elses_until_it_is_given_back() {
        let rooms: Rooms<4, 2> = Rooms::new();
        let claimed: Vec<_> = (0..128).map(|_| rooms.claim()).collect();
        assert_eq!(claimed, (0..128).map(Some).collect::<Vec<_>>());
        assert_eq!(rooms.claim(), None);
        rooms.release(70);
        rooms.release(3);
        assert_eq!((rooms.claim(), rooms.claim()), (Some(3), Some(70)));
        assert_eq!(rooms.claim(), None);
    }
}
