//! Arrays and mipmapped arrays.

use super::{entries, fit};
use crate::abi::array::{Deep, Flat, MapInfo, Requirements};
use crate::abi::{Device, Handle};
use crate::codes::{Answer, Code, number, require};
use crate::gate::Call;
use crate::pointer::{In, Out};
use std::ffi::c_int;

/// A description of two dimensions as one of three.
fn deepen<S: Copy + Into<u64>>(flat: Flat<S>) -> Deep<usize> {
    Deep {
        width: flat.width.into() as usize,
        height: flat.height.into() as usize,
        depth: 0,
        format: flat.format,
        channels: flat.channels,
        flags: 0,
    }
}

fn create(call: Call, out: Out<Handle>, shape: Option<Deep<usize>>) -> c_int {
    call.give(out, |driver, thread| {
        driver.create_array(thread, shape.ok_or(Code::INVALID_VALUE)?)
    })
}

/// What an array looks like, in the words of one of the four functions that ask.
fn describe<T: Copy>(
    call: Call,
    out: Out<T>,
    array: Handle,
    words: impl FnOnce(Deep<usize>) -> Answer<T>,
) -> c_int {
    call.give(out, |driver, _| words(driver.array_shape(array)?))
}

entries! {
    "cuArrayCreate" 2000 => fn cuArrayCreate(call, out: Out<Handle>, shape: In<Flat<u32>>) {
        create(call, out, shape.get().map(deepen))
    }
    "cuArrayCreate" 3020 => fn cuArrayCreate_v2(call, out: Out<Handle>, shape: In<Flat<u64>>) {
        create(call, out, shape.get().map(deepen))
    }
    "cuArray3DCreate" 2000 => fn cuArray3DCreate(call, out: Out<Handle>, shape: In<Deep<u32>>) {
        create(call, out, shape.get().map(|shape| Deep {
            width: shape.width as usize,
            height: shape.height as usize,
            depth: shape.depth as usize,
            format: shape.format,
            channels: shape.channels,
            flags: shape.flags,
        }))
    }
    "cuArray3DCreate" 3020 => fn cuArray3DCreate_v2(call, out: Out<Handle>, shape: In<Deep<usize>>) {
        create(call, out, shape.get())
    }
    "cuArrayGetDescriptor" 2000 => fn cuArrayGetDescriptor(call, out: Out<Flat<u32>>, array: Handle) {
        describe(call, out, array, |Deep { width, height, format, channels, .. }| {
            Ok(Flat { width: fit(Ok(width))?, height: fit(Ok(height))?, format, channels })
        })
    }
    "cuArrayGetDescriptor" 3020 => fn cuArrayGetDescriptor_v2(call, out: Out<Flat<usize>>, array: Handle) {
        describe(call, out, array, |Deep { width, height, format, channels, .. }| {
            Ok(Flat { width, height, format, channels })
        })
    }
    "cuArray3DGetDescriptor" 2000 => fn cuArray3DGetDescriptor(call, out: Out<Deep<u32>>, array: Handle) {
        describe(call, out, array, |Deep { width, height, depth, format, channels, flags }| {
            let (width, height, depth) = (fit(Ok(width))?, fit(Ok(height))?, fit(Ok(depth))?);
            Ok(Deep { width, height, depth, format, channels, flags })
        })
    }
    "cuArray3DGetDescriptor" 3020 => fn cuArray3DGetDescriptor_v2(call, out: Out<Deep<usize>>, array: Handle) {
        describe(call, out, array, Ok)
    }
    "cuArrayDestroy" 2000 => fn cuArrayDestroy(call, array: Handle) {
        call.act(|driver, thread| driver.destroy_array(thread, array, false))
    }
    "cuMipmappedArrayCreate" 5000 => fn cuMipmappedArrayCreate(call, out: Out<Handle>, shape: In<Deep<usize>>, levels: u32) {
        call.give(out, |driver, thread| driver.create_mipmap(thread, shape.get().ok_or(Code::INVALID_VALUE)?, levels))
    }
    "cuMipmappedArrayGetLevel" 5000 => fn cuMipmappedArrayGetLevel(call, out: Out<Handle>, mipmap: Handle, level: u32) {
        call.give(out, |driver, _| driver.mipmap_level(mipmap, level))
    }
    "cuMipmappedArrayDestroy" 5000 => fn cuMipmappedArrayDestroy(call, mipmap: Handle) {
        call.act(|driver, thread| driver.destroy_array(thread, mipmap, true))
    }
    "cuArrayGetMemoryRequirements" 11060 => fn cuArrayGetMemoryRequirements(call, out: Out<Requirements>, array: Handle, device: Device) {
        call.give(out, |driver, _| driver.array_requirements(array, device, false))
    }
    "cuMipmappedArrayGetMemoryRequirements" 11060 => fn cuMipmappedArrayGetMemoryRequirements(call, out: Out<Requirements>, mipmap: Handle, device: Device) {
        call.give(out, |driver, _| driver.array_requirements(mipmap, device, true))
    }
    "cuMemMapArrayAsync" 11010 / cuMemMapArrayAsync_ptsz 11010 => fn cuMemMapArrayAsync(call, list: In<MapInfo>, count: u32, stream: Handle) {
        number(&call.run(|driver, thread| {
            require(count > 0)?;
            for index in 0..count as usize {
                let info = list.nth(index).ok_or(Code::INVALID_VALUE)?;
                driver.map_array(thread, call.stream(stream), info)?;
            }
            Ok(())
        }))
    }
}
