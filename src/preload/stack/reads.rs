//! What a walk has read, in order. What a walk finds depends on nothing else: if all of that is the same again, it would find the
//! same, and need not be done.

use super::room::Room;

/// Whether the reads of the next walk are worth noting: only a stack that repeats will be asked for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Repeats {
    /// The latest stack was another one than the one before.
    No = 0,
    /// It was the same.
    Yes,
    /// It is the same, but a walk of it cannot be noted. (Tried again and again that cost more than it ever saves.)
    InVain,
}

impl Repeats {
    /// A stack has been taken: the same as the latest one or not, with notes (that are good for something or not) or without.
    #[must_use]
    pub fn after(self, is_same: bool, notes: Option<bool>) -> Repeats {
        match (is_same, notes, self) {
            (false, _, _) => Repeats::No,
            (true, Some(false), _) | (true, None, Repeats::InVain) => Repeats::InVain,
            (true, _, _) => Repeats::Yes,
        }
    }
}

/// Some bytes of an aligned word, and what stood there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    word: u64,
    mask: u64,
    value: u64,
}

/// The reads of one walk, at most so many: a walk with more is done each time.
pub struct Reads<const MOST: usize> {
    list: Room<Read, MOST>,
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
        match self.list.last_mut() {
            Some(last) if last.word == word => {
                last.mask |= read.mask;
                last.value |= read.value;
            }
            _ => {
                if !self.list.push(read) {
                    self.spoil();
                }
            }
        }
    }

    /// The walk depends on something that is not among its reads.
    pub fn spoil(&mut self) {
        self.is_spoilt = true;
    }

    /// No walk's.
    pub fn clear(&mut self) {
        self.list.reset(MOST);
        self.is_spoilt = false;
        self.is_whole = false;
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
        self.is_whole
            && self.list.iter().all(|read| {
                let word = std::ptr::with_exposed_provenance::<u64>(read.word as usize);
                // SAFETY: the walk has read some of this aligned word, so it lies in a page that was mapped then; and since all
                // that it had read before led it here and is the same now, it would read the same place again. (`all` stops at
                // the first that differs, and volatile reads stay in order.)
                let now = unsafe { word.read_volatile() };
                now & read.mask == read.value
            })
    }
}

#[cfg(test)]
mod tests {
    use super::super::kept::Zeroed;
    use super::*;

    const MOST: usize = 64;

    struct Only(Reads<MOST>);

    // SAFETY: a list without items.
    unsafe impl Zeroed for Only {}

    fn with(work: impl FnOnce(&mut Reads<MOST>)) {
        let kept = super::super::kept::Kept::<Only>::new();
        kept.with(|only| {
            let reads = &mut only.expect("memory").0;
            assert!(!reads.are_the_same(), "of no walk");
            reads.clear();
            work(reads);
        });
        kept.forget();
    }

    #[test]
    fn what_cannot_be_noted_is_not_tried_again_until_the_stack_is_another_one() {
        let mut repeats = Repeats::No;
        let mut tried = 0;
        for is_same in [false, true, true, true, true, false, true, true] {
            let notes = (repeats == Repeats::Yes).then_some(false);
            tried += usize::from(notes.is_some());
            repeats = repeats.after(is_same, notes);
        }
        assert_eq!(tried, 2);
        assert_eq!(Repeats::Yes.after(true, Some(true)), Repeats::Yes);
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
            assert_eq!(reads.list.len(), 2, "bytes of one word are one read");
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
