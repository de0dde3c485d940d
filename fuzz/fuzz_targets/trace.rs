//! Any bytes as a file: the reader and the ledger must neither panic nor hang.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oomhook_trace::Reader;
use std::io::Cursor;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(reader) = Reader::new(Cursor::new(bytes)) {
        let replay = oomhook_ledger::replay(reader);
        let _ = replay.ledger.checkpoint().map(|(state, records)| (state.len(), records.count()));
    }
});
