//! The trace format: the only language that the watched process and the command share.
//!
//! A trace is a header (JSON) followed by chunks. Each chunk carries its own checksum and a sequence number, so a
//! reader survives a cut tail and a damaged middle and can say what is missing.
//!
//! ```text
//! file    := magic(8) version(u32) length(u32) json crc32(u32)  chunk*
//! chunk   := "OCHK" kind(u8) codec(u8) zero(u16) sequence(u32) segment(u32) stored(u32) raw(u32) crc32(u32)  payload
//! payload := records, column by column (see `columns`), compressed with zstd level 1 when that helps
//! ```
//!
//! Numbers outside payloads are little endian. A file is cut into segments; each opens with a checkpoint chunk that
//! holds all a reader needs to go on from there without what came before.
//!
//! | module | duty |
//! |---|---|
//! | [`record`] | what a trace can say |
//! | [`told`] | what programs and frameworks tell of themselves |
//! | [`header`] | who was watched, and how |
//! | [`columns`] | records to bytes and back |
//! | [`chunk`] | checksums, compression, resynchronisation |
//! | [`mod@write`] | records to chunks |
//! | [`read`] | a file to records, with its damage |
//! | [`locks`] | how others see that the process lives, and ask it |
#![forbid(unsafe_code)]

pub mod chunk;
pub mod columns;
pub mod header;
pub mod locks;
pub mod read;
pub mod record;
pub mod told;
pub mod write;

pub use header::Header;
pub use read::{Item, OpenError, Reader};
pub use record::{Event, FrameId, LibraryId, Record, Space, StackId, ThreadId, What};
pub use write::Encoder;
