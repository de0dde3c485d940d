//! Records to bytes and back, column by column: every field of one kind lies beside its like, which zstd rewards.
//!
//! ```text
//! records := columns(varint = 14) { length(varint) bytes }*
//! ```
//!
//! The `kind` column holds one byte a record, in order; what a record takes from which other column follows from its
//! kind, as written in [`put`] and [`take`]. Numbers are LEB128 varints; times and addresses are zig-zag differences
//! to the record before, starting from 0 in each chunk, so that a chunk can be read alone.
//!
//! Growing the format: a reader cannot step over a kind below 128 that it does not know, so that range is closed. New
//! kinds are 128 or above and put one length-prefixed value into the `Extension` column and nothing elsewhere: older
//! readers skip them. Columns may be added at the end.

use crate::record::{
    Device, EndKind, Event, Library, LiveBlock, Object, Record, Space, ThreadId, What,
};

/// The columns of a chunk, in order.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Column {
    Kind,
    Time,
    Thread,
    Device,
    Call,
    Stack,
    Address,
    Bytes,
    Requested,
    Context,
    Stream,
    Other,
    Text,
    Extension,
}
use Column as C;

const COLUMNS: usize = 14;

/// Kinds from here on carry their own length (see the module's page).
pub const FIRST_SKIPPABLE_KIND: u8 = 128;

mod kind {
    pub const CALL: u8 = 1;
    pub const LIBRARY: u8 = 2;
    pub const LIBRARY_GONE: u8 = 3;
    pub const FRAME: u8 = 4;
    pub const STACK: u8 = 5;
    pub const THREAD: u8 = 6;
    pub const DEVICE: u8 = 7;
    pub const NOTE: u8 = 8;
    pub const ALLOC: u8 = 16;
    pub const ALLOC_FAILED: u8 = 17;
    pub const FREE: u8 = 18;
    pub const UNDO: u8 = 19;
    pub const NULL_FREE: u8 = 20;
    pub const ZERO_SIZE: u8 = 21;
    pub const RETAIN: u8 = 22;
    pub const MAP: u8 = 23;
    pub const UNMAP: u8 = 24;
    pub const CONTEXT_CREATE: u8 = 25;
    pub const CONTEXT_DESTROY: u8 = 26;
    pub const RESET: u8 = 27;
    pub const POOL_STATE: u8 = 28;
    pub const THREAD_EXIT: u8 = 29;
    pub const END: u8 = 30;
    pub const LIVE: u8 = 31;
    pub const CREATED: u8 = 32;
    pub const DESTROYED: u8 = 33;
    pub const GRAPH_ALLOC: u8 = 34;
    pub const GRAPH_FREE: u8 = 35;
    pub const GRAPH_MEMORY: u8 = 36;
    pub const CAPTURE_END: u8 = 37;
    pub const LIMIT: u8 = 38;
}

/// Why bytes are no records: a fixed phrase for the report.
pub type Damage = &'static str;

/// Records on their way to bytes.
#[derive(Default)]
pub struct Columns {
    columns: [Vec<u8>; COLUMNS],
    time: u64,
    address: u64,
    stack: Vec<u32>,
    records: usize,
}

fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

impl Columns {
    /// Records put since the last [`Columns::finish`].
    #[must_use]
    pub fn records(&self) -> usize {
        self.records
    }

    /// Bytes they take before compression.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.iter().map(Vec::len).sum()
    }

    /// True when nothing was put.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Writes the columns to `to` and starts anew.
    pub fn finish(&mut self, to: &mut Vec<u8>) {
        put_varint(to, COLUMNS as u64);
        for column in &mut self.columns {
            put_varint(to, column.len() as u64);
            to.extend_from_slice(column);
            column.clear();
        }
        self.time = 0;
        self.address = 0;
        self.stack.clear();
        self.records = 0;
    }

    fn kind(&mut self, kind: u8) {
        self.columns[C::Kind as usize].push(kind);
    }

    fn put(&mut self, column: Column, value: u64) {
        put_varint(&mut self.columns[column as usize], value);
    }

    fn put_time(&mut self, time: u64) {
        self.put(C::Time, zigzag(time.wrapping_sub(self.time) as i64));
        self.time = time;
    }

    fn put_address(&mut self, address: u64) {
        self.put(
            C::Address,
            zigzag(address.wrapping_sub(self.address) as i64),
        );
        self.address = address;
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put(C::Text, bytes.len() as u64);
        self.columns[C::Text as usize].extend_from_slice(bytes);
    }

    fn put_optional(&mut self, value: Option<u64>) {
        self.put(C::Other, u64::from(value.is_some()));
        if let Some(value) = value {
            self.put(C::Other, value);
        }
    }

    /// Adds one record.
    pub fn put_record(&mut self, record: &Record) {
        self.records += 1;
        match record {
            Record::Call { id, name } => {
                self.kind(kind::CALL);
                self.put(C::Call, u64::from(*id));
                self.put_bytes(name.as_bytes());
            }
            Record::Library(library) => {
                self.kind(kind::LIBRARY);
                self.put_time(library.time_ns);
                self.put(C::Other, u64::from(library.id));
                self.put_bytes(library.path.as_bytes());
                self.put_bytes(&library.build_id);
                self.put(C::Other, library.start);
                self.put(C::Other, library.end.wrapping_sub(library.start));
                self.put(C::Other, library.start.wrapping_sub(library.bias));
            }
            Record::LibraryGone { id, time_ns } => {
                self.kind(kind::LIBRARY_GONE);
                self.put_time(*time_ns);
                self.put(C::Other, u64::from(*id));
            }
            Record::Frame {
                id,
                library,
                offset,
            } => {
                self.kind(kind::FRAME);
                self.put(C::Other, u64::from(*id));
                self.put(C::Other, u64::from(*library));
                self.put(C::Other, *offset);
            }
            Record::Stack { id, frames } => self.put_stack(*id, frames),
            Record::Thread { id, tid, name } => {
                self.kind(kind::THREAD);
                self.put(C::Thread, u64::from(*id));
                self.put(C::Other, u64::from(*tid));
                self.put_bytes(name.as_bytes());
            }
            Record::Device(device) => {
                self.kind(kind::DEVICE);
                self.put(C::Other, u64::from(device.ordinal));
                self.put_bytes(&device.uuid);
                self.put_bytes(device.name.as_bytes());
                self.put_bytes(device.pci_bus_id.as_bytes());
                self.put(C::Other, device.total_bytes);
            }
            Record::Note { time_ns, text } => {
                self.kind(kind::NOTE);
                self.put_time(*time_ns);
                self.put_bytes(text.as_bytes());
            }
            Record::Event(event) => self.put_event(event),
        }
    }

    /// Stacks share their outer frames with the stack defined before: only the number of shared frames is written.
    fn put_stack(&mut self, id: u32, frames: &[u32]) {
        let shared = frames
            .iter()
            .rev()
            .zip(self.stack.iter().rev())
            .take_while(|(a, b)| a == b)
            .count();
        let own = &frames[..frames.len() - shared];
        self.kind(kind::STACK);
        self.put(C::Stack, u64::from(id));
        self.put(C::Other, shared as u64);
        self.put(C::Other, own.len() as u64);
        for frame in own {
            self.put(C::Other, u64::from(*frame));
        }
        self.stack.clear();
        self.stack.extend_from_slice(frames);
    }

    fn put_event(&mut self, event: &Event) {
        self.put_time(event.time_ns);
        self.put(C::Thread, u64::from(event.thread));
        self.put(
            C::Device,
            event.device.map_or(0, |device| u64::from(device) + 1),
        );
        self.put(C::Call, u64::from(event.call));
        self.put(C::Stack, u64::from(event.stack));
        match &event.what {
            What::Alloc {
                space,
                address,
                bytes,
                requested,
                context,
                stream,
                pool,
            } => {
                self.kind(kind::ALLOC);
                self.put(C::Other, *space as u64);
                self.put_address(*address);
                self.put(C::Bytes, *bytes);
                self.put(C::Requested, zigzag(requested.wrapping_sub(*bytes) as i64));
                self.put(C::Context, *context);
                self.put(C::Stream, *stream);
                self.put(C::Context, *pool);
            }
            What::AllocFailed {
                space,
                requested,
                code,
                free,
                total,
                address,
            } => {
                self.kind(kind::ALLOC_FAILED);
                self.put(C::Other, space.map_or(0, |space| space as u64));
                self.put_optional(*requested);
                self.put(C::Other, u64::from(*code));
                self.put_optional(*free);
                self.put_optional(*total);
                self.put_optional(*address);
            }
            What::Free {
                space,
                address,
                stream,
            } => {
                self.kind(kind::FREE);
                self.put(C::Other, *space as u64);
                self.put_address(*address);
                self.put(C::Stream, *stream);
            }
            What::Undo { address, code } => {
                self.kind(kind::UNDO);
                self.put_address(*address);
                self.put(C::Other, u64::from(*code));
            }
            What::NullFree => self.kind(kind::NULL_FREE),
            What::ZeroSize => self.kind(kind::ZERO_SIZE),
            What::Retain { handle } => {
                self.kind(kind::RETAIN);
                self.put_address(*handle);
            }
            What::Map {
                address,
                bytes,
                handle,
                offset,
            } => {
                self.kind(kind::MAP);
                self.put_address(*address);
                self.put(C::Bytes, *bytes);
                self.put_address(*handle);
                self.put(C::Other, *offset);
            }
            What::Unmap { address, bytes } => {
                self.kind(kind::UNMAP);
                self.put_address(*address);
                self.put(C::Bytes, *bytes);
            }
            What::ContextCreate { context, explicit } => {
                self.kind(kind::CONTEXT_CREATE);
                self.put(C::Context, *context);
                self.put(C::Other, u64::from(*explicit));
            }
            What::ContextDestroy { context } => {
                self.kind(kind::CONTEXT_DESTROY);
                self.put(C::Context, *context);
            }
            What::Reset => self.kind(kind::RESET),
            What::PoolState {
                pool,
                used,
                used_high,
                reserved,
                reserved_high,
                threshold,
            } => {
                self.kind(kind::POOL_STATE);
                self.put(C::Context, *pool);
                for value in [used, used_high, reserved, reserved_high, threshold] {
                    self.put(C::Other, *value);
                }
            }
            What::Created {
                object,
                handle,
                bytes,
            } => {
                self.kind(kind::CREATED);
                self.put(C::Other, *object as u64);
                self.put_address(*handle);
                self.put(C::Bytes, *bytes);
            }
            What::Destroyed { object, handle } => {
                self.kind(kind::DESTROYED);
                self.put(C::Other, *object as u64);
                self.put_address(*handle);
            }
            What::GraphAlloc {
                address,
                bytes,
                captured,
            } => {
                self.kind(kind::GRAPH_ALLOC);
                self.put_address(*address);
                self.put(C::Bytes, *bytes);
                self.put(C::Other, u64::from(*captured));
            }
            What::GraphFree { address, captured } => {
                self.kind(kind::GRAPH_FREE);
                self.put_address(*address);
                self.put(C::Other, u64::from(*captured));
            }
            What::GraphMemory {
                used,
                used_high,
                reserved,
                reserved_high,
            } => {
                self.kind(kind::GRAPH_MEMORY);
                for value in [used, used_high, reserved, reserved_high] {
                    self.put(C::Other, *value);
                }
            }
            What::CaptureEnd { ok } => {
                self.kind(kind::CAPTURE_END);
                self.put(C::Other, u64::from(*ok));
            }
            What::Limit { limit, value } => {
                self.kind(kind::LIMIT);
                self.put(C::Other, u64::from(*limit));
                self.put(C::Other, *value);
            }
            What::ThreadExit { name } => {
                self.kind(kind::THREAD_EXIT);
                self.put_bytes(name.as_bytes());
            }
            What::End { kind, code, signal } => {
                self.kind(kind::END);
                self.put(C::Other, *kind as u64);
                self.put_optional(code.map(u64::from));
                self.put_optional(signal.map(u64::from));
            }
            What::Live(block) => {
                self.kind(kind::LIVE);
                self.put(C::Other, block.space as u64);
                self.put_address(block.address);
                self.put(C::Bytes, block.bytes);
                self.put(
                    C::Requested,
                    zigzag(block.requested.wrapping_sub(block.bytes) as i64),
                );
                self.put(C::Context, block.context);
                self.put(C::Stream, block.stream);
                self.put(C::Other, block.number);
                self.put(C::Other, u64::from(block.references));
            }
        }
    }
}

/// One column of a chunk being read.
#[derive(Clone, Copy, Default)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn byte(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.0.split_first().ok_or("a column ends early")?;
        self.0 = rest;
        Ok(first)
    }

    fn varint(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err("a number is too large");
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number is too long")
    }

    fn bytes(&mut self) -> Result<&'a [u8], Damage> {
        let length = usize::try_from(self.varint()?).map_err(|_| "a length is absurd")?;
        if length > self.0.len() {
            return Err("a text ends early");
        }
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }
}

/// The records of one chunk, read one after the other.
pub struct Records<'a> {
    columns: [Cursor<'a>; COLUMNS],
    time: u64,
    address: u64,
    stack: Vec<u32>,
}

impl<'a> Records<'a> {
    /// Looks at the column table of `bytes`.
    ///
    /// # Errors
    /// When the table does not fit the bytes.
    pub fn new(bytes: &'a [u8]) -> Result<Records<'a>, Damage> {
        let mut cursor = Cursor(bytes);
        let count = cursor.varint()?;
        if count < COLUMNS as u64 || count > 1024 {
            return Err("the column table is unknown");
        }
        let mut columns = [Cursor::default(); COLUMNS];
        for index in 0..count as usize {
            let column = cursor.bytes()?;
            if let Some(slot) = columns.get_mut(index) {
                *slot = Cursor(column);
            }
        }
        Ok(Records {
            columns,
            time: 0,
            address: 0,
            stack: Vec::new(),
        })
    }

    fn take(&mut self, column: Column) -> Result<u64, Damage> {
        self.columns[column as usize].varint()
    }

    fn small<T: TryFrom<u64>>(&mut self, column: Column) -> Result<T, Damage> {
        T::try_from(self.take(column)?).map_err(|_| "a number is out of range")
    }

    fn take_time(&mut self) -> Result<u64, Damage> {
        let difference = unzigzag(self.take(C::Time)?);
        self.time = self.time.wrapping_add(difference as u64);
        Ok(self.time)
    }

    fn take_address(&mut self) -> Result<u64, Damage> {
        let difference = unzigzag(self.take(C::Address)?);
        self.address = self.address.wrapping_add(difference as u64);
        Ok(self.address)
    }

    fn take_bytes(&mut self) -> Result<&'a [u8], Damage> {
        self.columns[C::Text as usize].bytes()
    }

    fn take_text(&mut self) -> Result<String, Damage> {
        Ok(String::from_utf8_lossy(self.take_bytes()?).into_owned())
    }

    fn take_optional(&mut self) -> Result<Option<u64>, Damage> {
        Ok(if self.take(C::Other)? == 0 {
            None
        } else {
            Some(self.take(C::Other)?)
        })
    }

    fn take_space(&mut self) -> Result<Space, Damage> {
        Space::from_wire(self.take(C::Other)?).ok_or("an unknown space")
    }

    fn take_object(&mut self) -> Result<Object, Damage> {
        Object::from_wire(self.take(C::Other)?).ok_or("an unknown kind of object")
    }

    /// `value` given as a zig-zag difference to `base`.
    fn take_requested(&mut self, base: u64) -> Result<u64, Damage> {
        Ok(base.wrapping_add(unzigzag(self.take(C::Requested)?) as u64))
    }

    /// The next record, or `None` at the end of the chunk.
    ///
    /// # Errors
    /// When the bytes are no record; nothing after that can be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, Damage> {
        loop {
            if self.columns[C::Kind as usize].0.is_empty() {
                return Ok(None);
            }
            let kind = self.columns[C::Kind as usize].byte()?;
            if kind >= FIRST_SKIPPABLE_KIND {
                self.columns[C::Extension as usize].bytes()?;
                continue;
            }
            return self.record(kind).map(Some);
        }
    }

    fn record(&mut self, kind: u8) -> Result<Record, Damage> {
        Ok(match kind {
            kind::CALL => Record::Call {
                id: self.small(C::Call)?,
                name: self.take_text()?,
            },
            kind::LIBRARY => {
                let time_ns = self.take_time()?;
                let id = self.small(C::Other)?;
                let path = self.take_text()?;
                let build_id = self.take_bytes()?.to_vec();
                let start = self.take(C::Other)?;
                let end = start.wrapping_add(self.take(C::Other)?);
                let bias = start.wrapping_sub(self.take(C::Other)?);
                Record::Library(Library {
                    id,
                    path,
                    build_id,
                    start,
                    end,
                    bias,
                    time_ns,
                })
            }
            kind::LIBRARY_GONE => {
                let time_ns = self.take_time()?;
                Record::LibraryGone {
                    id: self.small(C::Other)?,
                    time_ns,
                }
            }
            kind::FRAME => Record::Frame {
                id: self.small(C::Other)?,
                library: self.small(C::Other)?,
                offset: self.take(C::Other)?,
            },
            kind::STACK => self.take_stack()?,
            kind::THREAD => Record::Thread {
                id: self.small(C::Thread)?,
                tid: self.small(C::Other)?,
                name: self.take_text()?,
            },
            kind::DEVICE => Record::Device(Device {
                ordinal: self.small(C::Other)?,
                uuid: self.take_bytes()?.to_vec(),
                name: self.take_text()?,
                pci_bus_id: self.take_text()?,
                total_bytes: self.take(C::Other)?,
            }),
            kind::NOTE => Record::Note {
                time_ns: self.take_time()?,
                text: self.take_text()?,
            },
            _ => Record::Event(self.event(kind)?),
        })
    }

    fn take_stack(&mut self) -> Result<Record, Damage> {
        let id = self.small(C::Stack)?;
        let shared: usize = self.small(C::Other)?;
        let own: usize = self.small(C::Other)?;
        if shared > self.stack.len() || own > self.columns[C::Other as usize].0.len() {
            return Err("a stack is absurd");
        }
        let mut frames = Vec::with_capacity(own + shared);
        for _ in 0..own {
            frames.push(self.small(C::Other)?);
        }
        frames.extend_from_slice(&self.stack[self.stack.len() - shared..]);
        self.stack.clone_from(&frames);
        Ok(Record::Stack { id, frames })
    }

    fn event(&mut self, kind: u8) -> Result<Event, Damage> {
        let time_ns = self.take_time()?;
        let thread: ThreadId = self.small(C::Thread)?;
        let device = match self.take(C::Device)? {
            0 => None,
            number => Some(u8::try_from(number - 1).map_err(|_| "an absurd device")?),
        };
        let call = self.small(C::Call)?;
        let stack = self.small(C::Stack)?;
        let what = match kind {
            kind::ALLOC => {
                let space = self.take_space()?;
                let address = self.take_address()?;
                let bytes = self.take(C::Bytes)?;
                let requested = self.take_requested(bytes)?;
                let context = self.take(C::Context)?;
                let stream = self.take(C::Stream)?;
                let pool = self.take(C::Context)?;
                What::Alloc {
                    space,
                    address,
                    bytes,
                    requested,
                    context,
                    stream,
                    pool,
                }
            }
            kind::ALLOC_FAILED => What::AllocFailed {
                space: match self.take(C::Other)? {
                    0 => None,
                    number => Some(Space::from_wire(number).ok_or("an unknown space")?),
                },
                requested: self.take_optional()?,
                code: self.small(C::Other)?,
                free: self.take_optional()?,
                total: self.take_optional()?,
                address: self.take_optional()?,
            },
            kind::FREE => What::Free {
                space: self.take_space()?,
                address: self.take_address()?,
                stream: self.take(C::Stream)?,
            },
            kind::UNDO => What::Undo {
                address: self.take_address()?,
                code: self.small(C::Other)?,
            },
            kind::NULL_FREE => What::NullFree,
            kind::ZERO_SIZE => What::ZeroSize,
            kind::RETAIN => What::Retain {
                handle: self.take_address()?,
            },
            kind::MAP => What::Map {
                address: self.take_address()?,
                bytes: self.take(C::Bytes)?,
                handle: self.take_address()?,
                offset: self.take(C::Other)?,
            },
            kind::UNMAP => What::Unmap {
                address: self.take_address()?,
                bytes: self.take(C::Bytes)?,
            },
            kind::CONTEXT_CREATE => What::ContextCreate {
                context: self.take(C::Context)?,
                explicit: self.take(C::Other)? != 0,
            },
            kind::CONTEXT_DESTROY => What::ContextDestroy {
                context: self.take(C::Context)?,
            },
            kind::RESET => What::Reset,
            kind::POOL_STATE => What::PoolState {
                pool: self.take(C::Context)?,
                used: self.take(C::Other)?,
                used_high: self.take(C::Other)?,
                reserved: self.take(C::Other)?,
                reserved_high: self.take(C::Other)?,
                threshold: self.take(C::Other)?,
            },
            kind::CREATED => What::Created {
                object: self.take_object()?,
                handle: self.take_address()?,
                bytes: self.take(C::Bytes)?,
            },
            kind::DESTROYED => What::Destroyed {
                object: self.take_object()?,
                handle: self.take_address()?,
            },
            kind::GRAPH_ALLOC => What::GraphAlloc {
                address: self.take_address()?,
                bytes: self.take(C::Bytes)?,
                captured: self.take(C::Other)? != 0,
            },
            kind::GRAPH_FREE => What::GraphFree {
                address: self.take_address()?,
                captured: self.take(C::Other)? != 0,
            },
            kind::GRAPH_MEMORY => What::GraphMemory {
                used: self.take(C::Other)?,
                used_high: self.take(C::Other)?,
                reserved: self.take(C::Other)?,
                reserved_high: self.take(C::Other)?,
            },
            kind::CAPTURE_END => What::CaptureEnd {
                ok: self.take(C::Other)? != 0,
            },
            kind::LIMIT => What::Limit {
                limit: self.small(C::Other)?,
                value: self.take(C::Other)?,
            },
            kind::THREAD_EXIT => What::ThreadExit {
                name: self.take_text()?,
            },
            kind::END => self.take_end()?,
            kind::LIVE => self.take_live()?,
            _ => return Err("a record of an unknown kind"),
        };
        Ok(Event {
            time_ns,
            thread,
            device,
            call,
            stack,
            what,
        })
    }

    fn take_end(&mut self) -> Result<What, Damage> {
        let kind = match self.take(C::Other)? {
            1 => EndKind::Exit,
            2 => EndKind::ImmediateExit,
            3 => EndKind::Signal,
            4 => EndKind::Exec,
            _ => return Err("an unknown end"),
        };
        let code = self.take_optional()?.map(|code| code as u8);
        let signal = self.take_optional()?.map(|signal| signal as u8);
        Ok(What::End { kind, code, signal })
    }

    fn take_live(&mut self) -> Result<What, Damage> {
        let space = self.take_space()?;
        let address = self.take_address()?;
        let bytes = self.take(C::Bytes)?;
        Ok(What::Live(LiveBlock {
            space,
            address,
            bytes,
            requested: self.take_requested(bytes)?,
            context: self.take(C::Context)?,
            stream: self.take(C::Stream)?,
            number: self.take(C::Other)?,
            references: self.small(C::Other)?,
        }))
    }
}
