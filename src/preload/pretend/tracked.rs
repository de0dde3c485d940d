//! Live bytes by the ledger, for devices that are not the current one.
//!
//! The driver tells free memory of the current context's device alone. Making another context current, if only for a
//! moment, can take device memory by itself and may meet a context that another thread is destroying; so a request for
//! memory elsewhere (`cuMemCreate` names its device) is judged by what this process has allocated there. Contexts, code
//! and other processes are not in it: such a request may fit where on the current device it would not.

use super::super::writer;
use super::DEVICES;
use oomhook_ledger::Ledger;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The writer is no further behind than this, or its last word has to do.
const PATIENCE: Duration = Duration::from_millis(100);

/// As the ledger had it at the writer's latest flush.
static LIVE: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];

/// Called by the writer, which alone has the ledger.
pub fn publish(ledger: &Ledger) {
    for (device, live) in (0..).zip(&LIVE) {
        let bytes = ledger
            .device(Some(device))
            .map_or(0, |usage| usage.live.bytes);
        live.store(bytes, Ordering::Release);
    }
}

/// Live device bytes of everything sent so far.
pub fn live(device: u8) -> Option<u64> {
    let live = LIVE.get(usize::from(device))?;
    writer::catch_up(PATIENCE);
    Some(live.load(Ordering::Acquire))
}
