//! The C types of the CUDA driver and runtime interfaces, as far as the hooks look at them.

use std::ffi::c_void;

/// `CUresult` or `cudaError_t`; 0 is success.
pub type Code = i32;
/// `CUDA_SUCCESS`.
pub const SUCCESS: Code = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`, `cudaErrorMemoryAllocation`.
pub const OUT_OF_MEMORY: Code = 2;
/// `CUDA_ERROR_NOT_INITIALIZED`, `cudaErrorInitializationError`.
pub const NOT_INITIALIZED: Code = 3;
/// `CUDA_ERROR_INVALID_DEVICE`, `cudaErrorInvalidDevice`.
pub const INVALID_DEVICE: Code = 101;

/// `CUdeviceptr`.
pub type DevicePointer = u64;
/// `CUdeviceptr_v1`: the bare symbols `cuMemAlloc`, `cuMemFree` … still take it.
pub type DevicePointer32 = u32;
/// `CUdevice`.
pub type DeviceOrdinal = i32;
/// `CUcontext`.
pub type Context = *mut c_void;
/// `CUstream`, `cudaStream_t`.
pub type Stream = *mut c_void;
/// `CUmemoryPool`, `cudaMemPool_t`.
pub type Pool = *mut c_void;
/// `CUarray`, `CUmipmappedArray` and the runtime's own.
pub type Array = *mut c_void;
/// `CUgraph`, `CUgraphExec` and the runtime's own.
pub type Graph = *mut c_void;
/// `CUmodule`, `CUlibrary`.
pub type Module = *mut c_void;
/// `CUfunction`.
pub type Function = *mut c_void;
/// `CUevent`, `cudaEvent_t`.
pub type Event = *mut c_void;
/// `CUexternalMemory`, `cudaExternalMemory_t`.
pub type External = *mut c_void;
/// `CUmemGenericAllocationHandle`.
pub type VmmHandle = u64;

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
pub const LOCATION_DEVICE: i32 = 1;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// Device, host, host NUMA node.
    pub kind: i32,
    /// Device ordinal or node.
    pub id: i32,
}

/// `CUmemAllocationProp`, 32 bytes.
#[repr(C)]
pub struct VmmProperties {
    /// Allocation type.
    pub kind: i32,
    /// Requested handle types.
    pub handle_types: i32,
    /// Where the memory is.
    pub location: Location,
    /// Unused on Linux.
    pub win32: *mut c_void,
    /// Compression, RDMA, usage.
    pub flags: [u8; 8],
}

/// `CUmemPoolProps`, 88 bytes.
#[repr(C)]
pub struct PoolProperties {
    /// Allocation type.
    pub kind: i32,
    /// Requested handle types.
    pub handle_types: i32,
    /// Where the memory is.
    pub location: Location,
    /// Unused here.
    pub rest: [u8; 72],
}

/// `CUipcMemHandle`, `cudaIpcMemHandle_t`: passed by value, so in memory on x86_64 and by a hidden reference on aarch64.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle([u8; 64]);

impl IpcHandle {
    /// A number that tells handles apart, and opens nothing: a trace is read by others than the process.
    pub fn print(&self) -> u64 {
        let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        self.0.iter().fold(0xcbf2_9ce4_8422_2325, mix).max(1)
    }
}

/// `dim3`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

/// `cudaExtent`, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Extent {
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
pub struct PitchedPointer {
    /// The memory.
    pub pointer: *mut c_void,
    /// Bytes from row to row.
    pub pitch: usize,
    /// Logical width.
    pub width: usize,
    /// Logical height.
    pub height: usize,
}

const _: () = assert!(size_of::<VmmProperties>() == 32);
const _: () = assert!(size_of::<PoolProperties>() == 88);
const _: () = assert!(size_of::<Extent>() == 24);
const _: () = assert!(size_of::<PitchedPointer>() == 32);
