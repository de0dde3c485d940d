//! Records to bytes.

use super::tensor::Before;
use super::{COLUMNS, Column, Column as C, extension, kind};
use crate::record::{Event, Record, What};

/// Records on their way to bytes.
#[derive(Default)]
pub struct Columns {
    columns: [Vec<u8>; COLUMNS],
    time: u64,
    address: u64,
    tensor: Before,
    stack: Vec<u32>,
    /// Of an extension in the making.
    value: Vec<u8>,
    records: usize,
}

pub(super) fn put_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

pub(super) fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
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
        self.tensor = Before::default();
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
            Record::Code(_)
            | Record::PythonFrame { .. }
            | Record::LeftOut { .. }
            | Record::HostMemory(_)
            | Record::Cost(_)
            | Record::Sample(_)
            | Record::Deed(_)
            | Record::PhaseName(_)
            | Record::Phase(_)
            | Record::LogLine(_) => self.put_extension(record),
            Record::Tensor(tensor) => {
                let mut value = std::mem::take(&mut self.value);
                self.tensor.encode(tensor, &mut value);
                self.kind(kind::TENSOR);
                self.put_value(&mut value);
                self.value = value;
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

    /// A value with its length before it, which those can skip who do not know the kind.
    fn put_extension(&mut self, record: &Record) {
        let mut value = std::mem::take(&mut self.value);
        if let Some(kind) = extension::encode(record, &mut value) {
            self.kind(kind);
            self.put_value(&mut value);
        }
        self.value = value;
    }

    fn put_value(&mut self, value: &mut Vec<u8>) {
        let column = &mut self.columns[C::Extension as usize];
        put_varint(column, value.len() as u64);
        column.append(value);
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
