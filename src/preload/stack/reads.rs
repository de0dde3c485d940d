//! What a walk has read, in order. What a walk finds depends on nothing else: if all of that is the same again, it would find the
//! same, and need not be done.

use super::kept::{Kept, Zeroed};
use super::room::Room;

/// Whether the reads of the next walk are worth noting: only a stack that repeats is ever asked for them, and to note them costs more
/// than a walk. All zeroes at first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// How often in a row the stack was the same.
    run: u16,
    /// Notes that were good for nothing, as a power of two of what is waited for longer.
    in_vain: u8,
    /// There are notes.
    has_notes: bool,
    /// Walks that they have saved.
    saved: u8,
}

impl Repeats {
    /// The stack was the same so often before it is noted.
    const FIRST: u16 = 3;
    /// Most doublings of that (768 times).
    const MOST_IN_VAIN: u8 = 8;
    /// Notes that save fewer walks were in vain.
    const LEAST: u8 = 4;

    /// True if the next walk is to be noted.
    #[inline]
    pub fn are_worth_notes(self) -> bool {
        self.run >= Self::FIRST << self.in_vain
    }

    /// The notes have saved a walk.
    #[inline]
    pub fn saved(&mut self) {
        self.saved = self.saved.saturating_add(1);
    }

    /// A walk was done: its stack is the same as the latest one or not, and was noted (wholly or not) or not.
    pub fn walked(&mut self, is_same: bool, notes: Option<bool>) {
        if self.has_notes && self.saved >= Self::LEAST {
            self.in_vain = 0;
        } else if self.has_notes || notes == Some(false) {
            self.in_vain = Self::MOST_IN_VAIN.min(self.in_vain + 1);
        }
        self.has_notes = notes == Some(true);
        self.saved = 0;
        self.run = match is_same && notes.is_none() {
            true => self.run.saturating_add(1),
            false => 0,
        };
    }
}

/// Some bytes of an aligned word, and what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    word: u64,
    mask: u64,
    value: u64,
}

struct List<const MOST: usize>(Room<Read, MOST>);

// SAFETY: a list without items.
unsafe impl<const MOST: usize> Zeroed for List<MOST> {}

/// The reads of one walk, at most so many: a walk with more is done each time. There is no room for them before the first.
pub struct Reads<const MOST: usize> {
    list: Kept<List<MOST>>,
    is_spoilt: bool,
    /// The walk has ended, and these are all of its reads.
    is_whole: bool,
}

impl<const MOST: usize> Reads<MOST> {
    /// So many bytes (1, 4 or 8) at an address were this.
    pub fn note(&mut self, at: u64, bytes: u64, value: u64) {
        let (word, shift) = (at & !7, (at & 7) * 8);
        if (at & 7) + bytes > 8 {
            return self.spoil();
        }
        let read = Read {
            word,
            mask: (u64::MAX >> (64 - bytes * 8)) << shift,
            value: value << shift,
        };
        let is_noted = self.list.with(|list| {
            let Some(List(list)) = list else { return false };
            match list.last_mut() {
                Some(last) if last.word == word => {
                    last.mask |= read.mask;
                    last.value |= read.value;
                    true
                }
                _ => list.push(read),
            }
        });
        if !is_noted {
            self.spoil();
        }
    }

    /// The walk depends on something that is not among its reads.
    pub fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// No walk's.
    pub fn clear(&mut self) {
        if let Some(List(list)) = self.list.get_mut() {
            list.clear();
        }
        self.is_spoilt = false;
        self.is_whole = false;
    }

    /// A walk is about to be noted.
    pub fn begin(&mut self) {
        self.clear();
        self.list.with(|list| match list {
            Some(List(list)) => list.reset(MOST),
            None => self.is_spoilt = true,
        });
    }

    /// The thread ends: the room goes.
    pub fn forget(&mut self) {
        self.clear();
        self.list.forget(|_| {});
    }

    /// True if the notes are all that a walk depends on.
    pub fn are_whole(&self) -> bool {
        self.is_whole
    }

    /// The walk has ended.
    pub fn end(&mut self) {
        self.is_whole = !self.is_spoilt;
    }

    /// True if the walk would find again what it found.
    #[inline]
    pub fn are_the_same(&self) -> bool {
        if !self.is_whole {
            return false;
        }
        let Some(List(list)) = self.list.get() else {
            return false;
        };
        list.iter().all(|read| {
            let word = std::ptr::with_exposed_provenance::<u64>(read.word as usize);
            // SAFETY: the walk has read some of this aligned word, so it lies in a page that was mapped then; and since all that it
            // had read before led it here and is the same now, it would read the same place again. (`all` stops at the first that
            // differs, and volatile reads stay in order.)
            let now = unsafe { word.read_volatile() };
            now & read.mask == read.value
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 64;

    fn with(work: impl FnOnce(&mut Reads<MOST>)) {
        let mut reads = Reads {
            list: Kept::new(),
            is_spoilt: false,
            is_whole: false,
        };
        assert!(!reads.are_the_same(), "of no walk");
        reads.begin();
        work(&mut reads);
        reads.forget();
        assert!(!reads.are_the_same(), "of a thread that has ended");
        reads.begin();
        reads.end();
        assert!(!reads.are_the_same(), "of a thread that has ended");
    }

    /// Of runs of one stack of this length: how many walks were noted, and how many these saved.
    fn noted(run: usize, runs: usize, can_be_noted: bool) -> (usize, usize) {
        let mut repeats = Repeats::default();
        let (mut walks_noted, mut saved, mut has_notes) = (0, 0, false);
        for number in 0..run * runs {
            let is_same = number % run != 0;
            if is_same && has_notes {
                repeats.saved();
                saved += 1;
                continue;
            }
            let notes = repeats.are_worth_notes().then_some(can_be_noted);
            walks_noted += usize::from(notes.is_some());
            has_notes = notes == Some(true);
            repeats.walked(is_same, notes);
        }
        (walks_noted, saved)
    }

    #[test]
    fn notes_are_taken_where_they_save_more_than_they_cost() {
        // One long run: once. Shorter ones: as often as there are runs.
        assert_eq!(noted(1000, 1, true), (1, 995));
        assert_eq!(noted(100, 50, true), (50, 50 * 95));
        assert_eq!(noted(1, 1000, true), (0, 0));
        // So short that the notes come too late for most of it: hardly ever.
        for run in 2..20 {
            let (notes, saved) = noted(run, 10_000, true);
            assert!(saved + 40 >= notes * 4, "{run}: {saved} by {notes}");
        }
        // No notes can be taken.
        for (run, runs) in [(2, 10_000), (5, 10_000), (100, 1000), (100_000, 1)] {
            let (notes, _) = noted(run, runs, false);
            assert!(notes * 100 <= run * runs, "{run}: {notes}");
        }
    }

    #[test]
    fn the_same_reads_are_the_same() {
        let memory = [7u64, 0x0011_2233_4455_6677, 9].map(std::cell::Cell::new);
        let at = |word: usize| memory[word].as_ptr().expose_provenance() as u64;
        with(|reads| {
            reads.note(at(0), 8, 7);
            reads.note(at(1) + 4, 4, 0x0011_2233);
            reads.note(at(1) + 1, 1, 0x66);
            assert!(!reads.are_the_same(), "the walk has not ended");
            reads.end();
            assert!(reads.are_the_same());
            let length = reads.list.get().map(|list| list.0.len());
            assert_eq!(length, Some(2), "bytes of one word are one read");
            memory[2].set(10);
            memory[1].set(0x0011_2233_ffff_66ff);
            assert!(reads.are_the_same(), "what was not read may change");
            memory[1].set(0x0011_2233_ffff_67ff);
            assert!(!reads.are_the_same());
            memory[1].set(0x0011_2232_ffff_66ff);
            assert!(!reads.are_the_same());
            memory[1].set(0x0011_2233_ffff_66ff);
            memory[0].set(8);
            assert!(!reads.are_the_same());
            memory[0].set(7);
            assert!(reads.are_the_same());
            reads.clear();
            assert!(!reads.are_the_same());
        });
    }

    #[test]
    fn after_a_change_nothing_more_is_read() {
        let memory = std::cell::Cell::new(1u64);
        with(|reads| {
            reads.note(memory.as_ptr().expose_provenance() as u64, 8, 1);
            // Where the first would have led: nothing is there.
            reads.note(8, 8, 5);
            reads.end();
            memory.set(2);
            assert!(!reads.are_the_same());
        });
    }

    #[test]
    fn what_is_not_whole_is_never_the_same() {
        let memory = vec![3u64; MOST + 1];
        let at = memory.as_ptr().expose_provenance() as u64;
        with(|reads| {
            for word in 0..MOST as u64 {
                reads.note(at + word * 8, 8, 3);
            }
            reads.end();
            assert!(reads.are_the_same());
            reads.note(at + MOST as u64 * 8, 8, 3);
            reads.end();
            assert!(!reads.are_the_same(), "one too many");
        });
        with(|reads| {
            reads.note(at + 4, 8, 3 << 32 | 3);
            reads.end();
            assert!(!reads.are_the_same(), "across two words");
        });
        with(|reads| {
            reads.note(at, 8, 3);
            reads.spoil();
            reads.end();
            assert!(!reads.are_the_same());
        });
    }
}
