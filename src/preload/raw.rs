//! The event as it travels through the channel: 64 bytes, no pointer to anything that another thread may free.

use oomhook_trace::{Record, Space};

/// What kind of event; the meaning of the number fields follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// a = address, b = bytes, c = requested, d = context (with `FROM_POOL`: the pool), e = stream.
    Alloc,
    /// a = requested, b = free, c = total, d = code, e = address of a range to be registered, `KNOWN_*` flags.
    AllocFailed,
    /// a = address, e = stream.
    Free,
    /// a = address, b = code.
    Undo,
    NullFree,
    ZeroSize,
    /// a = handle.
    Retain,
    /// a = address, b = bytes, c = handle, d = offset.
    Map,
    /// a = address, b = bytes.
    Unmap,
    /// a = context, b = explicit.
    ContextCreate,
    /// a = context.
    ContextDestroy,
    Reset,
    /// a = handle, b = bytes; the space field holds the kind of object.
    Created,
    /// a = handle; the space field holds the kind of object.
    Destroyed,
    /// a = address, b = bytes, c = captured.
    GraphAlloc,
    /// a = address, c = captured.
    GraphFree,
    /// a = used, b = used high, c = reserved, d = reserved high.
    GraphMemory,
    /// a = ok.
    CaptureEnd,
    /// a = limit, b = value.
    Limit,
    /// a = bytes (signed), b = kind of cost, c = estimated.
    Cost,
    /// a = subject, b = value, c = other, d = kind of deed.
    Deed,
    /// Name of the thread in a and b, tid in c.
    Thread,
    /// Name of the thread in a and b.
    ThreadExit,
    /// a = address, b = bytes, c = allocated, d = reserved: a framework's cache handed out a block.
    TensorAlloc,
    /// The same: it took one back.
    TensorFree,
    /// b = requested, c = allocated, d = reserved: it gave up.
    TensorFailed,
    /// a = name, b = domain: a range begins in the thread.
    PhasePush,
    /// b = domain: the innermost one ends.
    PhasePop,
    /// a = name, b = range: a range begins that any thread may end.
    PhaseStart,
    /// b = range: it ends.
    PhaseEnd,
    /// a = name.
    PhaseMark,
    /// a = room, b = bytes, c = bytes skipped; the device field holds the stream: the program wrote something.
    Output,
    /// a = a leaked `Box<Record>`, for what is rare and large.
    Boxed,
}

/// `Raw::flags`: requested bytes are known.
pub const KNOWN_REQUESTED: u8 = 1;
/// `Raw::flags`: free and total bytes of the device are known.
pub const KNOWN_FREE: u8 = 2;
/// `Raw::flags`: the block belongs to a pool, not to a context.
pub const FROM_POOL: u8 = 4;

/// No device, or not known.
pub const NO_DEVICE: u8 = u8::MAX;

/// One event on its way to the writer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Raw {
    pub time_ns: u64,
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
    pub e: u64,
    /// Stack reference of the intern table; 0 for none.
    pub stack: u32,
    pub thread: u32,
    /// Row number of the call plus one; 0 for none.
    pub call: u16,
    pub kind: Kind,
    /// `Space as u8`, or 0.
    pub space: u8,
    pub device: u8,
    pub flags: u8,
    pub spare: u16,
}

const _: () = assert!(size_of::<Raw>() == 64);

impl Raw {
    /// An event of this kind with nothing else in it.
    pub const fn new(kind: Kind) -> Raw {
        Raw {
            time_ns: 0,
            a: 0,
            b: 0,
            c: 0,
            d: 0,
            e: 0,
            stack: 0,
            thread: 0,
            call: 0,
            kind,
            space: 0,
            device: NO_DEVICE,
            flags: 0,
            spare: 0,
        }
    }

    /// A record that is too rare or too large for the fields; its numbers (thread, device) are final.
    pub fn boxed(record: Record) -> Raw {
        let record = Box::into_raw(Box::new(record));
        Raw {
            a: record.expose_provenance() as u64,
            ..Raw::new(Kind::Boxed)
        }
    }

    /// Takes the record of a boxed event back.
    ///
    /// # Safety
    /// `self` was made by [`Raw::boxed`] and this is the only call for it.
    pub unsafe fn unbox(&self) -> Record {
        let record = std::ptr::with_exposed_provenance_mut::<Record>(self.a as usize);
        // SAFETY: `boxed` leaked it, and by the contract nobody has taken it back yet.
        *unsafe { Box::from_raw(record) }
    }

    /// The space, if one is set.
    pub fn space(&self) -> Option<Space> {
        Space::from_wire(u64::from(self.space))
    }
}

/// A thread's name (15 bytes at most, as the kernel keeps it) in two numbers.
pub fn pack_name(name: &[u8; 16]) -> (u64, u64) {
    let (low, high) = name.split_at(8);
    let number = |half: &[u8]| {
        half.iter()
            .rev()
            .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    (number(low), number(high))
}

/// The name back from its two numbers.
pub fn unpack_name(low: u64, high: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    let length = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_packing() {
        for name in ["", "a", "pt_autograd_0", "fifteen-letters"] {
            let mut bytes = [0; 16];
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            let (low, high) = pack_name(&bytes);
            assert_eq!(unpack_name(low, high), name);
        }
    }

    #[test]
    fn a_boxed_record_comes_back() {
        let record = Record::Note {
            time_ns: 7,
            text: "x".into(),
        };
        let raw = Raw::boxed(record.clone());
        // SAFETY: made by `boxed` just above, taken once.
        assert_eq!(unsafe { raw.unbox() }, record);
    }
}
