//! Types, structs and numbers of the driver's C interface.

pub mod array;
pub mod graph;
pub mod share;

use std::ffi::c_int;

/// `CUdevice`: the ordinal.
pub type Device = c_int;
/// `CUdeviceptr`.
pub type DevicePtr = u64;
/// An address of host memory that is looked up, not followed.
pub type HostPtr = usize;
/// Any opaque handle: context, stream, event, pool, module. Looked up, never followed.
pub type Handle = usize;
/// `CUmemGenericAllocationHandle`.
pub type Physical = u64;

/// The legacy default stream by its own name.
pub const STREAM_LEGACY: Handle = 1;
/// The per-thread default stream by its own name.
pub const STREAM_PER_THREAD: Handle = 2;
/// `CU_STREAM_NON_BLOCKING`.
pub const STREAM_NON_BLOCKING: u32 = 1;

/// `CU_MEM_LOCATION_TYPE_NONE`: managed memory that prefers no place.
pub const LOCATION_NONE: c_int = 0;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const LOCATION_DEVICE: c_int = 1;
/// `CU_MEM_LOCATION_TYPE_HOST`.
pub const LOCATION_HOST: c_int = 2;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA`.
pub const LOCATION_HOST_NUMA: c_int = 3;
/// `CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT`.
pub const LOCATION_HOST_NUMA_CURRENT: c_int = 4;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
pub const ALLOCATION_PINNED: c_int = 1;
/// `CU_MEM_ALLOCATION_TYPE_MANAGED`.
pub const ALLOCATION_MANAGED: c_int = 2;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
pub const ACCESS_READ_WRITE: c_int = 3;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Location {
    pub kind: c_int,
    pub id: c_int,
}

impl Location {
    pub fn device(device: usize) -> Location {
        Location {
            kind: LOCATION_DEVICE,
            id: device as c_int,
        }
    }
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationProp {
    pub kind: c_int,
    pub handle_types: c_int,
    pub location: Location,
    pub win32: usize,
    pub flags: u64,
}

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolProps {
    pub kind: c_int,
    pub handle_types: c_int,
    pub location: Location,
    pub win32: usize,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

impl PoolProps {
    /// Of pinned memory at a place, for this process alone.
    pub fn new(location: Location) -> PoolProps {
        PoolProps {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location,
            win32: 0,
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: c_int,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Location>(), 8);
        assert_eq!(size_of::<AllocationProp>(), 32);
        assert_eq!(size_of::<PoolProps>(), 88);
        assert_eq!(size_of::<AccessDesc>(), 12);
        assert_eq!(std::mem::offset_of!(PoolProps, max_size), 24);
        assert_eq!(std::mem::offset_of!(AllocationProp, flags), 24);
    }
}
