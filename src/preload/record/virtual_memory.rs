//! Virtual memory management: physical handles and their mappings. (Reserved address ranges are ordinary blocks of their
//! own space, see `memory`.)

use super::memory::allocated;
use super::{Call, Recipe, failure};
use crate::preload::hooks::abi::{Code, LOCATION_DEVICE, SUCCESS, VmmHandle, VmmProperties};
use crate::preload::pretend::{Ask, Memory};
use crate::preload::raw::{Kind, NO_DEVICE, Raw};
use oomhook_trace::Space;

/// `cuMemCreate`: needs no context; the properties name the place, which may be the host.
pub struct CreateHandle {
    handle: *mut VmmHandle,
    bytes: u64,
    device: u8,
    /// The caller gave properties; the driver refuses a call without.
    described: bool,
}

impl CreateHandle {
    /// The handle is written to `handle`.
    pub fn new(
        handle: *mut VmmHandle,
        bytes: usize,
        properties: *const VmmProperties,
    ) -> CreateHandle {
        let device = if properties.is_null() {
            NO_DEVICE
        } else {
            // SAFETY: not NULL, and the driver is about to read the same structure.
            let location = unsafe { (*properties).location };
            match location.kind {
                LOCATION_DEVICE => u8::try_from(location.id).unwrap_or(NO_DEVICE),
                _ => NO_DEVICE,
            }
        };
        CreateHandle {
            handle,
            bytes: bytes as u64,
            device,
            described: !properties.is_null(),
        }
    }

    /// Physical memory on the host is pinned memory.
    fn space(&self) -> Space {
        if self.device == NO_DEVICE {
            Space::Pinned
        } else {
            Space::Vmm
        }
    }
}

impl Recipe for CreateHandle {
    fn starts(&self) -> bool {
        true
    }

    fn asks(&self) -> Option<Ask> {
        if self.handle.is_null() || !self.described {
            return None;
        }
        let memory = match self.device {
            NO_DEVICE => Memory::Unlimited,
            device => Memory::Device(device),
        };
        Ask::new(self.bytes, memory)
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            let (space, bytes) = (Some(self.space()), Some(self.bytes));
            return failure::record_on(call, space, bytes, code, None, self.device);
        }
        if self.handle.is_null() {
            return;
        }
        // SAFETY: the driver has just written the handle, successfully.
        let handle = unsafe { self.handle.read() };
        let raw = Raw {
            a: handle,
            b: self.bytes,
            c: self.bytes,
            ..Raw::new(Kind::Alloc)
        };
        allocated(
            call,
            self.space(),
            Raw {
                device: self.device,
                ..raw
            },
        );
    }
}

/// `cuMemRetainAllocationHandle`: one more reference, to be released by itself.
pub struct RetainHandle {
    handle: *mut VmmHandle,
}

impl RetainHandle {
    /// The handle is written to `handle`.
    pub fn new(handle: *mut VmmHandle) -> RetainHandle {
        RetainHandle { handle }
    }
}

impl Recipe for RetainHandle {
    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS && !self.handle.is_null() {
            // SAFETY: the driver has just written the handle, successfully.
            let handle = unsafe { self.handle.read() };
            call.send_here(Raw {
                a: handle,
                ..Raw::new(Kind::Retain)
            });
        }
    }
}

/// `cuMemMap`: keeps the physical memory alive, whatever becomes of the handle.
pub struct MapHandle {
    address: u64,
    bytes: u64,
    offset: u64,
    handle: VmmHandle,
}

impl MapHandle {
    /// `bytes` of `handle` from `offset`, at `address`.
    pub fn new(address: u64, bytes: usize, offset: usize, handle: VmmHandle) -> MapHandle {
        MapHandle {
            address,
            bytes: bytes as u64,
            offset: offset as u64,
            handle,
        }
    }
}

impl Recipe for MapHandle {
    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            let raw = Raw {
                a: self.address,
                b: self.bytes,
                c: self.handle,
                ..Raw::new(Kind::Map)
            };
            call.send_here(Raw {
                d: self.offset,
                ..raw
            });
        }
    }
}

/// `cuMemUnmap`: may end the life of physical memory, so it is announced like a free.
pub struct Unmap {
    address: u64,
    bytes: u64,
}

impl Unmap {
    /// The mappings in this range.
    pub fn new(address: u64, bytes: usize) -> Unmap {
        Unmap {
            address,
            bytes: bytes as u64,
        }
    }
}

impl Recipe for Unmap {
    fn before(&mut self, call: &Call) {
        call.send_here(Raw {
            a: self.address,
            b: self.bytes,
            ..Raw::new(Kind::Unmap)
        });
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            call.send(Raw {
                a: self.address,
                b: code as u64,
                ..Raw::new(Kind::Undo)
            });
        }
    }
}

/// `CUmulticastObjectProp`, as far as it is looked at.
#[repr(C)]
pub struct MulticastProperties {
    devices: u32,
    size: usize,
}

/// `cuMulticastCreate`: a handle that owns no memory.
pub struct CreateMulticast {
    handle: *mut VmmHandle,
    size: u64,
}

impl CreateMulticast {
    /// The handle is written to `handle`.
    pub fn new(handle: *mut VmmHandle, properties: *const MulticastProperties) -> CreateMulticast {
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let size = unsafe { properties.as_ref() }.map_or(0, |properties| properties.size as u64);
        CreateMulticast { handle, size }
    }
}

impl Recipe for CreateMulticast {
    fn starts(&self) -> bool {
        true
    }

    fn asks(&self) -> Option<Ask> {
        (!self.handle.is_null() && self.size != 0).then(Ask::unlimited)
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return failure::record(call, Some(Space::Vmm), Some(self.size), code);
        }
        if !self.handle.is_null() {
            // SAFETY: the driver has just written the handle, successfully.
            let handle = unsafe { self.handle.read() };
            allocated(
                call,
                Space::Vmm,
                Raw {
                    a: handle,
                    c: self.size,
                    ..Raw::new(Kind::Alloc)
                },
            );
        }
    }
}
