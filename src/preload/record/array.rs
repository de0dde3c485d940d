//! CUDA arrays. Their layout is the driver's secret and it tells no size of an ordinary array, so the bytes are computed
//! from the descriptor: an estimate, and marked as one by its space.

use super::memory::allocated;
use super::{Call, Recipe, failure};
use crate::preload::devices;
use crate::preload::hooks::abi::{Code, SUCCESS};
use crate::preload::pretend::{Ask, Memory};
use crate::preload::raw::{Kind, Raw};
use oomhook_trace::Space;
use std::ffi::c_void;

/// `CUDA_ARRAY_DESCRIPTOR` of CUDA 2: 16 bytes.
#[repr(C)]
pub struct Descriptor32 {
    width: u32,
    height: u32,
    format: i32,
    channels: u32,
}

/// `CUDA_ARRAY_DESCRIPTOR`: 24 bytes.
#[repr(C)]
pub struct Descriptor {
    width: usize,
    height: usize,
    format: i32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR` of CUDA 2: 24 bytes.
#[repr(C)]
pub struct Descriptor3D32 {
    width: u32,
    height: u32,
    depth: u32,
    format: i32,
    channels: u32,
    flags: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`: 40 bytes.
#[repr(C)]
pub struct Descriptor3D {
    width: usize,
    height: usize,
    depth: usize,
    format: i32,
    channels: u32,
    flags: u32,
}

const _: () = assert!(size_of::<Descriptor32>() == 16 && size_of::<Descriptor>() == 24);
const _: () = assert!(size_of::<Descriptor3D32>() == 24 && size_of::<Descriptor3D>() == 40);

const LAYERED: u32 = 0x01;
const CUBEMAP: u32 = 0x04;
const SPARSE: u32 = 0x40;
const DEFERRED_MAPPING: u32 = 0x80;

/// What the bytes of an array depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    width: u64,
    height: u64,
    depth: u64,
    format: i32,
    channels: u32,
    flags: u32,
}

impl Shape {
    /// Bytes of `levels` levels, each half as wide, high and (unless layered) deep as the one before.
    fn bytes(self, levels: u32) -> u64 {
        let layered = self.flags & (LAYERED | CUBEMAP) != 0;
        let at = |extent: u64, level: u32| (extent >> level.min(63)).max(1);
        (0..levels.clamp(1, 64))
            .map(|level| {
                let depth = if layered {
                    self.depth.max(1)
                } else {
                    at(self.depth, level)
                };
                self.plane(at(self.width, level), at(self.height, level))
                    .saturating_mul(depth)
            })
            .fold(0, u64::saturating_add)
    }

    fn plane(self, width: u64, height: u64) -> u64 {
        let channels = u64::from(self.channels.max(1));
        let texels = width.saturating_mul(height);
        match self.format {
            // 8-bit integers, also normalised.
            0x01 | 0x08 | 0xc0..=0xc2 | 0xc6..=0xc8 => texels.saturating_mul(channels),
            // 16-bit integers and halves.
            0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => texels.saturating_mul(2 * channels),
            // Blocks of 4 by 4 texels in 8 bytes (BC1, BC4) or 16 (BC2, BC3, BC5, BC6H, BC7).
            0x91 | 0x92 | 0x97 | 0x98 => blocks(width, height).saturating_mul(8),
            0x93..=0x96 | 0x99..=0x9e => blocks(width, height).saturating_mul(16),
            // Video: a full plane of luma and half a plane of chroma (4:2:0), of 1 byte (NV12) or 2 (P010, P016).
            0xb0 => texels.saturating_mul(3) / 2,
            0x9f | 0xa1 => texels.saturating_mul(3),
            // 4:2:2 and packed: two samples a texel, of 1 byte or 2.
            0xa2 | 0xa5 => texels.saturating_mul(2),
            0xa3 | 0xa4 | 0xa6 | 0xa7 => texels.saturating_mul(4),
            // 4:4:4: three or four samples a texel, of 1 byte or 2.
            0xb2 | 0xb4 => texels.saturating_mul(3),
            0xb3 | 0xb5 => texels.saturating_mul(6),
            0xb1 => texels.saturating_mul(8),
            // Packed into 32 bits: AYUV, Y410, 10-10-10-2.
            0xa8 | 0xa9 | 0x50 => texels.saturating_mul(4),
            // 32-bit integers and floats; what is not known counts as them.
            _ => texels.saturating_mul(4 * channels),
        }
    }

    /// Sparse arrays and those whose mapping is deferred own no memory: a handle is mapped into them.
    fn owns_memory(self) -> bool {
        self.flags & (SPARSE | DEFERRED_MAPPING) == 0
    }
}

fn blocks(width: u64, height: u64) -> u64 {
    width.div_ceil(4).saturating_mul(height.div_ceil(4))
}

/// An array or a mipmapped array.
pub struct CreateArray {
    handle: *mut *mut c_void,
    shape: Option<Shape>,
    levels: u32,
}

impl CreateArray {
    /// `cuArrayCreate` of CUDA 2.
    pub fn from32(handle: *mut *mut c_void, descriptor: *const Descriptor32) -> CreateArray {
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let shape = unsafe { descriptor.as_ref() }.map(|from| Shape {
            width: u64::from(from.width),
            height: u64::from(from.height),
            depth: 0,
            format: from.format,
            channels: from.channels,
            flags: 0,
        });
        CreateArray {
            handle,
            shape,
            levels: 1,
        }
    }

    /// `cuArrayCreate_v2`.
    pub fn new(handle: *mut *mut c_void, descriptor: *const Descriptor) -> CreateArray {
        // SAFETY: as above.
        let shape = unsafe { descriptor.as_ref() }.map(|from| Shape {
            width: from.width as u64,
            height: from.height as u64,
            depth: 0,
            format: from.format,
            channels: from.channels,
            flags: 0,
        });
        CreateArray {
            handle,
            shape,
            levels: 1,
        }
    }

    /// `cuArray3DCreate` of CUDA 2.
    pub fn from3d32(handle: *mut *mut c_void, descriptor: *const Descriptor3D32) -> CreateArray {
        // SAFETY: as above.
        let shape = unsafe { descriptor.as_ref() }.map(|from| Shape {
            width: u64::from(from.width),
            height: u64::from(from.height),
            depth: u64::from(from.depth),
            format: from.format,
            channels: from.channels,
            flags: from.flags,
        });
        CreateArray {
            handle,
            shape,
            levels: 1,
        }
    }

    /// `cuArray3DCreate_v2`, and `cuMipmappedArrayCreate` with more than one level.
    pub fn from3d(
        handle: *mut *mut c_void,
        descriptor: *const Descriptor3D,
        levels: u32,
    ) -> CreateArray {
        // SAFETY: as above.
        let shape = unsafe { descriptor.as_ref() }.map(|from| Shape {
            width: from.width as u64,
            height: from.height as u64,
            depth: from.depth as u64,
            format: from.format,
            channels: from.channels,
            flags: from.flags,
        });
        CreateArray {
            handle,
            shape,
            levels,
        }
    }

    fn address(&self) -> u64 {
        if self.handle.is_null() {
            return 0;
        }
        // SAFETY: called after success only: the driver has just written the handle.
        unsafe { self.handle.read() as u64 }
    }
}

impl Recipe for CreateArray {
    fn starts(&self) -> bool {
        true
    }

    fn asks(&self) -> Option<Ask> {
        let shape = self.shape.filter(|shape| shape.width != 0)?;
        if self.handle.is_null() {
            return None;
        }
        if !shape.owns_memory() {
            return Some(Ask::unlimited());
        }
        Ask::new(shape.bytes(self.levels), Memory::Current)
    }

    fn after(&mut self, call: &Call, code: Code) {
        let requested = self.shape.map(|shape| shape.bytes(self.levels));
        if code != SUCCESS {
            return failure::record(call, Some(Space::Array), requested, code);
        }
        let requested = requested.unwrap_or(0);
        let owned = self.shape.is_none_or(Shape::owns_memory);
        let bytes = if owned { requested } else { 0 };
        let place = devices::current(call);
        let raw = Raw {
            a: self.address(),
            b: bytes,
            c: requested,
            ..Raw::new(Kind::Alloc)
        };
        allocated(
            call,
            Space::Array,
            Raw {
                d: place.context,
                device: place.device,
                ..raw
            },
        );
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        self.after(call, code);
        code == SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(width: u64, height: u64, depth: u64, format: i32, channels: u32, flags: u32) -> Shape {
        Shape {
            width,
            height,
            depth,
            format,
            channels,
            flags,
        }
    }

    #[test]
    fn bytes_follow_from_the_descriptor() {
        const FLOAT: i32 = 0x20;
        assert_eq!(shape(256, 256, 0, FLOAT, 4, 0).bytes(1), 1_048_576);
        assert_eq!(shape(256, 256, 0, FLOAT, 1, 0).bytes(9), 349_524);
        assert_eq!(shape(100, 0, 0, 0x01, 1, 0).bytes(1), 100);
        assert_eq!(shape(8, 8, 8, 0x10, 2, 0).bytes(1), 8 * 8 * 8 * 4);
        // Layers do not get fewer from level to level; slices do.
        assert_eq!(shape(4, 4, 6, 0x01, 1, LAYERED).bytes(2), 6 * (16 + 4));
        assert_eq!(shape(4, 4, 4, 0x01, 1, 0).bytes(2), 4 * 16 + 2 * 4);
        // 10 by 10 texels are 3 by 3 blocks.
        assert_eq!(shape(10, 10, 0, 0x91, 4, 0).bytes(1), 9 * 8);
        assert_eq!(shape(10, 10, 0, 0x9d, 4, 0).bytes(1), 9 * 16);
        assert_eq!(shape(64, 64, 0, 0xb0, 3, 0).bytes(1), 6144);
        assert_eq!(
            shape(u64::MAX, u64::MAX, u64::MAX, FLOAT, 4, 0).bytes(1),
            u64::MAX
        );
    }

    #[test]
    fn some_arrays_own_nothing() {
        assert!(!shape(1, 1, 1, 1, 1, SPARSE).owns_memory());
        assert!(!shape(1, 1, 1, 1, 1, DEFERRED_MAPPING).owns_memory());
        assert!(shape(1, 1, 1, 1, 1, LAYERED).owns_memory());
    }
}
