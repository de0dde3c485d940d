//! Records to chunks: the writer's side. Knows nothing of files; the caller appends each chunk with one write.

use crate::chunk::{Kind, Packer};
use crate::columns::Columns;
use crate::record::Record;

/// Collects records and turns them into chunks.
#[derive(Default)]
pub struct Encoder {
    columns: Columns,
    raw: Vec<u8>,
    packer: Packer,
}

impl Encoder {
    /// Adds a record to the chunk in the making.
    pub fn put(&mut self, record: &Record) {
        self.columns.put_record(record);
    }

    /// Bytes waiting, before compression.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.columns.len()
    }

    /// Number of the segment in the making.
    #[must_use]
    pub fn segment(&self) -> u32 {
        self.packer.segment
    }

    /// Appends what waits to `to` as one chunk; nothing if nothing waits.
    pub fn finish_chunk(&mut self, to: &mut Vec<u8>) {
        if self.columns.is_empty() {
            return;
        }
        self.raw.clear();
        self.columns.finish(&mut self.raw);
        self.packer.pack(Kind::Records, &self.raw, to);
    }

    /// Ends the segment and opens the next with a checkpoint: `state` is the ledger's JSON, `records` are the
    /// definitions in use and the live blocks.
    pub fn begin_segment<'a>(
        &mut self,
        state: &[u8],
        records: impl Iterator<Item = std::borrow::Cow<'a, Record>>,
        to: &mut Vec<u8>,
    ) {
        self.finish_chunk(to);
        self.packer.segment = self.packer.segment.wrapping_add(1);
        for record in records {
            self.columns.put_record(&record);
        }
        self.raw.clear();
        self.raw
            .extend_from_slice(&(state.len() as u64).to_le_bytes());
        self.raw.extend_from_slice(state);
        self.columns.finish(&mut self.raw);
        self.packer.pack(Kind::Checkpoint, &self.raw, to);
    }
}
