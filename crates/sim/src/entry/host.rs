//! Pinned and registered host memory.

use super::entries;
use crate::abi::{DevicePtr, HostPtr};
use crate::codes::{Code, require};
use crate::pointer::Out;

entries! {
    "cuMemAllocHost" 2000 => fn cuMemAllocHost(call, out: Out<usize>, bytes: u32) {
        call.give(out, |driver, thread| driver.alloc_host(thread, bytes as usize, 0))
    }
    "cuMemAllocHost" 3020 => fn cuMemAllocHost_v2(call, out: Out<usize>, bytes: usize) {
        call.give(out, |driver, thread| driver.alloc_host(thread, bytes, 0))
    }
    "cuMemHostAlloc" 2020 => fn cuMemHostAlloc(call, out: Out<usize>, bytes: usize, flags: u32) {
        call.give(out, |driver, thread| driver.alloc_host(thread, bytes, flags))
    }
    "cuMemFreeHost" 2000 => fn cuMemFreeHost(call, address: HostPtr) {
        call.act(|driver, thread| driver.free_host(thread, address))
    }
    "cuMemHostRegister" 4000 => fn cuMemHostRegister(call, address: HostPtr, bytes: usize, flags: u32) {
        call.act(|driver, thread| driver.register_host(thread, address, bytes, flags))
    }
    "cuMemHostRegister" 6050 => fn cuMemHostRegister_v2(call, address: HostPtr, bytes: usize, flags: u32) {
        call.act(|driver, thread| driver.register_host(thread, address, bytes, flags))
    }
    "cuMemHostUnregister" 4000 => fn cuMemHostUnregister(call, address: HostPtr) {
        call.act(|driver, thread| driver.unregister_host(thread, address))
    }
    "cuMemHostGetDevicePointer" 2020 => fn cuMemHostGetDevicePointer(call, out: Out<u32>, address: HostPtr, _flags: u32) {
        call.give(out, |driver, _| {
            let address = driver.host_device_pointer(address)?;
            u32::try_from(address).map_err(|_| Code::INVALID_VALUE)
        })
    }
    "cuMemHostGetDevicePointer" 3020 => fn cuMemHostGetDevicePointer_v2(call, out: Out<DevicePtr>, address: HostPtr, flags: u32) {
        call.give(out, |driver, _| {
            require(flags == 0)?;
            driver.host_device_pointer(address)
        })
    }
    "cuMemHostGetFlags" 2030 => fn cuMemHostGetFlags(call, out: Out<u32>, address: HostPtr) {
        call.give(out, |driver, _| driver.host_flags(address))
    }
}
