//! Linear, pitched and managed memory, and what is known of an address.

use super::{entries, fit};
use crate::abi::{Device, DevicePtr, Handle, Location};
use crate::codes::{Answer, Code, number, require};
use crate::gate::Call;
use crate::pointer::{In, Out};
use crate::state::{Pitched, Place};
use std::ffi::{c_int, c_void};

/// Widths of the old and the new functions meet here.
fn pitched<P, S>(
    call: Call,
    out: Out<P>,
    pitch: Out<S>,
    size: [u64; 2],
    element: u32,
    narrow: bool,
) -> c_int
where
    P: Copy + TryFrom<u64>,
    S: Copy + TryFrom<usize>,
{
    let answer = call.run(|driver, thread| {
        require(out.is_set() && pitch.is_set())?;
        driver.alloc_pitched(thread, size[0], size[1], element, narrow)
    });
    out.store(fit(answer.map(|Pitched { address, .. }| address)));
    pitch.store(fit(answer.map(|Pitched { pitch, .. }| pitch)));
    number(&answer)
}

fn memory_info<S: Copy + TryFrom<u64>>(
    call: Call,
    free: Out<S>,
    total: Out<S>,
    most: u64,
) -> c_int {
    let answer = call.run(|driver, thread| {
        let device = driver.current_device(thread)?;
        Ok((driver.free_memory(device), driver.total(device)))
    });
    free.store(fit(answer.map(|(free, _)| free.min(most))));
    total.store(fit(answer.map(|(_, total)| total.min(most))));
    number(&answer)
}

fn range<P, S>(call: Call, base: Out<P>, size: Out<S>, address: DevicePtr) -> c_int
where
    P: Copy + TryFrom<u64>,
    S: Copy + TryFrom<u64>,
{
    let answer = call.run(|driver, thread| driver.address_range(thread, address));
    base.store(fit(answer.map(|(base, _)| base)));
    size.store(fit(answer.map(|(_, size)| size)));
    number(&answer)
}

/// Writes one attribute of an address; without a place, what a pointer of no allocation has.
fn write_attribute(
    attribute: c_int,
    place: Option<Place>,
    address: DevicePtr,
    out: Out<c_void>,
) -> Answer<()> {
    let known = |field: fn(Place) -> u64| place.map_or(0, field);
    match attribute {
        // context, start of the range, its length, pool
        1 => out.typed().put(known(|p| p.context as u64)),
        11 => out.typed().put(known(|p| p.start)),
        12 => out.typed().put(known(|p| p.length)),
        17 => out.typed().put(known(|p| p.pool as u64)),
        // memory type: 1 host, 2 device
        2 => out
            .typed()
            .put(place.map_or(0u32, |p| if p.host { 1 } else { 2 })),
        // device pointer; host pointer
        3 => out.typed().put(if place.is_some() { address } else { 0 }),
        4 => {
            let host = place.is_some_and(|p| p.host || p.managed);
            out.typed().put(if host { address } else { 0 });
        }
        // synchronous copies; legacy IPC
        6 | 10 => out.typed().put(0u32),
        // buffer id: the start serves
        7 => out.typed().put(known(|p| p.start)),
        8 => out.typed().put(place.is_some_and(|p| p.managed)),
        9 => out.typed().put(place.map_or(-2, |p| p.device as i32)),
        13 => out.typed().put(place.is_some()),
        _ => return Err(Code::INVALID_VALUE),
    }
    Ok(())
}

entries! {
    "cuMemAlloc" 2000 => fn cuMemAlloc(call, out: Out<u32>, bytes: u32) {
        call.give(out, |driver, thread| driver.alloc_narrow(thread, bytes))
    }
    "cuMemAlloc" 3020 => fn cuMemAlloc_v2(call, out: Out<DevicePtr>, bytes: usize) {
        call.give(out, |driver, thread| driver.alloc(thread, bytes as u64))
    }
    "cuMemAllocPitch" 2000 => fn cuMemAllocPitch(call, out: Out<u32>, pitch: Out<u32>, width: u32, height: u32, element: u32) {
        pitched(call, out, pitch, [width.into(), height.into()], element, true)
    }
    "cuMemAllocPitch" 3020 => fn cuMemAllocPitch_v2(call, out: Out<DevicePtr>, pitch: Out<usize>, width: usize, height: usize, element: u32) {
        pitched(call, out, pitch, [width as u64, height as u64], element, false)
    }
    "cuMemAllocManaged" 6000 => fn cuMemAllocManaged(call, out: Out<DevicePtr>, bytes: usize, flags: u32) {
        call.give(out, |driver, thread| driver.alloc_managed(thread, bytes as u64, flags))
    }
    "cuMemFree" 2000 => fn cuMemFree(call, address: u32) {
        call.act(|driver, thread| driver.free(thread, address.into()))
    }
    "cuMemFree" 3020 => fn cuMemFree_v2(call, address: DevicePtr) {
        call.act(|driver, thread| driver.free(thread, address))
    }
    "cuMemGetInfo" 2000 => fn cuMemGetInfo(call, free: Out<u32>, total: Out<u32>) {
        memory_info(call, free, total, u32::MAX.into())
    }
    "cuMemGetInfo" 3020 => fn cuMemGetInfo_v2(call, free: Out<usize>, total: Out<usize>) {
        memory_info(call, free, total, u64::MAX)
    }
    "cuMemGetAddressRange" 2000 => fn cuMemGetAddressRange(call, base: Out<u32>, size: Out<u32>, address: u32) {
        range(call, base, size, address.into())
    }
    "cuMemGetAddressRange" 3020 => fn cuMemGetAddressRange_v2(call, base: Out<DevicePtr>, size: Out<usize>, address: DevicePtr) {
        range(call, base, size, address)
    }
    "cuMemAdvise" 8000 => fn cuMemAdvise(call, address: DevicePtr, bytes: usize, _advice: c_int, _device: Device) {
        call.act(|driver, _| driver.managed_range(address, bytes as u64))
    }
    "cuMemAdvise" 12020 => fn cuMemAdvise_v2(call, address: DevicePtr, bytes: usize, _advice: c_int, _location: Location) {
        call.act(|driver, _| driver.managed_range(address, bytes as u64))
    }
    "cuMemPrefetchAsync" 8000 / cuMemPrefetchAsync_ptsz 8000 => fn cuMemPrefetchAsync(call, address: DevicePtr, bytes: usize, _device: Device, stream: Handle) {
        call.act(|driver, thread| driver.prefetch(thread, call.stream(stream), address, bytes as u64))
    }
    "cuMemPrefetchAsync" 12020 / cuMemPrefetchAsync_v2_ptsz 12020 => fn cuMemPrefetchAsync_v2(call, address: DevicePtr, bytes: usize, _location: Location, _flags: u32, stream: Handle) {
        call.act(|driver, thread| driver.prefetch(thread, call.stream(stream), address, bytes as u64))
    }
    "cuPointerGetAttribute" 4000 => fn cuPointerGetAttribute(call, out: Out<c_void>, attribute: c_int, address: DevicePtr) {
        call.act(|driver, _| {
            require(out.is_set())?;
            let place = driver.place(address).ok_or(Code::INVALID_VALUE)?;
            write_attribute(attribute, Some(place), address, out)
        })
    }
    "cuPointerGetAttributes" 7000 => fn cuPointerGetAttributes(call, count: u32, attributes: In<c_int>, out: In<Out<c_void>>, address: DevicePtr) {
        call.act(|driver, _| {
            let place = driver.place(address);
            for index in 0..count as usize {
                let attribute = attributes.nth(index).ok_or(Code::INVALID_VALUE)?;
                let out = out.nth(index).ok_or(Code::INVALID_VALUE)?;
                write_attribute(attribute, place, address, out)?;
            }
            Ok(())
        })
    }
}
