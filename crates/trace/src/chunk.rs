//! A chunk: checksummed, compressed when that helps, found again after damage by its mark.

use crate::columns::Damage;

/// Opens every chunk, so that a reader can look for the next one after damage.
pub const MARK: [u8; 4] = *b"OCHK";
/// Bytes before the payload.
pub const HEADER: usize = 28;
/// Most bytes of a payload, stored or raw; more is damage.
pub const MAX_PAYLOAD: usize = 256 << 20;

const ZSTD_LEVEL: i32 = 1;
const RAW: u8 = 0;
const ZSTD: u8 = 1;

/// What a chunk is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Records, one after the other.
    Records = 1,
    /// Opens a segment: the ledger's state as JSON, then definitions in use and live blocks as records.
    Checkpoint = 2,
}

/// The fixed part of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// What it is for, as on the wire (a reader skips kinds that it does not know).
    pub kind: u8,
    codec: u8,
    /// Counts the chunks of a file from 0; a gap means that chunks are missing.
    pub sequence: u32,
    /// Counts the segments from 0.
    pub segment: u32,
    stored: u32,
    raw: u32,
    crc: u32,
}

impl ChunkHeader {
    /// Parses the fixed part; `None` if it is no chunk header.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<ChunkHeader> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        if bytes[..4] != MARK {
            return None;
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let header = ChunkHeader {
            kind: bytes[4],
            codec: bytes[5],
            sequence: word(8),
            segment: word(12),
            stored: word(16),
            raw: word(20),
            crc: word(24),
        };
        let fits = header.stored as usize <= MAX_PAYLOAD && header.raw as usize <= MAX_PAYLOAD;
        (fits && header.codec <= ZSTD).then_some(header)
    }

    /// Bytes of the payload in the file.
    #[must_use]
    pub fn stored(&self) -> usize {
        self.stored as usize
    }

    /// Checks and unpacks the payload. `fixed` is the chunk's fixed part, which the checksum covers as well.
    ///
    /// # Errors
    /// When the checksum is wrong or the payload cannot be unpacked.
    pub fn unpack(&self, fixed: &[u8], payload: &[u8]) -> Result<Vec<u8>, Damage> {
        if checksum(fixed, payload) != self.crc {
            return Err("its checksum is wrong");
        }
        if self.codec == RAW {
            return Ok(payload.to_vec());
        }
        let raw = zstd::bulk::decompress(payload, self.raw as usize)
            .map_err(|_| "it cannot be decompressed")?;
        if raw.len() != self.raw as usize {
            return Err("its length is wrong");
        }
        Ok(raw)
    }
}

/// The checksum covers the fixed part (without itself) and the stored payload.
fn checksum(fixed: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&fixed[..HEADER - 4]);
    hasher.update(payload);
    hasher.finalize()
}

/// Makes chunks of payloads; keeps the compressor's memory between them.
pub struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    sequence: u32,
    /// The segment that the next chunk belongs to.
    pub segment: u32,
}

impl Default for Packer {
    fn default() -> Packer {
        // Without a compressor (no memory left) chunks are stored raw: larger, still right.
        Packer {
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            sequence: 0,
            segment: 0,
        }
    }
}

impl Packer {
    /// Appends a whole chunk to `to`.
    pub fn pack(&mut self, kind: Kind, raw: &[u8], to: &mut Vec<u8>) {
        let packed = self
            .compressor
            .as_mut()
            .and_then(|compressor| compressor.compress(raw).ok())
            .filter(|packed| packed.len() < raw.len());
        let (codec, payload) = match &packed {
            Some(packed) => (ZSTD, packed.as_slice()),
            None => (RAW, raw),
        };
        let at = to.len();
        to.extend_from_slice(&MARK);
        to.extend_from_slice(&[kind as u8, codec, 0, 0]);
        for word in [
            self.sequence,
            self.segment,
            payload.len() as u32,
            raw.len() as u32,
        ] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.extend_from_slice(&[0; 4]);
        let crc = checksum(&to[at..at + HEADER], payload);
        to[at + HEADER - 4..at + HEADER].copy_from_slice(&crc.to_le_bytes());
        to.extend_from_slice(payload);
        self.sequence = self.sequence.wrapping_add(1);
    }
}
