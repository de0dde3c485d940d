//! Bytes to records. The bytes may be anything: every length and number is checked.

use super::tensor::Before;
use super::{COLUMNS, Column, Column as C, Damage, FIRST_SKIPPABLE_KIND, extension, kind};
use crate::record::{
    Device, EndKind, Event, Library, LiveBlock, Object, Record, Space, ThreadId, What,
};

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// One column of a chunk being read.
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor<'a>(pub(super) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Damage> {
        let (&first, rest) = self.0.split_first().ok_or("a column ends early")?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn varint(&mut self) -> Result<u64, Damage> {
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

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Damage> {
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
    tensor: Before,
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
            tensor: Before::default(),
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
                let mut value = Cursor(self.columns[C::Extension as usize].bytes()?);
                if kind == kind::TENSOR {
                    match self.tensor.decode(&mut value)? {
                        Some(tensor) => return Ok(Some(Record::Tensor(tensor))),
                        None => continue,
                    }
                }
                match extension::decode(kind, value)? {
                    Some(record) => return Ok(Some(record)),
                    None => continue,
                }
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

#[cfg(test)]
mod tests {
    use super::super::Columns;
    use super::*;
    use crate::record::Code;

    /// One chunk of these kinds and their values.
    fn chunk(records: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![COLUMNS as u8, records.len() as u8];
        bytes.extend(records.iter().map(|(kind, _)| *kind));
        bytes.extend([0; COLUMNS - 2]);
        let value = |value: &[u8]| [&[value.len() as u8], value].concat();
        let values: Vec<u8> = records.iter().flat_map(|(_, one)| value(one)).collect();
        bytes.push(values.len() as u8);
        bytes.extend(values);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Vec<Record>, Damage> {
        let mut records = Records::new(bytes)?;
        let mut all = Vec::new();
        while let Some(record) = records.next_record()? {
            all.push(record);
        }
        Ok(all)
    }

    #[test]
    fn what_a_later_version_adds_is_stepped_over() {
        let bytes = chunk(&[
            (200, b"of a kind that is not known"),
            // A value that goes on behind what is known of it.
            (kind::PYTHON_FRAME, &[7, 5, 88, 1, 2, 3]),
            (255, b""),
            (kind::LEFT_OUT, &[8, 12]),
        ]);
        let frame = Record::PythonFrame {
            id: 7,
            code: 5,
            line: 88,
        };
        assert_eq!(
            read(&bytes),
            Ok(vec![frame, Record::LeftOut { id: 8, frames: 12 }])
        );
    }

    #[test]
    fn values_that_end_early_are_damage() {
        let code = Code {
            id: 1,
            file: "a.py".into(),
            name: "f".into(),
            first_line: 2,
        };
        let mut columns = Columns::default();
        columns.put_record(&Record::Code(code.clone()));
        let mut whole = Vec::new();
        columns.finish(&mut whole);
        assert_eq!(read(&whole), Ok(vec![Record::Code(code)]));
        let value = &[1, 2, 4, b'a', b'.', b'p', b'y', 1, b'f'];
        for length in 0..value.len() {
            assert!(read(&chunk(&[(kind::CODE, &value[..length])])).is_err());
        }
        assert!(read(&chunk(&[(kind::CODE, value)])).is_ok());
        // Numbers that do not fit.
        let large = [0xff, 0xff, 0xff, 0xff, 0x7f, 1, 1];
        assert!(read(&chunk(&[(kind::PYTHON_FRAME, &large)])).is_err());
    }
}
