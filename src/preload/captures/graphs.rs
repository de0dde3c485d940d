//! What the driver keeps for graphs: its own figures, read after the calls that can change them. Legal in every capture
//! mode, and asked only once a graph has a node that allocates.

use super::super::devices::{driver, driver_function};
use super::super::hooks::abi::{Code, DeviceOrdinal, SUCCESS};
use super::super::raw::{Kind, NO_DEVICE, Raw};
use super::super::record::Call;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

static MEMORY_NODES: AtomicBool = AtomicBool::new(false);

/// Used and reserved bytes as last sent, mixed into one number for each device.
static LAST: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Launches that the writer has not taken yet: an event for each would cost more than it tells.
static LAUNCHES: AtomicU64 = AtomicU64::new(0);

/// An executable graph was launched.
#[inline]
pub fn launched() {
    LAUNCHES.fetch_add(1, Ordering::Relaxed);
}

/// Launches since this was asked last.
pub fn take_launches() -> u64 {
    match LAUNCHES.load(Ordering::Relaxed) {
        0 => 0,
        _ => LAUNCHES.swap(0, Ordering::Relaxed),
    }
}

/// A graph got a node that allocates.
pub fn has_memory_nodes() {
    MEMORY_NODES.store(true, Ordering::Relaxed);
}

/// True once any graph had a node that allocates.
pub fn have_memory_nodes() -> bool {
    MEMORY_NODES.load(Ordering::Relaxed)
}

fn attribute(device: DeviceOrdinal, which: c_int) -> Option<u64> {
    let mut value = 0u64;
    let out: *mut c_void = (&raw mut value).cast();
    let code = driver!(c"cuDeviceGetGraphMemAttribute" (DeviceOrdinal, c_int, *mut c_void) (device, which, out));
    (code == Some(SUCCESS)).then_some(value)
}

/// Bytes that the driver keeps on a device for the nodes of graphs, once any of them allocates.
pub fn reserved(device: u8) -> Option<u64> {
    if device == NO_DEVICE || !have_memory_nodes() {
        return None;
    }
    attribute(DeviceOrdinal::from(device), 2)
}

/// Sends the device's figures if they have changed.
pub fn send_memory(call: &Call, device: u8) {
    let Some(last) = LAST
        .get(usize::from(device))
        .filter(|_| device != NO_DEVICE)
    else {
        return;
    };
    let ordinal = DeviceOrdinal::from(device);
    // CU_GRAPH_MEM_ATTR_*: 0 used, 1 used high, 2 reserved, 3 reserved high.
    let values = [0, 1, 2, 3].map(|which| attribute(ordinal, which));
    let [
        Some(used),
        Some(used_high),
        Some(reserved),
        Some(reserved_high),
    ] = values
    else {
        return;
    };
    let mixed = reserved.rotate_left(32) ^ used;
    if last.swap(mixed, Ordering::AcqRel) != mixed {
        let raw = Raw {
            a: used,
            b: used_high,
            c: reserved,
            d: reserved_high,
            ..Raw::new(Kind::GraphMemory)
        };
        call.send_here(Raw { device, ..raw });
    }
}
