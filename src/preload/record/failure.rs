//! Calls that would have made a block and failed. Out of memory is on file before the program learns of it: what it
//! does next may be to die.

use super::Call;
use crate::preload::devices::pools;
use crate::preload::hooks::abi::{Code, OUT_OF_MEMORY};
use crate::preload::raw::{KNOWN_FREE, KNOWN_REQUESTED, Kind, Raw};
use crate::preload::{devices, host, nvml, writer};
use oomhook_trace::{Record, Space};
use std::time::Duration;

/// The program waits no longer than this for its error.
const PATIENCE: Duration = Duration::from_millis(100);

/// Of that, for a look at the whole device.
const PATIENCE_WITH_LOOK: Duration = Duration::from_millis(20);

/// Records a failed allocation.
pub fn record(call: &Call, space: Option<Space>, requested: Option<u64>, code: Code) {
    record_at(call, space, requested, code, None);
}

/// Records a failed allocation or registration of memory that has an address already.
pub fn record_at(
    call: &Call,
    space: Option<Space>,
    requested: Option<u64>,
    code: Code,
    address: Option<u64>,
) {
    let place = devices::current(call);
    record_on(call, space, requested, code, address, place.device);
}

/// Records a failure on a device that the call itself names.
pub fn record_on(
    call: &Call,
    space: Option<Space>,
    requested: Option<u64>,
    code: Code,
    address: Option<u64>,
    device: u8,
) {
    devices::announce(call, device);
    let mut raw = Raw {
        d: code as u64,
        device,
        ..Raw::new(Kind::AllocFailed)
    };
    raw.space = space.map_or(0, |space| space as u8);
    raw.e = address.unwrap_or(0);
    if let Some(requested) = requested {
        raw.a = requested;
        raw.flags |= KNOWN_REQUESTED;
    }
    if code != OUT_OF_MEMORY {
        return call.send_here(raw);
    }
    // A program that fails again and again waits for its first failures only.
    let is_told = writer::may_wait();
    // On the failing thread, after the failing call; legal while a stream is being captured.
    if let Some((free, total)) = devices::memory_info(device) {
        raw.b = free;
        raw.c = total;
        raw.flags |= KNOWN_FREE;
    }
    if is_told {
        // Who else is on the device.
        nvml::look(PATIENCE_WITH_LOOK);
        pools::send_all_states(call);
        if is_unexplained(space, &raw) {
            let host = host::memory(call.now(), call.thread_number());
            call.announce(Record::HostMemory(host));
        }
    }
    call.send_here(raw);
    if is_told {
        writer::tell_of_a_failure(PATIENCE);
    }
}

/// True if the device's memory does not say why: it is about host memory, or there is enough left.
fn is_unexplained(space: Option<Space>, raw: &Raw) -> bool {
    let on_host = matches!(space, Some(Space::Pinned | Space::Registered));
    let asked = if raw.flags & KNOWN_REQUESTED != 0 {
        raw.a
    } else {
        0
    };
    on_host || raw.flags & KNOWN_FREE == 0 || raw.b >= asked
}
