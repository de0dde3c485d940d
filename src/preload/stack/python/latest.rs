//! The frames of a thread's latest stack with their words: most of them are still there at the next one, and need not be looked up
//! again. From Python 3.12 on a code object has a number of its own; of older ones it takes more to know that they are the same.

use super::walk::{INNERMOST, Seen};

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    code: u64,
    ip: u64,
    /// The number of the code object; 0 for an empty entry.
    version: u64,
    word: u64,
}

/// The innermost frames that are kept, by their distance from the outermost of them.
pub struct Latest {
    /// Of which state of a thread: interpreters number their code for themselves.
    thread: u64,
    entries: [Entry; INNERMOST],
}

impl Latest {
    /// Frames of another thread's state are others.
    #[inline]
    pub fn of_thread(&mut self, thread: u64) {
        if self.thread != thread {
            self.thread = thread;
            self.entries = [Entry::default(); INNERMOST];
        }
    }

    /// The word of the frame at this distance, from `find` where it is another one than it was.
    #[inline]
    pub fn word(
        &mut self,
        distance: usize,
        seen: &Seen,
        version: Option<u64>,
        find: impl FnOnce() -> u64,
    ) -> u64 {
        let Some((entry, version)) = self.entries.get_mut(distance).zip(version) else {
            return find();
        };
        if (entry.code, entry.ip, entry.version) == (seen.code, seen.ip, version) {
            return entry.word;
        }
        *entry = Entry {
            code: seen.code,
            ip: seen.ip,
            version,
            word: find(),
        };
        entry.word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest() -> Latest {
        Latest {
            thread: 0,
            entries: [Entry::default(); INNERMOST],
        }
    }

    #[test]
    fn a_frame_that_stays_is_not_looked_up_again() {
        let mut latest = latest();
        latest.of_thread(7);
        let seen = Seen {
            code: 1,
            ip: 2,
            ..Seen::default()
        };
        assert_eq!(latest.word(3, &seen, Some(9), || 40), 40);
        assert_eq!(latest.word(3, &seen, Some(9), || 41), 40);
        // Another place, line or code; the same code object in another life; another thread's.
        assert_eq!(latest.word(4, &seen, Some(9), || 42), 42);
        let line = Seen { ip: 3, ..seen };
        assert_eq!(latest.word(3, &line, Some(9), || 43), 43);
        assert_eq!(latest.word(3, &line, Some(10), || 44), 44);
        latest.of_thread(8);
        assert_eq!(latest.word(3, &line, Some(10), || 45), 45);
        // Without a number nothing is kept, and beyond the room neither.
        assert_eq!(latest.word(3, &line, None, || 46), 46);
        assert_eq!(latest.word(INNERMOST, &line, Some(10), || 47), 47);
        assert_eq!(latest.word(INNERMOST, &line, Some(10), || 48), 48);
    }
}
