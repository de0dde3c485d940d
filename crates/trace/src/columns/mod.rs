//! Records to bytes and back, column by column: every field of one kind lies beside its like, which zstd rewards.
//!
//! ```text
//! records := columns(varint = 14) { length(varint) bytes }*
//! ```
//!
//! The `kind` column holds one byte a record, in order; what a record takes from which other column follows from its
//! kind, as written in `put` and `take`. Numbers are LEB128 varints; times and addresses are zig-zag differences
//! to the record before, starting from 0 in each chunk, so that a chunk can be read alone.
//!
//! Growing the format: a reader cannot step over a kind below 128 that it does not know, so that range is closed. New
//! kinds are 128 or above and put one length-prefixed value into the `Extension` column and nothing elsewhere: older
//! readers skip them. Columns may be added at the end.
//!
//! ```text
//! 128 code object  := id first_line file(length bytes) name(length bytes)
//! 129 Python frame := frame code line
//! 130 left out     := frame number
//! 131 host memory  := time thread total available address_space its_limit locked its_limit group its_limit
//!                     (each of the last eight: 0 if not known, else the bytes plus one)
//! 132 cost         := time thread device call stack kind bytes(zig-zag) estimated
//! 133 sample       := time device used total process(0 or plus one) flags(1: others known, 2: quiet) count { pid bytes(0 or plus one) name(length bytes) }*
//! 135 cache        := see `tensor`
//! 136 phase name   := id domain(length bytes) name(length bytes)
//! 137 phase border := time thread what name domain-or-range
//! 138 log line     := time thread stream late text(length bytes)
//! ```
//! What such a value holds beyond what is known of it is skipped, too.

mod extension;
mod put;
mod take;
mod tensor;

pub use put::Columns;
pub use take::Records;

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
    // From here on with a length; see the module's page.
    pub const CODE: u8 = 128;
    pub const PYTHON_FRAME: u8 = 129;
    pub const LEFT_OUT: u8 = 130;
    pub const HOST_MEMORY: u8 = 131;
    pub const COST: u8 = 132;
    pub const SAMPLE: u8 = 133;
    pub const DEED: u8 = 134;
    pub const TENSOR: u8 = 135;
    pub const PHASE_NAME: u8 = 136;
    pub const PHASE: u8 = 137;
    pub const LOG_LINE: u8 = 138;
}

/// Why bytes are no records: a fixed phrase for the report.
pub type Damage = &'static str;
