//! From the hooks to the writer: bounded, lock-free, and nothing is ever dropped; when it is full the sender waits.

use super::cancel;
use super::raw::Raw;
use super::{state, writer};
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Events that fit (4 MiB).
const CAPACITY: usize = 65_536;

/// First sleep of a waiting sender; a blocking send would park on a lock, and a woken sender pays a futex call.
const NAP: Duration = Duration::from_micros(50);

/// A writer that takes nothing for so long is stuck; the program must not stand still with it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Counts the events that the writer has taken: a heartbeat.
pub static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A new channel; its memory is taken at once.
pub fn new() -> (Sender<Raw>, Receiver<Raw>) {
    bounded(CAPACITY)
}

/// Sends, waiting while the channel is full. Gives up when recording was switched off, or when the writer has not moved
/// for five seconds (then it switches recording off).
#[inline]
pub fn send(sender: &Sender<Raw>, raw: Raw) {
    if let Err(TrySendError::Full(raw)) = sender.try_send(raw) {
        wait_and_send(sender, raw);
    }
    if writer::is_in_a_hurry() {
        writer::flush_at_the_end();
    }
}

#[cold]
fn wait_and_send(sender: &Sender<Raw>, mut raw: Raw) {
    let mut heartbeat = TAKEN.load(Ordering::Relaxed);
    let mut waited = Duration::ZERO;
    loop {
        cancel::sleep(NAP);
        match sender.try_send(raw) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            Err(TrySendError::Full(back)) => raw = back,
        }
        if state::is_off() {
            return;
        }
        let now = TAKEN.load(Ordering::Relaxed);
        if now != heartbeat || state::is_held() {
            heartbeat = now;
            waited = Duration::ZERO;
            continue;
        }
        waited += NAP;
        if waited >= PATIENCE {
            state::switch_off(
                "the writer has been stuck for 5 s; recording stops here, the program goes on",
            );
            return;
        }
    }
}
