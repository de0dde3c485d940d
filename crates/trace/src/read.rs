//! A file to records: streams chunk by chunk, steps over damage and says what was lost.

use crate::chunk::{ChunkHeader, HEADER, Kind, MARK};
use crate::columns::{Damage, Records};
use crate::header::{Header, MAGIC, MAX_JSON, VERSION};
use crate::record::{Event, Record, What};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Why a file cannot be read as a trace at all.
#[derive(Debug)]
pub enum OpenError {
    /// The system says no.
    Io(io::Error),
    /// No byte in it.
    Empty,
    /// Not one of ours.
    Foreign,
    /// Written by a later version, whose layout is not known here.
    TooNew {
        /// The version found.
        version: u32,
    },
    /// It ends inside its header, or the header is damaged.
    BadHeader(Damage),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Io(error) => write!(f, "cannot be read: {error}"),
            OpenError::Empty => write!(f, "is empty: the process ended before it wrote its header"),
            OpenError::Foreign => write!(f, "is not an oomhook trace"),
            OpenError::TooNew { version } => {
                write!(
                    f,
                    "has trace version {version}; this oomhook reads up to {VERSION}: update it"
                )
            }
            OpenError::BadHeader(damage) => write!(f, "has a damaged header ({damage})"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What a trace yields, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A definition or an event.
    Record(Record),
    /// A segment opens: the whole state at this point.
    Checkpoint {
        /// Number of the segment.
        segment: u32,
        /// The ledger's state as JSON.
        state: Vec<u8>,
        /// Definitions in use and live blocks.
        records: Vec<Record>,
    },
    /// Something is missing here.
    Damage {
        /// In words.
        what: String,
    },
}

/// How a trace ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With its closing record.
    Complete,
    /// Without one: the process was killed, or the file was cut.
    EndsEarly,
}

/// Reads one trace from front to back.
pub struct Reader<R = File> {
    source: R,
    header: Header,
    length: u64,
    position: u64,
    expected_sequence: Option<u32>,
    queue: VecDeque<Item>,
    complete: bool,
    finished: bool,
    cut: bool,
}

impl Reader<File> {
    /// Opens a trace.
    ///
    /// # Errors
    /// When the file cannot be opened or is no trace.
    pub fn open(path: &Path) -> Result<Reader<File>, OpenError> {
        let file = File::open(path).map_err(OpenError::Io)?;
        if file.metadata().map_err(OpenError::Io)?.is_dir() {
            return Err(OpenError::Io(io::ErrorKind::IsADirectory.into()));
        }
        Reader::new(file)
    }
}

impl<R: Read + Seek> Reader<R> {
    /// Reads a trace from any source.
    ///
    /// # Errors
    /// When the source is no trace.
    pub fn new(mut source: R) -> Result<Reader<R>, OpenError> {
        let length = source.seek(SeekFrom::End(0)).map_err(OpenError::Io)?;
        source.rewind().map_err(OpenError::Io)?;
        if length == 0 {
            return Err(OpenError::Empty);
        }
        let mut fixed = [0u8; 16];
        let known = usize::try_from(length).unwrap_or(usize::MAX).min(8);
        source
            .read_exact(&mut fixed[..known])
            .map_err(OpenError::Io)?;
        if fixed[..known] != MAGIC[..known] {
            return Err(OpenError::Foreign);
        }
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => OpenError::BadHeader("the file ends inside it"),
            _ => OpenError::Io(error),
        };
        source.read_exact(&mut fixed[known..]).map_err(cut)?;
        let word = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        let (version, json_length) = (word(8), word(12) as usize);
        if version > VERSION {
            return Err(OpenError::TooNew { version });
        }
        if json_length > MAX_JSON {
            return Err(OpenError::BadHeader("its length is absurd"));
        }
        let mut json = vec![0; json_length];
        source.read_exact(&mut json).map_err(cut)?;
        let mut crc = [0; 4];
        source.read_exact(&mut crc).map_err(cut)?;
        if crc32fast::hash(&json) != u32::from_le_bytes(crc) {
            return Err(OpenError::BadHeader("its checksum is wrong"));
        }
        let header =
            serde_json::from_slice(&json).map_err(|_| OpenError::BadHeader("it is no JSON"))?;
        Ok(Reader {
            source,
            header,
            length,
            position: (fixed.len() + json_length + crc.len()) as u64,
            expected_sequence: Some(0),
            queue: VecDeque::new(),
            complete: false,
            finished: false,
            cut: false,
        })
    }

    /// Who was watched.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the trace ends; true to the file once [`Iterator::next`] has returned `None`.
    #[must_use]
    pub fn ending(&self) -> Ending {
        if self.complete {
            Ending::Complete
        } else {
            Ending::EndsEarly
        }
    }

    /// True if the last damage is that the tail does not hold: of a file that is being written, the latest chunk.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    fn damage(&mut self, what: String) {
        self.queue.push_back(Item::Damage { what });
    }

    /// Reads the next chunk into the queue. A chunk that does not hold is stepped over.
    fn fill(&mut self) -> io::Result<()> {
        let start = self.position;
        let left = self.length - start;
        if left == 0 {
            self.finished = true;
            return Ok(());
        }
        self.source.seek(SeekFrom::Start(start))?;
        let mut fixed = [0u8; HEADER];
        if left < HEADER as u64 {
            self.finished = true;
            self.cut = true;
            self.damage(format!("the file is cut {left} bytes into a chunk"));
            return Ok(());
        }
        self.source.read_exact(&mut fixed)?;
        let Some(chunk) = ChunkHeader::parse(&fixed) else {
            return self.resynchronise(start + 1, "no chunk begins where one should");
        };
        let end = start + HEADER as u64 + chunk.stored() as u64;
        if end > self.length {
            // Either the tail is cut here, or the length itself is damaged: look for a later chunk before giving up.
            return self.resynchronise(start + 1, "the file is cut inside a chunk");
        }
        let mut payload = vec![0; chunk.stored()];
        self.source.read_exact(&mut payload)?;
        match chunk.unpack(&fixed, &payload) {
            Ok(raw) => {
                self.position = end;
                self.accept(&chunk, &raw);
                Ok(())
            }
            // The length may be what is damaged, so the search starts inside the chunk.
            Err(damage) => self.resynchronise(start + 1, damage),
        }
    }

    fn accept(&mut self, chunk: &ChunkHeader, raw: &[u8]) {
        // A file may begin with a later segment: older ones went to keep it within its bound, and its checkpoint knows all
        // that they said.
        let begins_late = self.expected_sequence == Some(0) && chunk.kind == Kind::Checkpoint as u8;
        if let Some(expected) = self.expected_sequence
            && chunk.sequence != expected
            && !begins_late
        {
            let missing = chunk.sequence.wrapping_sub(expected);
            let are = if missing == 1 {
                "chunk is"
            } else {
                "chunks are"
            };
            self.damage(format!(
                "{missing} {are} missing before chunk {}",
                chunk.sequence
            ));
        }
        self.expected_sequence = Some(chunk.sequence.wrapping_add(1));
        let result = if chunk.kind == Kind::Records as u8 {
            self.accept_records(raw)
        } else if chunk.kind == Kind::Checkpoint as u8 {
            self.accept_checkpoint(chunk.segment, raw)
        } else {
            Ok(())
        };
        if let Err(damage) = result {
            self.damage(format!(
                "chunk {} is unreadable from here on: {damage}",
                chunk.sequence
            ));
        }
    }

    fn accept_records(&mut self, raw: &[u8]) -> Result<(), Damage> {
        let mut records = Records::new(raw)?;
        while let Some(record) = records.next_record()? {
            self.complete = matches!(
                record,
                Record::Event(Event {
                    what: What::End { .. },
                    ..
                })
            );
            self.queue.push_back(Item::Record(record));
        }
        Ok(())
    }

    fn accept_checkpoint(&mut self, segment: u32, raw: &[u8]) -> Result<(), Damage> {
        let (length, rest) = raw.split_at_checked(8).ok_or("a checkpoint is too short")?;
        let length =
            u64::from_le_bytes(length.try_into().map_err(|_| "a checkpoint is too short")?);
        let length = usize::try_from(length).map_err(|_| "a checkpoint's length is absurd")?;
        let (state, rest) = rest
            .split_at_checked(length)
            .ok_or("a checkpoint's length is absurd")?;
        let mut columns = Records::new(rest)?;
        let mut records = Vec::new();
        while let Some(record) = columns.next_record()? {
            records.push(record);
        }
        self.queue.push_back(Item::Checkpoint {
            segment,
            state: state.to_vec(),
            records,
        });
        Ok(())
    }

    /// Looks for the next chunk that holds, from `from` on.
    fn resynchronise(&mut self, from: u64, why: Damage) -> io::Result<()> {
        const WINDOW: usize = 1 << 16;
        let mut at = from;
        let mut window = Vec::new();
        while at < self.length {
            self.source.seek(SeekFrom::Start(at))?;
            window.clear();
            (&mut self.source)
                .take(WINDOW as u64)
                .read_to_end(&mut window)?;
            for offset in find_marks(&window) {
                if self.holds(at + offset as u64)? {
                    let lost = at + offset as u64 - (from - 1);
                    self.position = at + offset as u64;
                    self.damage(format!("{lost} bytes were skipped: {why}"));
                    return Ok(());
                }
            }
            if window.len() < WINDOW {
                break;
            }
            // Marks may straddle the windows.
            at += (WINDOW - MARK.len() + 1) as u64;
        }
        let lost = self.length - (from - 1);
        self.finished = true;
        self.cut = true;
        self.damage(format!("the last {lost} bytes were skipped: {why}"));
        Ok(())
    }

    /// True if a chunk with a right checksum begins at `at`.
    fn holds(&mut self, at: u64) -> io::Result<bool> {
        if self.length - at < HEADER as u64 {
            return Ok(false);
        }
        self.source.seek(SeekFrom::Start(at))?;
        let mut fixed = [0u8; HEADER];
        self.source.read_exact(&mut fixed)?;
        let Some(chunk) = ChunkHeader::parse(&fixed) else {
            return Ok(false);
        };
        if at + (HEADER + chunk.stored()) as u64 > self.length {
            return Ok(false);
        }
        let mut payload = vec![0; chunk.stored()];
        self.source.read_exact(&mut payload)?;
        Ok(chunk.unpack(&fixed, &payload).is_ok())
    }
}

fn find_marks(window: &[u8]) -> impl Iterator<Item = usize> + '_ {
    window
        .windows(MARK.len())
        .enumerate()
        .filter(|(_, bytes)| **bytes == MARK)
        .map(|(at, _)| at)
}

impl<R: Read + Seek> Iterator for Reader<R> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Some(item);
            }
            if self.finished {
                return None;
            }
            if let Err(error) = self.fill() {
                self.finished = true;
                self.damage(format!("the file cannot be read further: {error}"));
            }
        }
    }
}
