//! Names, libraries, frames, stacks, threads and devices, as the trace defines them.

use crate::hash::Map;
use oomhook_trace::record::{CallId, Code, CodeId, Device, Library};
use oomhook_trace::{FrameId, LibraryId, Record, StackId, ThreadId};

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// A return address.
    Native {
        /// Its library; 0 if it lay in none.
        library: LibraryId,
        /// ELF address inside the library, or the raw address.
        offset: u64,
    },
    /// A line of Python.
    Python {
        /// What it runs.
        code: CodeId,
        /// The line; 0 if it has none.
        line: u32,
    },
    /// So many Python frames were left out here.
    LeftOut(u64),
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's thread id.
    pub tid: u32,
    /// Its latest name.
    pub name: String,
    /// It has ended.
    pub exited: bool,
}

/// All definitions so far.
#[derive(Clone, Default)]
pub struct Definitions {
    calls: Map<CallId, String>,
    libraries: Map<LibraryId, (Library, Option<u64>)>,
    codes: Map<CodeId, Code>,
    frames: Map<FrameId, Frame>,
    // Frames of all stacks, one stack after the other.
    stack_frames: Vec<FrameId>,
    stacks: Map<StackId, (u32, u32)>,
    threads: Map<ThreadId, Thread>,
    devices: Vec<Device>,
}

impl Definitions {
    /// Takes in a definition; false if the record is none.
    pub fn define(&mut self, record: &Record) -> bool {
        match record {
            Record::Call { id, name } => {
                self.calls.insert(*id, name.clone());
            }
            Record::Library(library) => {
                self.libraries.insert(library.id, (library.clone(), None));
            }
            Record::LibraryGone { id, time_ns } => {
                if let Some((_, gone)) = self.libraries.get_mut(id) {
                    *gone = Some(*time_ns);
                }
            }
            Record::Frame {
                id,
                library,
                offset,
            } => {
                let frame = Frame::Native {
                    library: *library,
                    offset: *offset,
                };
                self.frames.insert(*id, frame);
            }
            Record::Code(code) => {
                self.codes.insert(code.id, code.clone());
            }
            Record::PythonFrame { id, code, line } => {
                let frame = Frame::Python {
                    code: *code,
                    line: *line,
                };
                self.frames.insert(*id, frame);
            }
            Record::LeftOut { id, frames } => {
                self.frames.insert(*id, Frame::LeftOut(*frames));
            }
            Record::Stack { id, frames } => {
                let at = self.stack_frames.len() as u32;
                self.stack_frames.extend_from_slice(frames);
                self.stacks.insert(*id, (at, frames.len() as u32));
            }
            Record::Thread { id, tid, name } => {
                let thread = self.threads.entry(*id).or_default();
                thread.tid = *tid;
                thread.name.clone_from(name);
            }
            Record::Device(device) => {
                let known = self
                    .devices
                    .iter_mut()
                    .find(|known| known.ordinal == device.ordinal);
                match known {
                    Some(known) => *known = device.clone(),
                    None => self.devices.push(device.clone()),
                }
            }
            Record::Note { .. }
            | Record::HostMemory(_)
            | Record::Cost(_)
            | Record::Sample(_)
            | Record::Deed(_)
            | Record::Tensor(_)
            | Record::PhaseName(_)
            | Record::Phase(_)
            | Record::LogLine(_)
            | Record::Event(_) => return false,
        }
        true
    }

    pub(crate) fn thread_exited(&mut self, id: ThreadId, name: &str) {
        let thread = self.threads.entry(id).or_default();
        thread.exited = true;
        if !name.is_empty() {
            name.clone_into(&mut thread.name);
        }
    }

    /// A call's name.
    #[must_use]
    pub fn call(&self, id: CallId) -> Option<&str> {
        self.calls.get(&id).map(String::as_str)
    }

    /// A library, also one that is gone.
    #[must_use]
    pub fn library(&self, id: LibraryId) -> Option<&Library> {
        self.libraries.get(&id).map(|(library, _)| library)
    }

    /// Every library, in order of their numbers.
    #[must_use]
    pub fn libraries(&self) -> Vec<&Library> {
        let mut all: Vec<&Library> = self
            .libraries
            .values()
            .map(|(library, _)| library)
            .collect();
        all.sort_unstable_by_key(|library| library.id);
        all
    }

    /// A code object of Python.
    #[must_use]
    pub fn code(&self, id: CodeId) -> Option<&Code> {
        self.codes.get(&id)
    }

    /// A frame.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(&id).copied()
    }

    /// Every stack.
    pub fn stacks(&self) -> impl Iterator<Item = &[FrameId]> {
        self.stacks.keys().map(|id| self.stack(*id))
    }

    /// The frames of a stack, innermost first; empty if there is no such stack.
    #[must_use]
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        let range = self.stacks.get(&id);
        let frames = range.and_then(|(at, length)| {
            let at = *at as usize;
            self.stack_frames.get(at..at + *length as usize)
        });
        frames.unwrap_or_default()
    }

    /// A thread.
    #[must_use]
    pub fn thread(&self, id: ThreadId) -> Option<&Thread> {
        self.threads.get(&id)
    }

    /// Every device, in order of appearance.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// A device by its ordinal.
    #[must_use]
    pub fn device(&self, ordinal: u8) -> Option<&Device> {
        self.devices
            .iter()
            .find(|device| device.ordinal == u32::from(ordinal))
    }

    /// Every definition as a record; what others need comes first.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let calls = self.calls.iter().map(|(id, name)| Record::Call {
            id: *id,
            name: name.clone(),
        });
        let libraries = self.libraries.values().flat_map(|(library, gone)| {
            let gone = gone.map(|time_ns| Record::LibraryGone {
                id: library.id,
                time_ns,
            });
            std::iter::once(Record::Library(library.clone())).chain(gone)
        });
        let codes = self.codes.values().cloned().map(Record::Code);
        let frames = self.frames.iter().map(|(id, frame)| match *frame {
            Frame::Native { library, offset } => Record::Frame {
                id: *id,
                library,
                offset,
            },
            Frame::Python { code, line } => Record::PythonFrame {
                id: *id,
                code,
                line,
            },
            Frame::LeftOut(frames) => Record::LeftOut { id: *id, frames },
        });
        let stacks = self.stacks.keys().map(|id| Record::Stack {
            id: *id,
            frames: self.stack(*id).to_vec(),
        });
        let threads = self.threads.iter().map(|(id, thread)| Record::Thread {
            id: *id,
            tid: thread.tid,
            name: thread.name.clone(),
        });
        let devices = self.devices.iter().cloned().map(Record::Device);
        calls
            .chain(libraries)
            .chain(codes)
            .chain(frames)
            .chain(stacks)
            .chain(threads)
            .chain(devices)
    }

    /// Threads that have ended.
    pub(crate) fn exited(&self) -> Vec<ThreadId> {
        let threads = self.threads.iter();
        threads
            .filter(|(_, thread)| thread.exited)
            .map(|(id, _)| *id)
            .collect()
    }
}
