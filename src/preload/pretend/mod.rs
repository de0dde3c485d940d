//! `OOMHOOK_CAPACITY` and `OOMHOOK_FAIL_NTH`: decides, before the real call, whether an allocation is to fail with out of
//! memory. What is refused here never reaches the driver, and is recorded as any other failure.
//!
//! An allocation fits if it is no larger than what is free: the pretended size less what the real driver says is in use. So
//! contexts, code, other libraries and other processes count, whoever took the memory. Bytes whose real call is under way
//! may be missing from the driver's figure and count as well (see [`under_way`]).
//!
//! Nothing is pretended while nothing is recorded: a failure that we make must be on file.
//!
//! Not limited: managed memory (it may exceed the device), host memory, memory owned elsewhere, addresses; what a graph
//! takes when it is launched and what contexts and modules take, since no call names a size (it counts once it is there).

mod ask;
mod order;
mod room;
mod tracked;
mod under_way;

pub use ask::{Ask, Memory};
pub use order::passed_unseen;
pub use tracked::publish;

use super::cancel;
use super::config::Config;
use super::devices;
use super::record::Call;
use super::state;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use under_way::UnderWay;

/// Devices that are told apart.
const DEVICES: usize = 64;

/// A setting changes what the program is told. All that the hot path looks at where none does.
static ON: AtomicBool = AtomicBool::new(false);

/// What each device is pretended to have; 0 where nothing is pretended.
static CAPACITIES: [AtomicU64; DEVICES] = [const { AtomicU64::new(0) }; DEVICES];

static UNDER_WAY: [UnderWay; DEVICES] = [const { UnderWay::new() }; DEVICES];

/// How long a request waits for others that are under way, and whose end decides whether it fits.
const PATIENCE: Duration = Duration::from_secs(1);
/// Looks between which a waiting thread only yields.
const YIELDS: u32 = 100;
const NAP: Duration = Duration::from_micros(50);

/// Takes the settings; before the recording is on.
pub fn begin(config: &Config) {
    if let Some(capacity) = &config.capacity {
        for (device, place) in (0..).zip(&CAPACITIES) {
            let bytes = capacity.of(device).unwrap_or(0);
            place.store(bytes.min(under_way::MOST), Ordering::Relaxed);
        }
    }
    if let Some(nth) = config.fail_nth {
        order::set(nth.get());
    }
    let on = config.capacity.is_some() || config.fail_nth.is_some();
    ON.store(on, Ordering::Release);
}

/// True if calls are to be judged at all.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// What a device is pretended to have, if anything is pretended.
fn capacity(device: u8) -> Option<u64> {
    let bytes = CAPACITIES.get(usize::from(device))?.load(Ordering::Relaxed);
    (bytes != 0).then_some(bytes)
}

/// The same for a program that asks before its first context or allocation, when the settings are not yet taken.
#[cold]
pub fn capacity_at_any_time(device: u8) -> Option<u64> {
    if is_on() && state::is_on() {
        return capacity(device);
    }
    let set = || std::env::var_os(oomhook_report::capacity::settings::CAPACITY).is_some();
    if state::has_begun() || !set() {
        return None;
    }
    // Malformed values are named when the recording begins.
    let (config, _) = Config::from_environment();
    config.capacity.filter(|_| config.on)?.of(device)
}

/// Free and total bytes as a program is told, of a device that has `real` free and total bytes. `real` is missing if the
/// driver cannot be asked, since the device is not the current one.
pub fn shown(device: u8, real: Option<(u64, u64)>) -> Option<(u64, u64)> {
    if !is_on() || !state::is_on() {
        return real;
    }
    match (capacity(device), real) {
        (None, real) => real,
        (Some(capacity), Some((free, total))) => Some(room::shown(capacity, free, total)),
        (Some(capacity), None) => {
            let total = capacity.min(devices::total(device)?);
            Some((total.saturating_sub(tracked::live(device)?), total))
        }
    }
}

/// What was decided of a call. Bytes that it holds are given back when it is dropped.
#[must_use]
pub enum Claim {
    /// Nothing to decide: the call goes on.
    Pass,
    /// The call is to fail.
    Refused,
    /// The call goes on, and its bytes count as taken until it is over.
    Holds {
        /// On this device.
        device: u8,
        /// So many.
        bytes: u64,
    },
}

impl Claim {
    /// True if the real function is not to be called.
    #[inline]
    pub fn is_refused(&self) -> bool {
        matches!(self, Claim::Refused)
    }
}

impl Drop for Claim {
    #[inline]
    fn drop(&mut self) {
        if let Claim::Holds { device, bytes } = *self {
            UNDER_WAY[usize::from(device)].end(bytes);
        }
    }
}

/// Decides on a call that would make a block.
#[cold]
pub fn judge(call: &Call, ask: Ask) -> Claim {
    if order::is_due(call) {
        return Claim::Refused;
    }
    let Some((device, source)) = room::source(call, ask.memory) else {
        return Claim::Pass;
    };
    let Some(capacity) = capacity(device) else {
        return Claim::Pass;
    };
    let place = &UNDER_WAY[usize::from(device)];
    let mut waits = 0;
    let mut since = None;
    loop {
        // In this order: `begin` succeeds only if nobody began or ended between the two looks, so that the room is right
        // for those under way.
        let look = place.look();
        let Some(room) = room::of(device, source, capacity) else {
            return Claim::Pass;
        };
        if ask.bytes <= room.saturating_sub(look.bytes()) {
            if place.begin(look, ask.bytes) {
                return Claim::Holds {
                    device,
                    bytes: ask.bytes,
                };
            }
            continue;
        }
        // Without the others it would not fit either; or there are none.
        if ask.bytes > room || look.bytes() == 0 {
            return Claim::Refused;
        }
        // Those under way may be in the driver's figure already, or fail. A thread that waits holds nothing itself, so no
        // two wait for each other.
        let since = *since.get_or_insert_with(Instant::now);
        if since.elapsed() >= PATIENCE {
            return Claim::Refused;
        }
        waits += 1;
        if waits < YIELDS {
            std::thread::yield_now();
        } else {
            cancel::sleep(NAP);
        }
    }
}
