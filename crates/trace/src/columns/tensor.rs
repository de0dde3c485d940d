//! What a framework's cache did, in few bytes: there may be hundreds of millions of these in a trace.
//!
//! ```text
//! value := what time(zig-zag) thread device stack address(zig-zag) bytes { number | allocated(zig-zag) reserved(zig-zag) }
//! ```
//! Time, address and `reserved` are differences to the value of this kind before in the chunk; `allocated` is one to what follows
//! from that and the block's size.

use super::Damage;
use super::put::{put_varint, zigzag};
use super::take::{Cursor, unzigzag};
use crate::told::{Tensor, TensorWhat};

/// The value before, from which differences count; zero at the beginning of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    time: u64,
    address: u64,
    allocated: u64,
    reserved: u64,
}

const ALLOC: u8 = 0;
const FREE: u8 = 1;
const FAILED: u8 = 2;
const LIVE: u8 = 3;

fn difference(now: u64, before: u64) -> u64 {
    zigzag(now.wrapping_sub(before) as i64)
}

impl Before {
    /// What is handed out if nothing else has happened meanwhile.
    fn expected(&self, what: TensorWhat) -> u64 {
        match what {
            TensorWhat::Alloc { bytes, .. } => self.allocated.wrapping_add(bytes),
            TensorWhat::Free { bytes, .. } => self.allocated.wrapping_sub(bytes),
            TensorWhat::Failed { .. } | TensorWhat::Live { .. } => self.allocated,
        }
    }

    /// Appends the value.
    pub fn encode(&mut self, tensor: &Tensor, to: &mut Vec<u8>) {
        let (what, address, bytes) = match tensor.what {
            TensorWhat::Alloc { address, bytes } => (ALLOC, address, bytes),
            TensorWhat::Free { address, bytes } => (FREE, address, bytes),
            TensorWhat::Failed { requested } => (FAILED, self.address, requested),
            TensorWhat::Live { address, bytes, .. } => (LIVE, address, bytes),
        };
        to.push(what);
        put_varint(to, difference(tensor.time_ns, self.time));
        put_varint(to, u64::from(tensor.thread));
        put_varint(to, u64::from(tensor.device));
        put_varint(to, u64::from(tensor.stack));
        put_varint(to, difference(address, self.address));
        put_varint(to, bytes);
        self.time = tensor.time_ns;
        self.address = address;
        if let TensorWhat::Live { number, .. } = tensor.what {
            return put_varint(to, number);
        }
        put_varint(to, difference(tensor.allocated, self.expected(tensor.what)));
        put_varint(to, difference(tensor.reserved, self.reserved));
        self.allocated = tensor.allocated;
        self.reserved = tensor.reserved;
    }

    /// The value back; `None` if it is of a later version.
    pub fn decode(&mut self, value: &mut Cursor<'_>) -> Result<Option<Tensor>, Damage> {
        let what = value.byte()?;
        let difference =
            |value: &mut Cursor<'_>| Ok::<u64, Damage>(unzigzag(value.varint()?) as u64);
        self.time = self.time.wrapping_add(difference(value)?);
        let thread = u32::try_from(value.varint()?).map_err(|_| "a number is out of range")?;
        let device = u8::try_from(value.varint()?).map_err(|_| "an absurd device")?;
        let stack = u32::try_from(value.varint()?).map_err(|_| "a number is out of range")?;
        self.address = self.address.wrapping_add(difference(value)?);
        let (address, bytes) = (self.address, value.varint()?);
        let what = match what {
            ALLOC => TensorWhat::Alloc { address, bytes },
            FREE => TensorWhat::Free { address, bytes },
            FAILED => TensorWhat::Failed { requested: bytes },
            LIVE => TensorWhat::Live {
                address,
                bytes,
                number: value.varint()?,
            },
            _ => return Ok(None),
        };
        let tensor = Tensor {
            time_ns: self.time,
            thread,
            device,
            stack,
            what,
            allocated: 0,
            reserved: 0,
        };
        if matches!(what, TensorWhat::Live { .. }) {
            return Ok(Some(tensor));
        }
        self.allocated = self.expected(what).wrapping_add(difference(value)?);
        self.reserved = self.reserved.wrapping_add(difference(value)?);
        Ok(Some(Tensor {
            allocated: self.allocated,
            reserved: self.reserved,
            ..tensor
        }))
    }
}
