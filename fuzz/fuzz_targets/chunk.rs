//! Any bytes as the payload of a chunk whose checksum is right: what a fuzzer would take long to come by. Whatever records
//! they hold, the ledger takes them without panic, and a checkpoint of it can be restored.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oomhook_ledger::Ledger;
use oomhook_trace::columns::Records;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut records) = Records::new(bytes) else { return };
    let mut ledger = Ledger::default();
    while let Ok(Some(record)) = records.next_record() {
        ledger.apply(&record);
    }
    let Ok((state, records)) = ledger.checkpoint() else { return };
    let records: Vec<_> = records.collect();
    let _ = Ledger::restore(&state, &records);
});
