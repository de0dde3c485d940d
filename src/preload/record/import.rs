//! Memory that is owned elsewhere: by another process (IPC, shared handles, pool pointers) or another interface (Vulkan,
//! OpenGL). It is listed in a space of its own and never added to this process's.

use super::memory::allocated;
use super::{Call, Recipe, failure};
use crate::preload::devices;
use crate::preload::hooks::abi::{Code, IpcHandle, SUCCESS, VmmHandle};
use crate::preload::raw::{Kind, Raw};
use oomhook_trace::Space;
use oomhook_trace::record::DeedKind;
use std::ffi::c_void;

fn imported(call: &Call, address: u64, bytes: u64, requested: u64) {
    let place = devices::current(call);
    let raw = Raw {
        a: address,
        b: bytes,
        c: requested,
        ..Raw::new(Kind::Alloc)
    };
    allocated(
        call,
        Space::Imported,
        Raw {
            device: place.device,
            ..raw
        },
    );
}

/// Once more than its block says: the same memory may be opened several times, and `print` tells whose it is.
fn opened(call: &Call, address: u64, bytes: u64, print: u64) {
    let device = devices::current(call).device;
    let raw = Raw {
        a: address,
        b: bytes,
        c: print,
        ..Raw::new(Kind::Deed)
    };
    call.send_here(Raw {
        d: DeedKind::Open as u64,
        device,
        ..raw
    });
}

/// What others get to open memory with.
enum Handle {
    /// A handle that can be told by its bytes.
    Bytes(*const IpcHandle),
    /// A file, which has another number in each process.
    File,
}

/// Memory is offered to other processes.
pub struct Export {
    address: u64,
    bytes: u64,
    handle: Handle,
}

impl Export {
    /// `cuIpcGetMemHandle`, `cuMemPoolExportPointer`: 64 bytes are written to `handle`.
    pub fn pointer(handle: *const c_void, address: u64) -> Export {
        Export {
            address,
            bytes: 0,
            handle: Handle::Bytes(handle.cast()),
        }
    }

    /// `cuMemExportToShareableHandle` and its like: a file is written.
    pub fn file(subject: u64, bytes: usize) -> Export {
        Export {
            address: subject,
            bytes: bytes as u64,
            handle: Handle::File,
        }
    }
}

impl Recipe for Export {
    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return;
        }
        let print = match self.handle {
            // SAFETY: the driver has just written 64 bytes there, successfully.
            Handle::Bytes(handle) => unsafe { handle.as_ref() }.map_or(0, IpcHandle::print),
            Handle::File => 0,
        };
        let raw = Raw {
            a: self.address,
            b: self.bytes,
            c: print,
            ..Raw::new(Kind::Deed)
        };
        call.send_here(Raw {
            d: DeedKind::Export as u64,
            ..raw
        });
    }
}

/// A pointer to memory of another process: `cuIpcOpenMemHandle`, `cuMemPoolImportPointer`.
pub struct ImportPointer {
    pointer: *mut u64,
    print: u64,
}

impl ImportPointer {
    /// The pointer is written to `pointer`.
    pub fn new(pointer: *mut u64, handle: &IpcHandle) -> ImportPointer {
        ImportPointer {
            pointer,
            print: handle.print(),
        }
    }

    /// The same with the handle in memory: `CUmemPoolPtrExportData`, also 64 bytes.
    pub fn of_data(pointer: *mut u64, data: *const c_void) -> ImportPointer {
        // SAFETY: the driver is about to read the same 64 bytes, if it is not NULL.
        let handle = unsafe { data.cast::<IpcHandle>().as_ref() };
        ImportPointer {
            pointer,
            print: handle.map_or(0, IpcHandle::print),
        }
    }
}

impl Recipe for ImportPointer {
    fn starts(&self) -> bool {
        true
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return failure::record(call, Some(Space::Imported), None, code);
        }
        if self.pointer.is_null() {
            return;
        }
        // SAFETY: the driver has just written the pointer, successfully.
        let address = unsafe { self.pointer.read_unaligned() };
        // The call names no size; the driver knows the range (and answers during captures, too).
        let bytes = devices::range_size(address);
        imported(call, address, bytes, bytes);
        opened(call, address, bytes, self.print);
    }
}

/// A physical handle of another process: `cuMemImportFromShareableHandle`.
pub struct ImportHandle {
    handle: *mut VmmHandle,
}

impl ImportHandle {
    /// The handle is written to `handle`.
    pub fn new(handle: *mut VmmHandle) -> ImportHandle {
        ImportHandle { handle }
    }
}

impl Recipe for ImportHandle {
    fn starts(&self) -> bool {
        true
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return failure::record(call, Some(Space::Imported), None, code);
        }
        if !self.handle.is_null() {
            // SAFETY: the driver has just written the handle, successfully.
            let handle = unsafe { self.handle.read() };
            // Its size is known only once it is mapped.
            imported(call, handle, 0, 0);
            opened(call, handle, 0, 0);
        }
    }
}

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`, 104 bytes.
#[repr(C)]
pub struct ExternalMemory {
    kind: i32,
    handle: [u64; 2],
    size: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`, 88 bytes.
#[repr(C)]
pub struct ExternalBuffer {
    offset: u64,
    size: u64,
    flags: u32,
    reserved: [u32; 16],
}

const _: () = assert!(size_of::<ExternalMemory>() == 104 && size_of::<ExternalBuffer>() == 88);

/// `cuImportExternalMemory`, and the buffers and arrays that are mapped from it.
pub struct ImportExternal {
    handle: *mut *mut c_void,
    bytes: u64,
    /// A mapping shows memory that is counted with its import.
    mapped: Option<Space>,
}

impl ImportExternal {
    /// The memory's handle is written to `handle`.
    pub fn memory(handle: *mut *mut c_void, descriptor: *const ExternalMemory) -> ImportExternal {
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let bytes = unsafe { descriptor.as_ref() }.map_or(0, |descriptor| descriptor.size);
        ImportExternal {
            handle,
            bytes,
            mapped: None,
        }
    }

    /// The buffer's address is written to `pointer`.
    pub fn buffer(pointer: *mut u64, descriptor: *const ExternalBuffer) -> ImportExternal {
        // SAFETY: as above.
        let bytes = unsafe { descriptor.as_ref() }.map_or(0, |descriptor| descriptor.size);
        ImportExternal {
            handle: pointer.cast(),
            bytes,
            mapped: Some(Space::Imported),
        }
    }

    /// The array's handle is written to `handle`.
    pub fn array(handle: *mut *mut c_void) -> ImportExternal {
        ImportExternal {
            handle,
            bytes: 0,
            mapped: Some(Space::Array),
        }
    }
}

impl Recipe for ImportExternal {
    fn starts(&self) -> bool {
        true
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return failure::record(call, Some(Space::Imported), Some(self.bytes), code);
        }
        if self.handle.is_null() {
            return;
        }
        // SAFETY: the driver has just written the handle (or the address, of the same size), successfully.
        let address = unsafe { self.handle.read_unaligned() } as u64;
        match self.mapped {
            None => imported(call, address, self.bytes, self.bytes),
            Some(Space::Imported) => imported(call, address, 0, self.bytes),
            Some(space) => {
                let place = devices::current(call);
                let raw = Raw {
                    a: address,
                    d: place.context,
                    ..Raw::new(Kind::Alloc)
                };
                allocated(
                    call,
                    space,
                    Raw {
                        device: place.device,
                        ..raw
                    },
                );
            }
        }
    }
}
