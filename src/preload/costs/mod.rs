//! Device memory that calls take without saying so: contexts, code, first launches, limits, streams. Every change of the
//! device's use was seen to happen inside some call of the driver, so the use is read before and after the rare ones, and
//! the difference is booked to the call.
//!
//! A difference counts only if no other call of this process that moves memory of the device was under way meanwhile
//! (`traffic.rs`). A call that was not alone is named all the same: what all of those took together the next look at the device
//! tells.
//! Where other processes are on the device, it is marked as estimated.

pub mod contexts;
pub mod traffic;

use super::captures::graphs;
use super::devices::{self, Place};
use super::nvml;
use super::raw::{Kind, NO_DEVICE, Raw};
use super::record::Call;
use super::state;
use oomhook_trace::Record;
use oomhook_trace::record::{Cost, CostKind, DeedKind, Sample};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use traffic::Alone;

/// Functions that were launched before, direct-mapped: two that share a place are measured again in turn, which costs time
/// and no truth.
static LAUNCHED: [AtomicU64; 8192] = [const { AtomicU64::new(0) }; 8192];

fn place(handle: u64) -> &'static AtomicU64 {
    let mixed = handle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &LAUNCHED[(mixed >> 51) as usize % LAUNCHED.len()]
}

/// A kernel is the same one in each context, and takes memory in each. Of one context alone nobody need ask which it is.
static ARE_SEVERAL: AtomicBool = AtomicBool::new(false);

/// There is more than one context from now on.
pub fn contexts_are_several() {
    ARE_SEVERAL.store(true, Ordering::Relaxed);
}

#[inline]
fn in_context(handle: u64) -> u64 {
    if ARE_SEVERAL.load(Ordering::Relaxed) {
        handle ^ devices::current_context().rotate_left(24)
    } else {
        handle
    }
}

/// True if this function (or executable graph) has been launched before, or nothing is recorded. The whole cost of all
/// launches but the first.
#[inline]
pub fn was_launched(handle: u64) -> bool {
    let key = in_context(handle);
    place(key).load(Ordering::Relaxed) == key || !state::is_on()
}

/// It is being launched now.
pub fn launched(handle: u64) {
    let key = in_context(handle);
    place(key).store(key, Ordering::Relaxed);
}

/// It is gone.
pub fn forget_launch(handle: u64) {
    let key = in_context(handle);
    let _ = place(key).compare_exchange(key, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// A context is gone, and with it what its functions had taken; their handles may come again.
pub fn forget_launches() {
    for place in &LAUNCHED {
        place.store(0, Ordering::Relaxed);
    }
}

/// A measurement around a call.
pub struct Measure {
    kind: CostKind,
    place: Place,
    before: Figures,
    alone: Alone,
    /// What the call has changed: bytes in use, and of how many.
    changed: Option<(i64, u64, u64)>,
    /// Other calls moved memory meanwhile: by so much the use grew in all.
    disturbed: Option<i64>,
}

/// What the driver says before and after.
#[derive(Clone, Copy)]
struct Figures {
    used: u64,
    total: u64,
    /// Kept for the nodes of graphs, which is told by itself.
    graphs: u64,
}

impl Figures {
    fn of(device: u8) -> Option<Figures> {
        let (free, total) = devices::look(device)?;
        Some(Figures {
            used: total.saturating_sub(free),
            total,
            graphs: graphs::reserved(device).unwrap_or(0),
        })
    }
}

impl Measure {
    /// Before the call, on the current device; `None` where the driver does not answer.
    pub fn begin(kind: CostKind, call: &Call) -> Option<Measure> {
        let place = devices::current(call);
        let alone = Alone::from_now(place.device);
        let before = Figures::of(place.device)?;
        Some(Measure {
            kind,
            place,
            before,
            alone,
            changed: None,
            disturbed: None,
        })
    }

    /// Right after the call, before anything is recorded of it.
    pub fn look(&mut self) {
        if let Some(now) = Figures::of(self.place.device) {
            let more = |now: u64, before: u64| now.wrapping_sub(before) as i64;
            let bytes = more(now.used, self.before.used) - more(now.graphs, self.before.graphs);
            if !self.alone.until_now() {
                self.disturbed = Some(bytes);
            } else if bytes != 0 {
                self.changed = Some((bytes, now.used, now.total));
            }
        }
    }

    /// Once the call is recorded.
    pub fn end(self, call: &Call) {
        let device = self.place.device;
        // Where the use is as it was, most likely nobody has taken anything. (Or others have given back just as much: the bytes are
        // found by the next look all the same, and go to such calls as have been named.)
        if let Some(bytes) = self.disturbed.filter(|bytes| *bytes != 0) {
            not_measured(call, self.kind, device, bytes);
        }
        if let Some((bytes, used, total)) = self.changed {
            let estimated = nvml::has_others(device);
            book(call, self.kind, self.place, bytes, estimated);
            if !nvml::answers(device) {
                tell(call, device, used, total);
            }
        }
    }
}

/// Has the trace know what was in use, where the management library does not say (it is not there, or the device is lost).
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

/// Books what a call has taken in a context of a device.
pub fn book(call: &Call, kind: CostKind, place: Place, bytes: i64, estimated: bool) {
    contexts::add(place.context, kind, bytes);
    send(call, kind, place.device, bytes, estimated);
}

/// A call has taken something, or given it back, while others did: it is not known how much; all of
/// them together so much.
pub fn not_measured(call: &Call, kind: CostKind, device: u8, together: i64) {
    if device == NO_DEVICE {
        return;
    }
    devices::announce(call, device);
    call.send_here(Raw {
        a: kind as u64,
        b: u64::try_from(together).unwrap_or(0),
        d: DeedKind::Unmeasured as u64,
        device,
        ..Raw::new(Kind::Deed)
    });
}

/// A context is gone, and with it what was taken in it; with the device's last one all that was taken there.
pub fn context_is_gone(call: &Call, place: Place) {
    forget_launches();
    let taken = contexts::remove(place.context);
    if devices::has_context(place.device) {
        for (kind, bytes) in taken {
            send(call, kind, place.device, bytes.saturating_neg(), false);
        }
    } else {
        send(call, CostKind::Context, place.device, Cost::ALL_BACK, false);
    }
}

fn send(call: &Call, kind: CostKind, device: u8, bytes: i64, estimated: bool) {
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
}
