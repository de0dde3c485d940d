//! Structs and numbers of NVML's C interface, and the texts of its codes.

use crate::codes::Code;
use std::ffi::{CStr, c_char, c_int};

/// `nvmlDevice_t`. Looked up, never followed.
pub type Device = usize;

/// `NVML_VALUE_NOT_AVAILABLE` in 64 bits.
pub const NOT_AVAILABLE: u64 = u64::MAX;
/// No instance of a sliced device.
pub const NO_INSTANCE: u32 = u32::MAX;
/// `nvmlMemory_v2`: its size and its version.
pub const MEMORY_V2: u32 = size_of::<MemoryV2>() as u32 | 2 << 24;

pub const UNINITIALIZED: Code = Code(1);
pub const INVALID_ARGUMENT: Code = Code(2);
pub const NOT_SUPPORTED: Code = Code(3);
pub const NOT_FOUND: Code = Code(6);
pub const INSUFFICIENT_SIZE: Code = Code(7);
pub const VERSION_MISMATCH: Code = Code(25);
pub const UNKNOWN: Code = Code(999);

/// `nvmlErrorString`.
pub fn text(code: c_int) -> &'static CStr {
    match code {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        13 => c"Function Not Found",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"GPU access blocked by the operating system",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        25 => c"Argument version mismatch",
        _ => c"Unknown Error",
    }
}

/// `nvmlMemory_t`; `used` includes what is reserved.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
    pub used: u64,
}

/// `nvmlMemory_v2_t`; what is reserved stands apart.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryV2 {
    pub version: u32,
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

/// `nvmlProcessInfo_t` of the third version of its functions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessInfo {
    pub pid: u32,
    pub used: u64,
    pub gpu_instance: u32,
    pub compute_instance: u32,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PciInfo {
    pub legacy: [c_char; 16],
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub id: u32,
    pub subsystem: u32,
    pub bus_id: [c_char; 32],
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Utilization {
    pub gpu: u32,
    pub memory: u32,
}

/// A short text in a field of fixed length, terminated.
pub fn field<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field[..N - 1].iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Memory>(), 24);
        assert_eq!(size_of::<MemoryV2>(), 40);
        assert_eq!(size_of::<ProcessInfo>(), 24);
        assert_eq!(size_of::<PciInfo>(), 68);
        assert_eq!(size_of::<Utilization>(), 8);
        assert_eq!(std::mem::offset_of!(PciInfo, bus_id), 36);
        assert_eq!(MEMORY_V2, 0x0200_0028);
    }
}
