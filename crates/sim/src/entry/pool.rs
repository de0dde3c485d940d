//! Stream-ordered memory and its pools.

use super::entries;
use crate::abi::{AccessDesc, Device, DevicePtr, Handle, Location, PoolProps};
use crate::codes::{Answer, Code, require};
use crate::pointer::{In, Out};
use crate::state::PoolAttribute;
use std::ffi::{c_int, c_void};

/// Reuse policies are ints; the rest are 64-bit numbers.
fn read(attribute: PoolAttribute, value: Out<c_void>) -> Answer<u64> {
    let value = match attribute {
        PoolAttribute::Reuse(_) => value.typed::<u32>().get().map(u64::from),
        _ => value.typed::<u64>().get(),
    };
    value.ok_or(Code::INVALID_VALUE)
}

fn write(attribute: PoolAttribute, out: Out<c_void>, value: u64) {
    match attribute {
        PoolAttribute::Reuse(_) => out.typed().put(value as u32),
        _ => out.typed().put(value),
    }
}

entries! {
    "cuMemAllocAsync" 11020 / cuMemAllocAsync_ptsz 11020 => fn cuMemAllocAsync(call, out: Out<DevicePtr>, bytes: usize, stream: Handle) {
        call.give(out, |driver, thread| driver.alloc_async(thread, bytes as u64, None, call.stream(stream)))
    }
    "cuMemAllocFromPoolAsync" 11020 / cuMemAllocFromPoolAsync_ptsz 11020 => fn cuMemAllocFromPoolAsync(call, out: Out<DevicePtr>, bytes: usize, pool: Handle, stream: Handle) {
        call.give(out, |driver, thread| driver.alloc_async(thread, bytes as u64, Some(pool), call.stream(stream)))
    }
    "cuMemFreeAsync" 11020 / cuMemFreeAsync_ptsz 11020 => fn cuMemFreeAsync(call, address: DevicePtr, stream: Handle) {
        call.act(|driver, thread| driver.free_async(thread, address, call.stream(stream)))
    }
    "cuMemPoolCreate" 11020 => fn cuMemPoolCreate(call, out: Out<Handle>, props: In<PoolProps>) {
        call.give(out, |driver, _| driver.create_pool(props.get().ok_or(Code::INVALID_VALUE)?))
    }
    "cuMemPoolDestroy" 11020 => fn cuMemPoolDestroy(call, pool: Handle) {
        call.act(|driver, _| driver.destroy_pool(pool))
    }
    "cuMemPoolTrimTo" 11020 => fn cuMemPoolTrimTo(call, pool: Handle, keep: usize) {
        call.act(|driver, thread| driver.trim_pool(thread, pool, keep as u64))
    }
    "cuMemPoolGetAttribute" 11020 => fn cuMemPoolGetAttribute(call, pool: Handle, attribute: c_int, out: Out<c_void>) {
        call.act(|driver, thread| {
            require(out.is_set())?;
            let attribute = PoolAttribute::from_number(attribute)?;
            write(attribute, out, driver.pool_attribute(thread, pool, attribute)?);
            Ok(())
        })
    }
    "cuMemPoolSetAttribute" 11020 => fn cuMemPoolSetAttribute(call, pool: Handle, attribute: c_int, value: Out<c_void>) {
        call.act(|driver, thread| {
            let attribute = PoolAttribute::from_number(attribute)?;
            driver.set_pool_attribute(thread, pool, attribute, read(attribute, value)?)
        })
    }
    "cuMemPoolSetAccess" 11020 => fn cuMemPoolSetAccess(call, pool: Handle, access: In<AccessDesc>, count: usize) {
        call.act(|driver, _| {
            for index in 0..count {
                let AccessDesc { location, flags } = access.nth(index).ok_or(Code::INVALID_VALUE)?;
                driver.set_pool_access(pool, location, flags)?;
            }
            Ok(())
        })
    }
    "cuMemPoolGetAccess" 11020 => fn cuMemPoolGetAccess(call, out: Out<c_int>, pool: Handle, location: In<Location>) {
        call.give(out, |driver, _| driver.pool_access(pool, location.get().ok_or(Code::INVALID_VALUE)?))
    }
    "cuMemGetDefaultMemPool" 13000 => fn cuMemGetDefaultMemPool(call, out: Out<Handle>, location: In<Location>, kind: c_int) {
        call.give(out, |driver, _| driver.default_pool_of(location.get().ok_or(Code::INVALID_VALUE)?, kind))
    }
    "cuMemGetMemPool" 13000 => fn cuMemGetMemPool(call, out: Out<Handle>, location: In<Location>, kind: c_int) {
        call.give(out, |driver, _| driver.pool_of(location.get().ok_or(Code::INVALID_VALUE)?, kind))
    }
    "cuMemSetMemPool" 13000 => fn cuMemSetMemPool(call, location: In<Location>, kind: c_int, pool: Handle) {
        call.act(|driver, _| driver.set_pool_of(location.get().ok_or(Code::INVALID_VALUE)?, kind, pool))
    }
    "cuDeviceGetDefaultMemPool" 11020 => fn cuDeviceGetDefaultMemPool(call, out: Out<Handle>, device: Device) {
        call.give(out, |driver, _| driver.default_pool(device))
    }
    "cuDeviceGetMemPool" 11020 => fn cuDeviceGetMemPool(call, out: Out<Handle>, device: Device) {
        call.give(out, |driver, _| driver.device_pool(device))
    }
    "cuDeviceSetMemPool" 11020 => fn cuDeviceSetMemPool(call, device: Device, pool: Handle) {
        call.act(|driver, _| driver.set_device_pool(device, pool))
    }
}
