//! Lines of a log of any size, in bounded memory and fit to be read: without colours, control characters and broken UTF-8.

use std::io::{self, BufRead};

/// Longer lines come in pieces, so that a line without end needs no memory without end.
const PIECE: usize = 64 << 10;
/// Pieces of one line overlap, so that no message is cut in two.
const OVERLAP: usize = 8 << 10;

/// A line, or a piece of a long one.
#[derive(Debug)]
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    /// What it says.
    pub text: &'a str,
    /// What begins from here on (bytes) begins in the next piece, too, and is left to it.
    pub own: usize,
    /// A progress line: it takes the place of the one before.
    pub starts_over: bool,
}

/// Reads lines.
pub struct Lines<R> {
    reader: R,
    raw: Vec<u8>,
    text: String,
    number: u64,
    /// What ended the latest piece.
    before: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Newline,
    Return,
    /// None: the line goes on.
    Cut,
}

impl<R: BufRead> Lines<R> {
    /// Of a log.
    pub fn new(reader: R) -> Lines<R> {
        Lines {
            reader,
            raw: Vec::new(),
            text: String::new(),
            number: 1,
            before: Ending::Newline,
        }
    }

    /// Lines so far.
    pub fn count(&self) -> u64 {
        self.number - 1
    }

    /// The next line; none at the end.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut starts_over = false;
        match self.before {
            Ending::Cut => {}
            Ending::Newline => self.raw.clear(),
            Ending::Return => {
                self.raw.clear();
                // A return before a newline is Windows' way to end a line.
                match self.fill()?.first() {
                    Some(b'\n') => {
                        self.reader.consume(1);
                        self.number += 1;
                    }
                    Some(_) => starts_over = true,
                    None => self.number += 1,
                }
            }
        }
        let number = self.number;
        let ended = loop {
            let room = PIECE + OVERLAP - self.raw.len();
            let bytes = loop {
                match self.reader.fill_buf() {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            if bytes.is_empty() {
                break None;
            }
            let bytes = &bytes[..bytes.len().min(room)];
            match memchr::memchr2(b'\n', b'\r', bytes) {
                Some(at) => {
                    let ending = match bytes[at] {
                        b'\n' => Ending::Newline,
                        _ => Ending::Return,
                    };
                    self.raw.extend_from_slice(&bytes[..at]);
                    self.reader.consume(at + 1);
                    break Some(ending);
                }
                None => {
                    let taken = bytes.len();
                    self.raw.extend_from_slice(bytes);
                    self.reader.consume(taken);
                    if self.raw.len() == PIECE + OVERLAP {
                        break Some(Ending::Cut);
                    }
                }
            }
        };
        let Some(ended) = ended else {
            if self.raw.is_empty() {
                return Ok(None);
            }
            self.before = Ending::Newline;
            self.number += 1;
            self.clean(self.raw.len());
            self.raw.clear();
            let (text, own) = (self.text.as_str(), self.text.len());
            return Ok(Some(Line {
                number,
                text,
                own,
                starts_over,
            }));
        };
        self.before = ended;
        let own = match ended {
            Ending::Cut => {
                let own = self.clean(PIECE);
                self.raw.drain(..PIECE);
                own
            }
            Ending::Newline => {
                self.number += 1;
                self.clean(self.raw.len())
            }
            Ending::Return => self.clean(self.raw.len()),
        };
        Ok(Some(Line {
            number,
            text: &self.text,
            own,
            starts_over,
        }))
    }

    fn fill(&mut self) -> io::Result<&[u8]> {
        loop {
            match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                // The borrow would outlive the loop otherwise.
                Ok(_) => break,
            }
        }
        self.reader.fill_buf()
    }

    /// Makes the text of the bytes; where the first `part` of them ends in it.
    fn clean(&mut self, part: usize) -> usize {
        self.text.clear();
        let (head, tail) = self.raw.split_at(part);
        put(head, &mut self.text);
        let own = self.text.len();
        put(tail, &mut self.text);
        own
    }
}

/// Appends what people would see of these bytes.
fn put(bytes: &[u8], text: &mut String) {
    let is_plain = bytes
        .iter()
        .all(|byte| (0x20..0x7f).contains(byte) || *byte == b'\t');
    if is_plain {
        // Cannot fail, all of it is ASCII.
        text.push_str(&String::from_utf8_lossy(bytes));
        return;
    }
    let mut kept = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = match byte {
            0x1b => after_escape(after),
            // Holes in files, and every other byte of UTF-16.
            0..0x09 | 0x0b..0x20 | 0x7f => after,
            _ => {
                kept.push(byte);
                after
            }
        };
    }
    text.push_str(&String::from_utf8_lossy(&kept));
}

/// What follows an escape sequence.
fn after_escape(bytes: &[u8]) -> &[u8] {
    let end = match bytes.first() {
        // Colours and cursor: parameters, then one final byte.
        Some(b'[') => {
            let end = bytes[1..]
                .iter()
                .position(|byte| !(0x20..0x40).contains(byte));
            end.map(|at| at + 2)
        }
        // Titles and links, up to a bell or a string terminator.
        Some(b']') => {
            let end = bytes.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
            end.map(|at| match bytes[at] {
                0x1b => at + 2,
                _ => at + 1,
            })
        }
        Some(_) => Some(1),
        None => None,
    };
    bytes.get(end.unwrap_or(bytes.len())..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(log: &[u8]) -> Vec<(u64, String, bool)> {
        // A small buffer, so that everything falls on its edge once.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, log));
        let mut all = Vec::new();
        while let Some(line) = lines.next().expect("a slice can be read") {
            all.push((line.number, line.text.to_owned(), line.starts_over));
        }
        all
    }

    #[test]
    fn lines_end_with_newlines_returns_or_both() {
        let lines = all(b"one\r\ntwo\nthree\rfour\r\n\r\nlast");
        let told: Vec<(u64, &str, bool)> = lines
            .iter()
            .map(|(number, text, over)| (*number, text.as_str(), *over))
            .collect();
        let expected = [
            (1, "one", false),
            (2, "two", false),
            (3, "three", false),
            (3, "four", true),
            (4, "", false),
            (5, "last", false),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn colours_controls_and_broken_text_are_taken_out() {
        let lines =
            all(b"\x1b[1;31mred\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \xff\0o\0k\x08\x1b[");
        assert_eq!(lines[0].1, "red link \u{fffd}ok");
    }

    #[test]
    fn a_long_line_comes_in_pieces_that_overlap() {
        let mut log = vec![b'a'; 3 * PIECE];
        // Across the first edge.
        log[PIECE - 3..PIECE + 3].copy_from_slice(b"needle");
        log.extend_from_slice(b"\nnext\n");
        let mut lines = Lines::new(&log[..]);
        let mut own = Vec::new();
        let mut found = 0;
        while let Some(line) = lines.next().expect("a slice can be read") {
            own.push((line.number, line.own));
            found += u32::from(line.text.find("needle").is_some_and(|at| at < line.own));
            assert!(line.text.len() <= PIECE + OVERLAP);
        }
        assert_eq!(own, [(1, PIECE), (1, PIECE), (1, PIECE), (2, 4)]);
        assert_eq!(found, 1);
        assert_eq!(lines.count(), 2);
    }
}
