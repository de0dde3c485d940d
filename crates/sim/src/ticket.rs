//! What one simulated process hands to another: 64 bytes, as a handle or as the contents of a file.

use crate::abi::Location;

/// `CUipcMemHandle`, `CUipcEventHandle`, `CUmemPoolPtrExportData`.
pub type Bytes = [u8; 64];

const MAGIC: &[u8; 8] = b"oomhksim";

/// What a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Memory = 1,
    Event,
    Pool,
    Pointer,
    Physical,
    Multicast,
    Range,
}

/// A description of something that belongs to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub kind: Kind,
    pub process: u32,
    /// What it is there: a handle that never comes twice.
    pub object: u64,
    pub address: u64,
    pub size: u64,
    pub location: Location,
    /// Types of handles that the object may be exported as.
    pub handle_types: u32,
}

impl Ticket {
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(MAGIC);
        for (at, number) in [
            (8, self.kind as u32),
            (12, self.process),
            (16, self.handle_types),
            (20, self.location.kind as u32),
            (24, self.location.id as u32),
        ] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (at, number) in [(32, self.object), (40, self.address), (48, self.size)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads a ticket; anything else is none.
    pub fn from_bytes(bytes: &Bytes) -> Option<Ticket> {
        let short = |at: usize| Some(u32::from_le_bytes(bytes[at..at + 4].try_into().ok()?));
        let long = |at: usize| Some(u64::from_le_bytes(bytes[at..at + 8].try_into().ok()?));
        let kinds = [
            Kind::Memory,
            Kind::Event,
            Kind::Pool,
            Kind::Pointer,
            Kind::Physical,
            Kind::Multicast,
            Kind::Range,
        ];
        let number = short(8)?;
        let kind = kinds.into_iter().find(|&kind| kind as u32 == number)?;
        let ticket = Ticket {
            kind,
            process: short(12)?,
            handle_types: short(16)?,
            location: Location {
                kind: short(20)? as i32,
                id: short(24)? as i32,
            },
            object: long(32)?,
            address: long(40)?,
            size: long(48)?,
        };
        (ticket.to_bytes() == *bytes).then_some(ticket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_the_way_and_junk_is_none() {
        let ticket = Ticket {
            kind: Kind::Pointer,
            process: 77,
            object: 1 << 40,
            address: 0x3000_0000_0200,
            size: 4096,
            location: Location { kind: 1, id: 1 },
            handle_types: 1,
        };
        let mut bytes = ticket.to_bytes();
        assert_eq!(Ticket::from_bytes(&bytes), Some(ticket));
        bytes[8] = 99;
        assert_eq!(Ticket::from_bytes(&bytes), None);
        assert_eq!(Ticket::from_bytes(&[0; 64]), None);
        assert_eq!(Ticket::from_bytes(&[0xff; 64]), None);
    }
}
