//! Pieces of output to lines: one for each end of line; of a progress line, which overwrites itself by `\r`, the last state.
//!
//! A line that comes out of a buffer was written before, and tells nothing of this moment. That it does is told by the
//! piece: a buffer that is full is large, and is written to where it ends, also in the middle of a line; a buffer that holds
//! many lines was filled over a time. Of a few lines in one piece the stream decides: stderr and terminals get each line at
//! once, and so does a pipe or a file that has got single lines before; there `print("a\nb")` is two lines of now. Where nothing
//! but bundles came, as from a script that prints a few lines to a file in an hour and flushes at its end, they are late.

use super::pieces::Piece;

/// Bytes kept of a line.
pub const LONGEST: usize = 512;
/// More full lines than this in one piece were not written at once.
const AT_ONCE: usize = 8;
/// The smallest buffer of a C library, of Python or of a C++ stream; and what the size of a smaller one is a multiple of.
const BUFFER: u64 = 4096;
const PART: u64 = 1024;

/// A line, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its bytes, without its end.
    pub bytes: Vec<u8>,
    /// It had been written before.
    pub late: bool,
    /// It overwrote what stood there before.
    pub is_progress: bool,
    /// When its end was written, or its last piece.
    pub time_ns: u64,
    /// By which thread.
    pub thread: u32,
}

/// Makes the lines of one stream.
#[derive(Debug, Default)]
pub struct Lines {
    /// What there is of the line in the making.
    line: Line,
    /// What it overwrites.
    before: Option<Line>,
    /// The line's beginning is lost.
    is_torn: bool,
    /// What was told of the line in the making already.
    told: Vec<u8>,
    /// A line has come by itself.
    is_prompt: bool,
}

impl Lines {
    /// Takes a piece; the lines that end in it. `is_at_once` says whether the stream gets each line at once by its nature; asked
    /// only where it matters.
    pub fn take(
        &mut self,
        piece: &Piece<'_>,
        is_at_once: impl FnOnce() -> bool,
        mut tell: impl FnMut(Line),
    ) {
        if piece.is_after_gap || piece.skipped > 0 {
            self.line = Line::default();
            self.before = None;
            self.is_torn = !piece.begins_line || piece.skipped > 0;
        }
        let late = self.is_from_a_buffer(piece, is_at_once);
        for byte in piece.bytes {
            match byte {
                b'\n' => {
                    let mut line = self.end();
                    line.late = late;
                    (line.time_ns, line.thread) = (piece.time_ns, piece.thread);
                    let is_whole = !std::mem::take(&mut self.is_torn);
                    if is_whole && !line.bytes.is_empty() && line.bytes != self.told {
                        tell(line);
                    }
                    self.told.clear();
                }
                b'\r' => {
                    let line = std::mem::take(&mut self.line);
                    if !line.bytes.is_empty() {
                        self.before = Some(line);
                    }
                    self.line.is_progress = true;
                }
                _ => {
                    if self.line.bytes.len() < LONGEST {
                        self.line.bytes.push(*byte);
                    }
                    (self.line.time_ns, self.line.thread) = (piece.time_ns, piece.thread);
                }
            }
        }
    }

    /// The line that ends now. What was overwritten by nothing stays what it was: `\r\n` is an end of line as well.
    fn end(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.line);
        let before = self.before.take();
        if let Some(before) = before.filter(|_| line.bytes.is_empty()) {
            line = before;
        }
        line
    }

    /// True if the lines of a piece were written before.
    fn is_from_a_buffer(&mut self, piece: &Piece<'_>, is_at_once: impl FnOnce() -> bool) -> bool {
        let size = piece.skipped + piece.bytes.len() as u64;
        let lines = piece.bytes.iter().filter(|byte| **byte == b'\n').count();
        let ends_within = piece.bytes.last().is_some_and(|byte| *byte != b'\n');
        if size >= BUFFER || lines > AT_ONCE {
            return true;
        }
        match lines {
            0 => false,
            _ if ends_within && size.is_multiple_of(PART) => true,
            1 => {
                self.is_prompt |= !ends_within;
                false
            }
            _ => !self.is_prompt && !is_at_once(),
        }
    }

    /// What stands there and has no end yet; nothing if it was told before.
    pub fn unfinished(&mut self) -> Option<Line> {
        let overwritten = self.before.as_ref();
        let line = match self.line.bytes.is_empty() {
            true => overwritten?,
            false => &self.line,
        };
        if self.is_torn || line.bytes == self.told {
            return None;
        }
        self.told.clone_from(&line.bytes);
        Some(line.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(time_ns: u64, bytes: &[u8]) -> Piece<'_> {
        Piece {
            stream: 1,
            time_ns,
            thread: 0,
            skipped: 0,
            is_after_gap: false,
            begins_line: true,
            bytes,
        }
    }

    fn lines(pieces: &[&[u8]]) -> (Vec<(String, bool)>, Lines) {
        let mut all = Vec::new();
        let mut lines = Lines::default();
        for (at, bytes) in pieces.iter().enumerate() {
            lines.take(
                &piece(at as u64, bytes),
                || true,
                |line| {
                    all.push((String::from_utf8_lossy(&line.bytes).into_owned(), line.late));
                },
            );
        }
        (all, lines)
    }

    fn told(pieces: &[&[u8]]) -> Vec<String> {
        lines(pieces).0.into_iter().map(|line| line.0).collect()
    }

    #[test]
    fn pieces_make_lines_wherever_they_are_cut() {
        let text = b"one\ntwo\r\n\nthree four\n\rbar 1\rbar 2\rbar 3\nend\n";
        let wanted = told(&[text]);
        assert_eq!(wanted, ["one", "two", "three four", "bar 3", "end"]);
        for size in 1..text.len() {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(told(&pieces), wanted, "in pieces of {size}");
        }
    }

    #[test]
    fn of_progress_the_last_state_is_known_before_it_ends() {
        let (all, mut lines) = lines(&[b"loading\n", b"\r 10%", b"\r 20%", b"\r 30%\r"]);
        assert_eq!(all, [("loading".into(), false)]);
        let now = lines.unfinished().expect("a line");
        assert_eq!((&*now.bytes, now.time_ns), (&b" 30%"[..], 3));
        assert_eq!(lines.unfinished(), None, "once");
    }

    #[test]
    fn what_comes_out_of_a_buffer_is_late() {
        let is_late = |bytes: &[u8]| {
            lines(&[bytes])
                .0
                .iter()
                .map(|line| line.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(is_late(b"a\nb\n"), [false, false]);
        assert_eq!(is_late(b"a\nb\nc\nd\ne\nf\ng\nh\n"), [false; 8]);
        assert_eq!(is_late(b"a\nb\nc\nd\ne\nf\ng\nh\ni\n"), [true; 9]);
        // A full buffer of 1 KiB, cut in the middle of a line.
        let full = [vec![b'x'; 500], vec![b'\n'], vec![b'y'; 523]].concat();
        assert_eq!(is_late(&full), [true]);
        let line = [vec![b'x'; 600], vec![b'\n']].concat();
        assert_eq!(is_late(&line), [false]);
        // Cut at the longest, and not written at once.
        let (all, _) = lines(&[&[vec![b'x'; 5000], vec![b'\n']].concat()]);
        assert_eq!((all[0].0.len(), all[0].1), (LONGEST, true));
    }

    #[test]
    fn a_bundle_is_late_where_nothing_but_bundles_comes() {
        let mut found = Vec::new();
        let mut lines = Lines::default();
        for (is_at_once, bytes) in [
            (false, &b"a\nb\n"[..]),
            (true, b"c\nd\n"),
            (false, b"e\nf"),
            (false, b"\ng\nh\n"),
            (false, b"by itself\n"),
            (false, b"i\nj\n"),
        ] {
            lines.take(
                &piece(0, bytes),
                || is_at_once,
                |line| {
                    found.push((String::from_utf8_lossy(&line.bytes).into_owned(), line.late));
                },
            );
        }
        let late: Vec<_> = found
            .iter()
            .filter(|line| line.1)
            .map(|line| &line.0[..])
            .collect();
        assert_eq!(late, ["a", "b", "f", "g", "h"]);
        assert_eq!(found.len(), 11);
    }

    #[test]
    fn what_is_torn_is_no_line() {
        let mut found = Vec::new();
        let mut lines = Lines::default();
        for (skipped, is_after_gap, begins_line, bytes) in [
            (0, false, true, &b"begin"[..]),
            (9, false, true, b"end of one\nwhole\nhalf"),
            (0, false, true, b" one\nbegin"),
            (0, true, false, b"end\nbegin"),
            (0, true, true, b"after a gap\n"),
        ] {
            let piece = Piece {
                stream: 1,
                time_ns: 0,
                thread: 0,
                skipped,
                is_after_gap,
                begins_line,
                bytes,
            };
            lines.take(&piece, || true, |line| found.push(line.bytes));
        }
        let found: Vec<_> = found
            .iter()
            .map(|line| String::from_utf8_lossy(line))
            .collect();
        assert_eq!(found, ["whole", "half one", "after a gap"]);
    }
}
