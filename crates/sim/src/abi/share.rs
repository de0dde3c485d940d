//! Structs of memory that crosses processes, interfaces and devices.

use super::array::Deep;
use crate::ticket::Bytes;
use std::ffi::c_int;

/// `CUipcMemHandle`, `CUipcEventHandle`: passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IpcHandle {
    pub bytes: Bytes,
}

/// `CUexternalMemoryHandleType`: of an opaque file descriptor, and the last one there is.
pub const EXTERNAL_FILE: c_int = 1;
pub const EXTERNAL_LAST: c_int = 9;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`; in the union, a file descriptor stands first.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalHandle {
    pub kind: c_int,
    pub gap: c_int,
    pub file: c_int,
    pub rest: [c_int; 3],
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalBuffer {
    pub offset: u64,
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalMipmap {
    pub offset: u64,
    pub shape: Deep<usize>,
    pub levels: u32,
    pub reserved: [u32; 16],
}

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MulticastProp {
    pub devices: u32,
    pub size: usize,
    pub handle_types: u64,
    pub flags: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<IpcHandle>(), 64);
        assert_eq!(size_of::<ExternalHandle>(), 104);
        assert_eq!(offset_of!(ExternalHandle, file), 8);
        assert_eq!(offset_of!(ExternalHandle, size), 24);
        assert_eq!(size_of::<ExternalBuffer>(), 88);
        assert_eq!(size_of::<ExternalMipmap>(), 120);
        assert_eq!(offset_of!(ExternalMipmap, levels), 48);
        assert_eq!(size_of::<MulticastProp>(), 32);
        assert_eq!(offset_of!(MulticastProp, handle_types), 16);
    }
}
