//! Memory pools of the process, and the figures that the driver keeps of them.

use super::super::captures;
use super::super::channel;
use super::super::hooks::abi::{Code, DeviceOrdinal, LOCATION_DEVICE, Location, Pool, SUCCESS};
use super::super::raw::{Kind, NO_DEVICE, Raw};
use super::super::record::Call;
use super::super::state::Recorder;
use super::driver_function;
use oomhook_trace::record::DeedKind;
use oomhook_trace::{Event, Record, Space, What};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Pools of the program: pool << 16 | space << 8 | device. More than these are only not listed at the end.
static POOLS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
const MANAGED: i32 = 2;

/// The device of a place; `NO_DEVICE` for the host.
pub fn device_at(location: Location) -> u8 {
    match location.kind {
        LOCATION_DEVICE => u8::try_from(location.id).unwrap_or(NO_DEVICE),
        _ => NO_DEVICE,
    }
}

/// Notes a pool: what is allocated from it is stream-ordered memory on a device, pinned memory on the host, or managed.
pub fn remember(pool: u64, kind: i32, location: Location) {
    let device = device_at(location);
    let space = match (kind, device) {
        (MANAGED, _) => Space::Managed,
        (_, NO_DEVICE) => Space::Pinned,
        _ => Space::Async,
    };
    forget(pool);
    let entry = pool << 16 | (space as u64) << 8 | u64::from(device);
    let _ = POOLS.iter().find(|slot| {
        slot.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
}

/// The pool is gone.
pub fn forget(pool: u64) {
    for slot in &POOLS {
        let known = slot.load(Ordering::Acquire);
        if known != 0 && known >> 16 == pool {
            let _ = slot.compare_exchange(known, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// The space and device of a pool of the program.
pub fn place(pool: u64) -> Option<(Space, u8)> {
    let entry = POOLS
        .iter()
        .map(|slot| slot.load(Ordering::Acquire))
        .find(|known| *known != 0 && known >> 16 == pool)?;
    Some((Space::from_wire(entry >> 8 & 0xff)?, entry as u8))
}

fn attribute(pool: u64, which: c_int) -> Option<u64> {
    let mut value = 0u64;
    let out: *mut c_void = (&raw mut value).cast();
    let code = super::driver!(c"cuMemPoolGetAttribute" (Pool, c_int, *mut c_void) (pool as Pool, which, out));
    (code == Some(SUCCESS)).then_some(value)
}

fn default(device: u8) -> Option<u64> {
    let mut pool: Pool = std::ptr::null_mut();
    let device = DeviceOrdinal::from(device);
    let code =
        super::driver!(c"cuDeviceGetDefaultMemPool" (*mut Pool, DeviceOrdinal) (&mut pool, device));
    (code == Some(SUCCESS)).then_some(pool as u64)
}

/// The pool from which a device's stream-ordered memory comes, where a call names none.
pub fn current(device: u8) -> Option<u64> {
    let mut pool: Pool = std::ptr::null_mut();
    let device = DeviceOrdinal::from(device);
    let code = super::driver!(c"cuDeviceGetMemPool" (*mut Pool, DeviceOrdinal) (&mut pool, device));
    (code == Some(SUCCESS)).then_some(pool as u64)
}

/// True if a pool that the program has not made is the device's.
pub fn belongs_to(pool: u64, device: u8) -> bool {
    device != NO_DEVICE && (default(device) == Some(pool) || current(device) == Some(pool))
}

/// Bytes that the pool has reserved and not handed out; `None` while any capture is in progress.
pub fn idle(pool: u64) -> Option<u64> {
    if captures::any() {
        return None;
    }
    // CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT and …_USED_MEM_CURRENT.
    Some(attribute(pool, 5)?.saturating_sub(attribute(pool, 7)?))
}

/// The pool's figures; `None` while any capture is in progress (the question would spoil it).
fn figures(pool: u64) -> Option<What> {
    if captures::any() {
        return None;
    }
    // CU_MEMPOOL_ATTR_*: 4 release threshold, 5 and 6 reserved, 7 and 8 used (current and high).
    Some(What::PoolState {
        pool,
        threshold: attribute(pool, 4)?,
        reserved: attribute(pool, 5)?,
        reserved_high: attribute(pool, 6)?,
        used: attribute(pool, 7)?,
        used_high: attribute(pool, 8)?,
    })
}

fn event(time_ns: u64, thread: u32, device: u8, what: What) -> Record {
    let device = (device != NO_DEVICE).then_some(device);
    Record::Event(Event {
        time_ns,
        thread,
        device,
        call: 0,
        stack: 0,
        what,
    })
}

/// Devices whose default pool has been told, a bit each.
static INTRODUCED: AtomicU64 = AtomicU64::new(0);

/// Tells which is the device's default pool, before the first memory from it.
#[inline]
pub fn introduce(call: &Call, device: u8) {
    if device < 64 && INTRODUCED.load(Ordering::Relaxed) & (1 << device) == 0 {
        introduce_first(call, device);
    }
}

#[cold]
fn introduce_first(call: &Call, device: u8) {
    // The first allocation after the capture is as good.
    if captures::any() {
        return;
    }
    if INTRODUCED.fetch_or(1 << device, Ordering::AcqRel) & (1 << device) == 0
        && let Some(pool) = default(device)
    {
        call.send(deed(DeedKind::DefaultPool, pool, device));
    }
}

/// Something was done with a pool.
pub fn deed(kind: DeedKind, pool: u64, device: u8) -> Raw {
    Raw {
        a: pool,
        d: kind as u64,
        device,
        ..Raw::new(Kind::Deed)
    }
}

/// The device of a pool, if the program has told us.
pub fn device_of(pool: u64) -> u8 {
    place(pool).map_or(NO_DEVICE, |(_, device)| device)
}

/// Bytes that the pool has reserved; `None` while any capture is in progress.
pub fn reserved(pool: u64) -> Option<u64> {
    at_ease(|| attribute(pool, 5)).flatten()
}

/// Sends the figures of a pool that the program has just changed.
pub fn send_new_state(call: &Call, pool: u64) {
    at_ease(|| send_state(call, pool));
}

/// Sends the figures of one pool.
pub fn send_state(call: &Call, pool: u64) {
    if let Some(what) = figures(pool) {
        let device = place(pool).map_or(NO_DEVICE, |(_, device)| device);
        call.announce(event(call.now(), call.thread_number(), device, what));
    }
}

/// Sends the figures of all pools, in the middle of the program's work.
pub fn send_all_states(call: &Call) {
    send_while_at_ease(call.recorder(), call.thread_number());
}

/// The same from a thread of ours; nothing while the program has nothing in pools.
pub fn send_states(recorder: &Recorder) {
    if any() {
        send_while_at_ease(recorder, 0);
    }
}

fn send_while_at_ease(recorder: &Recorder, thread: u32) {
    let states = at_ease(|| all_states(recorder, thread));
    for record in states.into_iter().flatten() {
        channel::send(&recorder.sender, Raw::boxed(record));
    }
}

/// Asks something that spoils captures: nothing while there is one.
fn at_ease<T>(ask: impl FnOnce() -> T) -> Option<T> {
    if captures::any() {
        return None;
    }
    // A capture that another thread begins at this very moment would be spoiled by our question, unless this thread says
    // that it is at ease.
    let before = exchange_capture_mode(RELAXED)?;
    let answer = ask();
    exchange_capture_mode(before);
    Some(answer)
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// Sets the calling thread's capture mode; the one before.
fn exchange_capture_mode(mut mode: c_int) -> Option<c_int> {
    let code = super::driver!(c"cuThreadExchangeStreamCaptureMode" (*mut c_int) (&mut mode));
    (code == Some(SUCCESS)).then_some(mode)
}

/// True if `all_states` has anything to ask about.
pub fn any() -> bool {
    super::announced().next().is_some()
        || POOLS.iter().any(|slot| slot.load(Ordering::Acquire) != 0)
}

/// The figures of all pools that hold or held anything, at the end of the process.
pub fn all_states(recorder: &Recorder, thread: u32) -> Vec<Record> {
    let defaults = super::announced().filter_map(|device| Some((default(device)?, device)));
    let made = POOLS
        .iter()
        .map(|slot| slot.load(Ordering::Acquire))
        .filter(|entry| *entry != 0)
        .map(|entry| (entry >> 16, entry as u8));
    defaults
        .chain(made)
        .filter_map(|(pool, device)| Some((figures(pool)?, device)))
        .filter(|(what, _)| {
            matches!(what, What::PoolState { used_high, reserved_high, .. } if used_high | reserved_high != 0)
        })
        .map(|(what, device)| event(recorder.now(), thread, device, what))
        .collect()
}
