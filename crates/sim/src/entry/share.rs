//! Memory that crosses processes, interfaces and devices by files and objects.

use super::entries;
use crate::abi::share::{
    EXTERNAL_FILE, EXTERNAL_LAST, ExternalBuffer, ExternalHandle, ExternalMipmap, MulticastProp,
};
use crate::abi::{Device, DevicePtr, Handle, Physical};
use crate::codes::{Answer, Code, require};
use crate::gate::Call;
use crate::os;
use crate::pointer::{In, Out};
use crate::state::{Driver, Thread};
use crate::ticket::Bytes;
use std::ffi::{c_int, c_void};

/// Gives out a new file, whose contents the driver says.
fn give_file(
    call: Call,
    out: Out<c_void>,
    contents: impl FnOnce(&mut Driver, Thread) -> Answer<Bytes>,
) -> c_int {
    call.give(out.typed::<c_int>(), |driver, thread| {
        let contents = contents(driver, thread)?;
        os::file_with(&contents).ok_or(Code::OUT_OF_MEMORY)
    })
}

entries! {
    "cuMemPoolExportToShareableHandle" 11020 => fn cuMemPoolExportToShareableHandle(call, out: Out<c_void>, pool: Handle, kind: u32, flags: u64) {
        give_file(call, out, |driver, _| driver.export_pool(pool, kind, flags))
    }
    "cuMemPoolImportFromShareableHandle" 11020 => fn cuMemPoolImportFromShareableHandle(call, out: Out<Handle>, file: usize, kind: u32, flags: u64) {
        call.give(out, |driver, _| driver.import_pool(os::contents_of(file as c_int), kind, flags))
    }
    "cuMemPoolExportPointer" 11020 => fn cuMemPoolExportPointer(call, out: Out<Bytes>, address: DevicePtr) {
        call.give(out, |driver, _| driver.export_pointer(address))
    }
    "cuMemPoolImportPointer" 11020 => fn cuMemPoolImportPointer(call, out: Out<DevicePtr>, pool: Handle, data: In<Bytes>) {
        call.give(out, |driver, _| driver.import_pointer(pool, data.get().ok_or(Code::INVALID_VALUE)?))
    }
    "cuMemExportToShareableHandle" 10020 => fn cuMemExportToShareableHandle(call, out: Out<c_void>, handle: Physical, kind: u32, flags: u64) {
        give_file(call, out, |driver, _| driver.export_physical(handle, kind, flags))
    }
    "cuMemImportFromShareableHandle" 10020 => fn cuMemImportFromShareableHandle(call, out: Out<Physical>, file: usize, kind: u32) {
        call.give(out, |driver, _| driver.import_physical(os::contents_of(file as c_int), kind))
    }
    "cuMemGetHandleForAddressRange" 11070 => fn cuMemGetHandleForAddressRange(call, out: Out<c_void>, address: DevicePtr, size: usize, kind: u32, flags: u64) {
        give_file(call, out, |driver, _| driver.export_range(address, size as u64, kind, flags))
    }
    "cuImportExternalMemory" 10000 => fn cuImportExternalMemory(call, out: Out<Handle>, desc: In<ExternalHandle>) {
        call.give(out, |driver, thread| {
            let desc = desc.get().ok_or(Code::INVALID_VALUE)?;
            require((EXTERNAL_FILE..=EXTERNAL_LAST).contains(&desc.kind))?;
            let file = (desc.kind == EXTERNAL_FILE).then_some(desc.file);
            driver.import_external(thread, desc.size, file)
        })
    }
    "cuExternalMemoryGetMappedBuffer" 10000 => fn cuExternalMemoryGetMappedBuffer(call, out: Out<DevicePtr>, external: Handle, desc: In<ExternalBuffer>) {
        call.give(out, |driver, thread| {
            let ExternalBuffer { offset, size, .. } = desc.get().ok_or(Code::INVALID_VALUE)?;
            driver.map_external(thread, external, offset, size)
        })
    }
    "cuExternalMemoryGetMappedMipmappedArray" 10000 => fn cuExternalMemoryGetMappedMipmappedArray(call, out: Out<Handle>, external: Handle, desc: In<ExternalMipmap>) {
        call.give(out, |driver, thread| {
            let ExternalMipmap { offset, shape, levels, .. } = desc.get().ok_or(Code::INVALID_VALUE)?;
            driver.map_external_mipmap(thread, external, offset, shape, levels)
        })
    }
    "cuDestroyExternalMemory" 10000 => fn cuDestroyExternalMemory(call, external: Handle) {
        call.act(|driver, _| driver.destroy_external(external))
    }
    "cuMulticastCreate" 12010 => fn cuMulticastCreate(call, out: Out<Physical>, prop: In<MulticastProp>) {
        call.give(out, |driver, _| driver.create_multicast(prop.get().ok_or(Code::INVALID_VALUE)?))
    }
    "cuMulticastAddDevice" 12010 => fn cuMulticastAddDevice(call, object: Physical, device: Device) {
        call.act(|driver, _| driver.add_multicast_device(object, device))
    }
    "cuMulticastBindMem" 12010 => fn cuMulticastBindMem(call, object: Physical, offset: usize, memory: Physical, memory_offset: usize, size: usize, flags: u64) {
        call.act(|driver, _| {
            require(flags == 0)?;
            driver.bind_multicast(object, None, offset as u64, (memory, memory_offset as u64), size as u64)
        })
    }
    "cuMulticastBindMem" 13010 => fn cuMulticastBindMem_v2(call, object: Physical, device: Device, offset: usize, memory: Physical, memory_offset: usize, size: usize, flags: u64) {
        call.act(|driver, _| {
            require(flags == 0)?;
            driver.bind_multicast(object, Some(device), offset as u64, (memory, memory_offset as u64), size as u64)
        })
    }
    "cuMulticastBindAddr" 12010 => fn cuMulticastBindAddr(call, object: Physical, offset: usize, address: DevicePtr, size: usize, flags: u64) {
        call.act(|driver, _| {
            require(flags == 0)?;
            driver.bind_multicast_address(object, None, offset as u64, address, size as u64)
        })
    }
    "cuMulticastBindAddr" 13010 => fn cuMulticastBindAddr_v2(call, object: Physical, device: Device, offset: usize, address: DevicePtr, size: usize, flags: u64) {
        call.act(|driver, _| {
            require(flags == 0)?;
            driver.bind_multicast_address(object, Some(device), offset as u64, address, size as u64)
        })
    }
    "cuMulticastUnbind" 12010 => fn cuMulticastUnbind(call, object: Physical, device: Device, offset: usize, size: usize) {
        call.act(|driver, _| driver.unbind_multicast(object, device, offset as u64, size as u64))
    }
    "cuMulticastGetGranularity" 12010 => fn cuMulticastGetGranularity(call, out: Out<usize>, prop: In<MulticastProp>, option: c_int) {
        call.give(out, |driver, _| {
            require(matches!(option, 0 | 1))?;
            Ok(driver.multicast_granularity(&prop.get().ok_or(Code::INVALID_VALUE)?)? as usize)
        })
    }
}
