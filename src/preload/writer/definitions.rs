//! Gives libraries, frames, stacks and calls their numbers in the trace, and defines each before its first use.

use super::super::hooks;
use super::super::libraries::{self, Object, Scan};
use super::super::raw::Raw;
use super::super::stack::words::{self, Word};
use super::super::state::Recorder;
use super::header;
use oomhook_trace::record::{Code, CodeId, Library};
use oomhook_trace::{FrameId, LibraryId, Record, StackId};
use std::collections::HashMap;

/// Scans kept: a stack may come later than many changes of the loaded libraries. (A process that opens and closes plugins all
/// the time has made a thousand of them before the writer comes to its stacks.)
const SCANS: usize = 2048;

/// The loaded libraries at one generation, sorted by address.
struct Map {
    generation: u32,
    ranges: Vec<Range>,
}

#[derive(Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    bias: u64,
    library: LibraryId,
}

/// Everything defined so far.
#[derive(Default)]
pub struct Definitions {
    new: Vec<Record>,
    calls: Vec<bool>,
    /// Loaded now, by what identifies them.
    libraries: HashMap<(u64, u64, String, Vec<u8>), LibraryId>,
    last_library: LibraryId,
    maps: Vec<Map>,
    frames: HashMap<(LibraryId, u64), FrameId>,
    codes: HashMap<Code, CodeId>,
    /// Numbers of the hooks that are not those of the trace: threads that saw a code object at the same time gave it one each.
    twins: HashMap<CodeId, CodeId>,
    stacks: HashMap<u32, StackId>,
    last_stack: StackId,
    addresses: Vec<u64>,
}

impl Definitions {
    /// The definitions made since the last call, to be written before what uses them.
    pub fn take_new(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.new)
    }

    /// The call's number (the event's own), defined at its first use.
    pub fn call(&mut self, id: u16) -> u16 {
        if id != 0 {
            if self.calls.is_empty() {
                self.calls = vec![false; hooks::ROWS + 1];
            }
            if let Some(defined) = self.calls.get_mut(usize::from(id))
                && !*defined
            {
                *defined = true;
                self.new.push(Record::Call {
                    id,
                    name: hooks::row(id - 1).shown.into(),
                });
            }
        }
        id
    }

    /// The number of an event's stack.
    pub fn stack(&mut self, recorder: &Recorder, raw: &Raw) -> StackId {
        if raw.stack == 0 {
            return 0;
        }
        if let Some(id) = self.stacks.get(&raw.stack) {
            return *id;
        }
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        let generation = recorder.stacks.read(raw.stack, &mut addresses);
        let id = self.define(generation, &addresses);
        self.addresses = addresses;
        self.stacks.insert(raw.stack, id);
        id
    }

    /// A code object that a hook has seen for the first time; the record, unless it is defined already.
    pub fn code(&mut self, code: Code) -> Option<Record> {
        let id = code.id;
        let known = *self
            .codes
            .entry(Code {
                id: 0,
                ..code.clone()
            })
            .or_insert(id);
        if known == id {
            return Some(Record::Code(code));
        }
        self.twins.insert(id, known);
        None
    }

    fn define(&mut self, generation: u32, addresses: &[u64]) -> StackId {
        if !self
            .maps
            .iter()
            .rev()
            .any(|map| map.generation == generation)
        {
            for scan in libraries::take_published() {
                self.load(&scan);
            }
        }
        let frames = addresses
            .iter()
            .map(|address| self.frame(generation, *address))
            .collect();
        self.last_stack += 1;
        self.new.push(Record::Stack {
            id: self.last_stack,
            frames,
        });
        self.last_stack
    }

    fn frame(&mut self, generation: u32, word: u64) -> FrameId {
        /// Where Python frames are remembered: no library has this number.
        const PYTHON: LibraryId = LibraryId::MAX;
        let mut numbered = |place: (LibraryId, u64)| {
            let next = self.frames.len() as FrameId + 1;
            let id = *self.frames.entry(place).or_insert(next);
            (id, id == next)
        };
        let address = match words::read(word) {
            Word::Native(address) => address,
            Word::Python { code, line } => {
                let code = self.twins.get(&code).copied().unwrap_or(code);
                let (id, is_new) = numbered((PYTHON, words::frame(code, line)));
                if is_new {
                    self.new.push(Record::PythonFrame { id, code, line });
                }
                return id;
            }
            Word::LeftOut(frames) => {
                let (id, is_new) = numbered((PYTHON, word));
                if is_new {
                    self.new.push(Record::LeftOut { id, frames });
                }
                return id;
            }
        };
        // No other map will do: what lies at the address today may be another library.
        let map = self
            .maps
            .iter()
            .rev()
            .find(|map| map.generation == generation);
        let range = map.and_then(|map| {
            let after = map.ranges.partition_point(|range| range.start <= address);
            map.ranges[..after]
                .last()
                .filter(|range| address < range.end)
                .copied()
        });
        let (library, offset) = match range {
            Some(range) => (range.library, address.wrapping_sub(range.bias)),
            None => (0, address),
        };
        let (id, is_new) = numbered((library, offset));
        if is_new {
            self.new.push(Record::Frame {
                id,
                library,
                offset,
            });
        }
        id
    }

    /// Compares a scan with what was loaded before: defines what came, says what went.
    fn load(&mut self, scan: &Scan) {
        if self
            .maps
            .iter()
            .any(|map| map.generation == scan.generation)
        {
            return;
        }
        let time_ns = super::super::state::last_recorder().map_or(0, Recorder::now);
        let mut now = HashMap::with_capacity(scan.objects.len());
        let mut ranges = Vec::with_capacity(scan.objects.len());
        for object in &scan.objects {
            let key = (
                object.start,
                object.end,
                object.path.clone(),
                object.build_id.clone(),
            );
            let id = match self.libraries.remove(&key) {
                Some(id) => id,
                None => self.came(object, time_ns),
            };
            ranges.push(Range {
                start: object.start,
                end: object.end,
                bias: object.bias,
                library: id,
            });
            now.insert(key, id);
        }
        let mut gone: Vec<_> = std::mem::replace(&mut self.libraries, now)
            .into_values()
            .collect();
        gone.sort_unstable();
        self.new.extend(
            gone.into_iter()
                .map(|id| Record::LibraryGone { id, time_ns }),
        );
        ranges.sort_unstable_by_key(|range| range.start);
        if self.maps.len() == SCANS {
            self.maps.remove(0);
        }
        self.maps.push(Map {
            generation: scan.generation,
            ranges,
        });
    }

    fn came(&mut self, object: &Object, time_ns: u64) -> LibraryId {
        self.last_library += 1;
        let path = match &object.folder {
            _ if object.path.is_empty() => header::executable().to_owned(),
            Some(folder) => {
                let path = object.path.strip_prefix("./").unwrap_or(&object.path);
                format!("{folder}/{path}")
            }
            None => object.path.clone(),
        };
        self.new.push(Record::Library(Library {
            id: self.last_library,
            path,
            build_id: object.build_id.clone(),
            start: object.start,
            end: object.end,
            bias: object.bias,
            time_ns,
        }));
        self.last_library
    }
}
