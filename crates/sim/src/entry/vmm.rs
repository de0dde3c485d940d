//! Virtual memory management.

use super::entries;
use crate::abi::{AccessDesc, AllocationProp, DevicePtr, HostPtr, Location, Physical};
use crate::codes::{Code, require};
use crate::pointer::{In, Out};
use crate::state::GRANULARITY;
use std::ffi::c_int;

entries! {
    "cuMemAddressReserve" 10020 => fn cuMemAddressReserve(call, out: Out<DevicePtr>, size: usize, alignment: usize, hint: DevicePtr, _flags: u64) {
        call.give(out, |driver, _| driver.reserve(size as u64, alignment as u64, hint))
    }
    "cuMemAddressFree" 10020 => fn cuMemAddressFree(call, start: DevicePtr, size: usize) {
        call.act(|driver, _| driver.free_reservation(start, size as u64))
    }
    "cuMemCreate" 10020 => fn cuMemCreate(call, out: Out<Physical>, size: usize, prop: In<AllocationProp>, flags: u64) {
        call.give(out, |driver, _| {
            let prop = prop.get().ok_or(Code::INVALID_VALUE)?;
            driver.create_physical(prop, size as u64, flags)
        })
    }
    "cuMemRelease" 10020 => fn cuMemRelease(call, handle: Physical) {
        call.act(|driver, _| driver.release_physical(handle))
    }
    "cuMemRetainAllocationHandle" 11000 => fn cuMemRetainAllocationHandle(call, out: Out<Physical>, address: HostPtr) {
        call.give(out, |driver, _| driver.retain_physical(address as u64))
    }
    "cuMemMap" 10020 => fn cuMemMap(call, start: DevicePtr, size: usize, offset: usize, handle: Physical, flags: u64) {
        call.act(|driver, _| {
            require(flags == 0)?;
            driver.map(start, size as u64, offset as u64, handle)
        })
    }
    "cuMemUnmap" 10020 => fn cuMemUnmap(call, start: DevicePtr, size: usize) {
        call.act(|driver, _| driver.unmap(start, size as u64))
    }
    "cuMemSetAccess" 10020 => fn cuMemSetAccess(call, start: DevicePtr, size: usize, access: In<AccessDesc>, count: usize) {
        call.act(|driver, _| {
            let access: Option<Vec<_>> = (0..count).map(|index| access.nth(index)).collect();
            driver.set_access(start, size as u64, &access.ok_or(Code::INVALID_VALUE)?)
        })
    }
    "cuMemGetAccess" 10020 => fn cuMemGetAccess(call, out: Out<u64>, location: In<Location>, address: DevicePtr) {
        call.give(out, |driver, _| driver.access(location.get().ok_or(Code::INVALID_VALUE)?, address))
    }
    "cuMemGetAllocationGranularity" 10020 => fn cuMemGetAllocationGranularity(call, out: Out<usize>, prop: In<AllocationProp>, option: c_int) {
        call.give(out, |driver, _| {
            require(matches!(option, 0 | 1))?;
            driver.physical_home(&prop.get().ok_or(Code::INVALID_VALUE)?)?;
            Ok(GRANULARITY as usize)
        })
    }
    "cuMemGetAllocationPropertiesFromHandle" 10020 => fn cuMemGetAllocationPropertiesFromHandle(call, out: Out<AllocationProp>, handle: Physical) {
        call.give(out, |driver, _| driver.physical_prop(handle))
    }
}
