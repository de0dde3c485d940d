//! Texture and surface objects, and green contexts.

use super::entries;
use crate::abi::{Device, Handle};
use crate::codes::{Answer, Code, require};
use crate::pointer::{In, Out};
use crate::state::Resource;
use std::ffi::{c_int, c_void};

/// How a texture is read, which is not looked into.
type Ignored = *const c_void;

/// The beginning of `CUDA_RESOURCE_DESC`: whatever the kind, the resource stands first.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ResourceDesc {
    kind: c_int,
    resource: u64,
}

/// `CUdevResource`: multiprocessors.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct DevResource {
    kind: c_int,
    inner: [u32; 23],
    multiprocessors: u32,
    rest: [u32; 11],
}

/// `CU_DEV_RESOURCE_TYPE_SM`.
const MULTIPROCESSORS: c_int = 1;

fn resource(desc: In<ResourceDesc>) -> Answer<Resource> {
    let ResourceDesc { kind, resource } = desc.get().ok_or(Code::INVALID_VALUE)?;
    match kind {
        0 => Ok(Resource::Array(resource as Handle)),
        1 => Ok(Resource::Mipmap(resource as Handle)),
        2 | 3 => Ok(Resource::Memory(resource)),
        _ => Err(Code::INVALID_VALUE),
    }
}

entries! {
    "cuTexObjectCreate" 5000 => fn cuTexObjectCreate(call, out: Out<u64>, desc: In<ResourceDesc>, _texture: Ignored, _view: Ignored) {
        call.give(out, |driver, thread| driver.create_object(thread, resource(desc)?, false))
    }
    "cuTexObjectDestroy" 5000 => fn cuTexObjectDestroy(call, object: u64) {
        call.act(|driver, _| driver.destroy_object(object, false))
    }
    "cuSurfObjectCreate" 5000 => fn cuSurfObjectCreate(call, out: Out<u64>, desc: In<ResourceDesc>) {
        call.give(out, |driver, thread| driver.create_object(thread, resource(desc)?, true))
    }
    "cuSurfObjectDestroy" 5000 => fn cuSurfObjectDestroy(call, object: u64) {
        call.act(|driver, _| driver.destroy_object(object, true))
    }
    "cuDeviceGetDevResource" 12040 => fn cuDeviceGetDevResource(call, device: Device, out: Out<DevResource>, kind: c_int) {
        call.give(out, |driver, _| {
            let device = driver.device(device)?;
            require(kind == MULTIPROCESSORS)?;
            // 16: how many multiprocessors there are.
            let multiprocessors = driver.attribute(device, 16)? as u32;
            Ok(DevResource { kind, inner: [0; 23], multiprocessors, rest: [0; 11] })
        })
    }
    "cuDevResourceGenerateDesc" 12040 => fn cuDevResourceGenerateDesc(call, out: Out<Handle>, resources: In<DevResource>, count: u32) {
        call.give(out, |driver, _| {
            require(count > 0)?;
            resources.get().ok_or(Code::INVALID_VALUE)?;
            Ok(driver.create_resource_desc())
        })
    }
    "cuGreenCtxCreate" 12040 => fn cuGreenCtxCreate(call, out: Out<Handle>, desc: Handle, device: Device, flags: u32) {
        call.give(out, |driver, _| driver.create_green(desc, device, flags))
    }
    "cuGreenCtxDestroy" 12040 => fn cuGreenCtxDestroy(call, green: Handle) {
        call.act(|driver, thread| driver.destroy_green(thread, green))
    }
    "cuCtxFromGreenCtx" 12040 => fn cuCtxFromGreenCtx(call, out: Out<Handle>, green: Handle) {
        call.give(out, |driver, _| driver.context_of_green(green))
    }
    "cuGreenCtxStreamCreate" 12050 => fn cuGreenCtxStreamCreate(call, out: Out<Handle>, green: Handle, flags: u32, priority: c_int) {
        call.give(out, |driver, _| driver.create_green_stream(green, flags, priority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(std::mem::offset_of!(ResourceDesc, resource), 8);
        assert_eq!(size_of::<DevResource>(), 144);
        assert_eq!(std::mem::offset_of!(DevResource, multiprocessors), 96);
    }
}
