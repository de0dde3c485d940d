//! Structs of arrays.

use super::{Handle, Physical};
use std::ffi::c_int;

/// `CUDA_ARRAY3D_SPARSE`: memory is mapped into it tile by tile.
pub const SPARSE: u32 = 0x40;
/// `CUDA_ARRAY3D_DEFERRED_MAPPING`: memory is mapped into it later, and as a whole.
pub const DEFERRED: u32 = 0x80;
/// `CUDA_ARRAY3D_LAYERED`: the depth counts layers.
pub const LAYERED: u32 = 0x01;
/// `CUDA_ARRAY3D_CUBEMAP`: the depth counts faces.
pub const CUBEMAP: u32 = 0x04;

/// `CUDA_ARRAY_DESCRIPTOR`; the old one has sizes of 32 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flat<S> {
    pub width: S,
    pub height: S,
    pub format: c_int,
    pub channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`; the old one has sizes of 32 bits.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deep<S> {
    pub width: S,
    pub height: S,
    pub depth: S,
    pub format: c_int,
    pub channels: u32,
    pub flags: u32,
}

/// `CUDA_ARRAY_MEMORY_REQUIREMENTS`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirements {
    pub size: usize,
    pub alignment: usize,
    pub reserved: [u32; 4],
}

/// Which part of an array `CUarrayMapInfo` means: level, layer, offsets and extents, or the tail.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part(pub [u32; 8]);

/// `CUarrayMapInfo`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MapInfo {
    /// 0: an array, 1: a mipmapped one.
    pub resource_kind: c_int,
    pub resource: Handle,
    pub part_kind: c_int,
    pub part: Part,
    /// 1: map, 2: unmap.
    pub operation: c_int,
    /// 0: a physical handle.
    pub memory_kind: c_int,
    pub memory: Physical,
    pub offset: u64,
    pub devices: u32,
    pub flags: u32,
    pub reserved: [u32; 2],
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Flat<u32>>(), size_of::<Flat<usize>>()), (16, 24));
        assert_eq!((size_of::<Deep<u32>>(), size_of::<Deep<usize>>()), (24, 40));
        assert_eq!(offset_of!(Deep<usize>, flags), 32);
        assert_eq!(size_of::<Requirements>(), 32);
        assert_eq!(size_of::<MapInfo>(), 96);
        assert_eq!(offset_of!(MapInfo, part), 24);
        assert_eq!(offset_of!(MapInfo, operation), 56);
        assert_eq!(offset_of!(MapInfo, memory), 64);
        assert_eq!(offset_of!(MapInfo, devices), 80);
    }
}
