//! Device memory that calls take without saying so: contexts, code, first launches, limits, streams. Every change of the
//! device's use was seen to happen inside some call of the driver, so the use is read before and after the rare ones, and
//! the difference is booked to the call.
//!
//! A difference counts only if no other call of this process moved memory meanwhile; what is not booked shows as the rest.
//! Where other processes are on the device, it is marked as estimated.

use super::devices;
use super::nvml;
use super::raw::{Kind, NO_DEVICE, Raw};
use super::record::Call;
use super::state;
use oomhook_trace::Record;
use oomhook_trace::record::{CostKind, Sample};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Measurements under way.
static MEASURING: AtomicU32 = AtomicU32::new(0);
/// Calls that may have moved memory while something was being measured.
static MOVES: AtomicU64 = AtomicU64::new(0);

/// Functions that were launched before, direct-mapped: two that share a place are measured again in turn, which costs time
/// and no truth.
static LAUNCHED: [AtomicU64; 8192] = [const { AtomicU64::new(0) }; 8192];

fn place(handle: u64) -> &'static AtomicU64 {
    let mixed = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &LAUNCHED[(mixed >> 51) as usize % LAUNCHED.len()]
}

/// True if this function (or executable graph) has been launched before, or nothing is recorded. The whole cost of all
/// launches but the first.
#[inline]
pub fn was_launched(handle: u64) -> bool {
    place(handle).load(Ordering::Relaxed) == handle || !state::is_on()
}

/// It is being launched now.
pub fn launched(handle: u64) {
    place(handle).store(handle, Ordering::Relaxed);
}

/// A context is gone, and with it what its functions had taken; their handles may come again.
pub fn forget_launches() {
    for place in &LAUNCHED {
        place.store(0, Ordering::Relaxed);
    }
}

/// A call that may move memory begins or ends.
#[inline]
pub fn moves() {
    if MEASURING.load(Ordering::Relaxed) != 0 {
        MOVES.fetch_add(1, Ordering::AcqRel);
    }
}

/// A measurement around a call.
pub struct Measure {
    kind: CostKind,
    device: u8,
    used: u64,
    moves: u64,
}

impl Measure {
    /// Before the call, on the current device; `None` where the driver does not answer.
    pub fn begin(kind: CostKind, call: &Call) -> Option<Measure> {
        let device = devices::current(call).device;
        let used = used(device)?;
        MEASURING.fetch_add(1, Ordering::AcqRel);
        Some(Measure {
            kind,
            device,
            used,
            moves: MOVES.load(Ordering::Acquire),
        })
    }

    /// After the call.
    pub fn end(self, call: &Call) {
        let Some((free, total)) = devices::look(self.device) else {
            return;
        };
        let used = total.saturating_sub(free);
        // The measured call itself is none of the moves: it is counted by nobody.
        if MOVES.load(Ordering::Acquire) == self.moves && used != self.used {
            let bytes = used.wrapping_sub(self.used) as i64;
            book(
                call,
                self.kind,
                self.device,
                bytes,
                nvml::has_others(self.device),
            );
            if !nvml::is_there() {
                tell(call, self.device, used, total);
            }
        }
    }
}

impl Drop for Measure {
    fn drop(&mut self) {
        MEASURING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Has the trace know what was in use, where the management library does not say.
fn tell(call: &Call, device: u8, used: u64, total: u64) {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    const PERIOD_NS: u64 = 100_000_000;
    let now = call.now();
    let latest = LATEST.load(Ordering::Relaxed);
    if latest != 0 && now.saturating_sub(latest) < PERIOD_NS {
        return;
    }
    LATEST.store(now, Ordering::Relaxed);
    call.announce(Record::Sample(Sample {
        time_ns: now,
        device,
        used,
        total,
        ..Sample::default()
    }));
}

fn used(device: u8) -> Option<u64> {
    let (free, total) = devices::look(device)?;
    Some(total.saturating_sub(free))
}

/// Sends what a call has taken.
pub fn book(call: &Call, kind: CostKind, device: u8, bytes: i64, estimated: bool) {
    if device == NO_DEVICE || bytes == 0 {
        return;
    }
    devices::announce(call, device);
    call.send_here(Raw {
        a: bytes as u64,
        b: kind as u64,
        c: u64::from(estimated),
        device,
        ..Raw::new(Kind::Cost)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_new_once() {
        let function = 0x7f00_1234_5678;
        launched(function);
        assert_eq!(place(function).load(Ordering::Relaxed), function);
        forget_launches();
        assert_ne!(place(function).load(Ordering::Relaxed), function);
    }

    #[test]
    fn moves_count_only_while_something_is_measured() {
        let before = MOVES.load(Ordering::Acquire);
        moves();
        assert_eq!(MOVES.load(Ordering::Acquire), before);
        MEASURING.fetch_add(1, Ordering::AcqRel);
        moves();
        assert_eq!(MOVES.load(Ordering::Acquire), before + 1);
        MEASURING.fetch_sub(1, Ordering::AcqRel);
    }
}
