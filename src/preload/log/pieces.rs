//! Pieces of output on their way from the thread that wrote them to the writer: fixed rooms, of which a channel's event
//! carries the number.
//!
//! Safe in a signal handler: rooms are claimed by compare-and-swap, nothing is allocated, nothing waits. Where no room is
//! left the piece is counted and given up; the program is never held up for its own words.

use super::super::raw::{Kind, Raw};
use super::super::state::Recorder;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Bytes before these that were not kept.
    pub skipped: u64,
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
    let time_ns = recorder.now();
    let is_small = written <= SMALL;
    let small = if is_small { SMALLS.claim() } else { None };
    let (room, is_large) = match small {
        Some(room) => (Some(room), false),
        None => (LARGES.claim(), true),
    };
    let Some(room) = room else {
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
        return;
    };
    // SAFETY: the room was claimed for us alone; the parts are the caller's promise.
    let length = unsafe {
        if is_large {
            copy(parts, written, LARGES.start(room), LARGE)
        } else {
            copy(parts, written, SMALLS.start(room), SMALL)
        }
    };
    let raw = Raw {
        time_ns,
        a: room as u64,
        b: length as u64,
        c: (written - length) as u64,
        thread,
        device: stream,
        flags: if is_large { IS_LARGE } else { 0 },
        ..Raw::new(Kind::Output)
    };
    // No waiting: this may be a signal handler, and it is the program's own time.
    if recorder.sender.try_send(raw).is_err() {
        free(&raw);
        GIVEN_UP.fetch_add(1, Ordering::Relaxed);
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
    let found = look(Piece {
        stream: raw.device,
        time_ns: raw.time_ns,
        thread: raw.thread,
        skipped: raw.c,
        bytes,
    });
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
