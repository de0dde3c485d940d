//! Questions about a device's memory: a pretended size must show in the answers, or the program would plan with another
//! one. Nothing is recorded of them.

use super::Recipe;
use crate::preload::hooks::abi::{Code, DeviceOrdinal, SUCCESS};
use crate::preload::{devices, pretend};

/// Where a call puts a number of bytes; NULL if the caller does not want it.
#[derive(Clone, Copy)]
pub enum Bytes {
    /// `size_t*`.
    Wide(*mut usize),
    /// `unsigned int*`, of CUDA 2.
    Narrow(*mut u32),
}

impl Bytes {
    /// The number, if it was written in full.
    fn read(self) -> Option<u64> {
        match self {
            // SAFETY: the driver has just written through this pointer, successfully.
            Bytes::Wide(to) if !to.is_null() => Some(unsafe { to.read_unaligned() } as u64),
            _ => None,
        }
    }

    /// Writes another number; as much of it as fits.
    fn write(self, bytes: u64) {
        // SAFETY: as above: the caller has given room for this number and has not yet got it back.
        unsafe {
            match self {
                Bytes::Wide(to) if !to.is_null() => to.write_unaligned(bytes as usize),
                Bytes::Narrow(to) if !to.is_null() => {
                    to.write_unaligned(u32::try_from(bytes).unwrap_or(u32::MAX))
                }
                _ => {}
            }
        }
    }
}

/// `cuMemGetInfo`, of the current device.
pub struct MemoryInfo {
    free: Bytes,
    total: Bytes,
}

impl MemoryInfo {
    /// The figures are written to `free` and `total`.
    pub fn new(free: *mut usize, total: *mut usize) -> MemoryInfo {
        MemoryInfo {
            free: Bytes::Wide(free),
            total: Bytes::Wide(total),
        }
    }

    /// The 32-bit form.
    pub fn new32(free: *mut u32, total: *mut u32) -> MemoryInfo {
        MemoryInfo {
            free: Bytes::Narrow(free),
            total: Bytes::Narrow(total),
        }
    }
}

impl Recipe for MemoryInfo {
    fn records(&self) -> bool {
        false
    }

    /// Pretending twice, of the figures that were pretended, changes nothing: a runtime's call and the driver's below it may
    /// both come here.
    fn always(&mut self, code: Code) {
        if code != SUCCESS || !pretend::is_on() {
            return;
        }
        let device = devices::current_ordinal();
        let real = match (self.free.read(), self.total.read()) {
            (Some(free), Some(total)) => Some((free, total)),
            _ => devices::look(device),
        };
        if let Some((free, total)) = real.and_then(|real| pretend::shown(device, Some(real))) {
            self.free.write(free);
            self.total.write(total);
        }
    }
}

/// `cuDeviceTotalMem`: asked before there is any context, perhaps.
pub struct TotalMemory {
    bytes: Bytes,
    device: DeviceOrdinal,
}

impl TotalMemory {
    /// The figure is written to `bytes`.
    pub fn new(bytes: *mut usize, device: DeviceOrdinal) -> TotalMemory {
        TotalMemory {
            bytes: Bytes::Wide(bytes),
            device,
        }
    }

    /// The 32-bit form.
    pub fn new32(bytes: *mut u32, device: DeviceOrdinal) -> TotalMemory {
        TotalMemory {
            bytes: Bytes::Narrow(bytes),
            device,
        }
    }
}

impl Recipe for TotalMemory {
    fn records(&self) -> bool {
        false
    }

    fn always(&mut self, code: Code) {
        let Some(device) = u8::try_from(self.device).ok().filter(|_| code == SUCCESS) else {
            return;
        };
        let Some(capacity) = pretend::capacity_at_any_time(device) else {
            return;
        };
        let real = self.bytes.read().or_else(|| devices::total(device));
        if let Some(real) = real {
            self.bytes.write(real.min(capacity));
        }
    }
}
