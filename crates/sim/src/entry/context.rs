//! Contexts.

use super::entries;
use crate::abi::{Device, Handle};
use crate::codes::{number, require};
use crate::pointer::Out;
use std::ffi::{c_int, c_void};

/// `CUexecAffinityParam` and `CUctxCreateParams`, which are not looked into.
type Ignored = *const c_void;

entries! {
    "cuCtxCreate" 2000 => fn cuCtxCreate(call, out: Out<Handle>, flags: u32, device: Device) {
        call.give(out, |driver, thread| driver.create_context(thread, device, flags))
    }
    "cuCtxCreate" 3020 => fn cuCtxCreate_v2(call, out: Out<Handle>, flags: u32, device: Device) {
        call.give(out, |driver, thread| driver.create_context(thread, device, flags))
    }
    "cuCtxCreate" 11040 => fn cuCtxCreate_v3(call, out: Out<Handle>, _affinity: Ignored, _count: c_int, flags: u32, device: Device) {
        call.give(out, |driver, thread| driver.create_context(thread, device, flags))
    }
    "cuCtxCreate" 12050 => fn cuCtxCreate_v4(call, out: Out<Handle>, _params: Ignored, flags: u32, device: Device) {
        call.give(out, |driver, thread| driver.create_context(thread, device, flags))
    }
    "cuCtxDestroy" 2000 => fn cuCtxDestroy(call, context: Handle) {
        call.act(|driver, thread| driver.destroy_context(thread, context))
    }
    "cuCtxDestroy" 4000 => fn cuCtxDestroy_v2(call, context: Handle) {
        call.act(|driver, thread| driver.destroy_context(thread, context))
    }
    "cuCtxDetach" 2000 => fn cuCtxDetach(call, context: Handle) {
        call.act(|driver, thread| driver.detach_context(thread, context))
    }
    "cuCtxSetCurrent" 4000 => fn cuCtxSetCurrent(call, context: Handle) {
        call.act(|driver, thread| driver.set_current(thread, context))
    }
    "cuCtxGetCurrent" 4000 => fn cuCtxGetCurrent(call, out: Out<Handle>) {
        call.give(out, |driver, thread| Ok(driver.current_handle(thread)))
    }
    "cuCtxPushCurrent" 2000 => fn cuCtxPushCurrent(call, context: Handle) {
        call.act(|driver, thread| driver.push_current(thread, context))
    }
    "cuCtxPushCurrent" 4000 => fn cuCtxPushCurrent_v2(call, context: Handle) {
        call.act(|driver, thread| driver.push_current(thread, context))
    }
    "cuCtxPopCurrent" 2000 => fn cuCtxPopCurrent(call, out: Out<Handle>) {
        let answer = call.run(|driver, thread| driver.pop_current(thread));
        out.store(answer);
        number(&answer)
    }
    "cuCtxPopCurrent" 4000 => fn cuCtxPopCurrent_v2(call, out: Out<Handle>) {
        let answer = call.run(|driver, thread| driver.pop_current(thread));
        out.store(answer);
        number(&answer)
    }
    "cuCtxGetDevice" 2000 => fn cuCtxGetDevice(call, out: Out<Device>) {
        call.give(out, |driver, thread| Ok(driver.current_device(thread)? as Device))
    }
    "cuCtxGetDevice" 13000 => fn cuCtxGetDevice_v2(call, out: Out<Device>, context: Handle) {
        call.give(out, |driver, thread| Ok(driver.named_context(thread, context)? as Device))
    }
    "cuCtxGetFlags" 7000 => fn cuCtxGetFlags(call, out: Out<u32>) {
        call.give(out, |driver, thread| driver.context_flags(thread))
    }
    "cuCtxGetApiVersion" 3020 => fn cuCtxGetApiVersion(call, _context: Handle, out: Out<u32>) {
        call.give(out, |_, _| Ok(3020))
    }
    "cuCtxSynchronize" 2000 => fn cuCtxSynchronize(call) {
        call.act(|driver, thread| driver.synchronise_context(thread))
    }
    "cuCtxSynchronize" 13000 => fn cuCtxSynchronize_v2(call, context: Handle) {
        call.act(|driver, thread| {
            let device = driver.named_context(thread, context)?;
            driver.synchronise_device(thread, device)
        })
    }
    "cuCtxSetLimit" 3010 => fn cuCtxSetLimit(call, limit: c_int, value: usize) {
        call.act(|driver, thread| driver.set_limit(thread, limit, value))
    }
    "cuCtxGetLimit" 3010 => fn cuCtxGetLimit(call, out: Out<usize>, limit: c_int) {
        call.give(out, |driver, thread| driver.limit(thread, limit))
    }
    "cuDevicePrimaryCtxRetain" 7000 => fn cuDevicePrimaryCtxRetain(call, out: Out<Handle>, device: Device) {
        call.give(out, |driver, _| driver.retain_primary(device))
    }
    "cuDevicePrimaryCtxRelease" 7000 => fn cuDevicePrimaryCtxRelease(call, device: Device) {
        call.act(|driver, thread| driver.release_primary(thread, device))
    }
    "cuDevicePrimaryCtxRelease" 11000 => fn cuDevicePrimaryCtxRelease_v2(call, device: Device) {
        call.act(|driver, thread| driver.release_primary(thread, device))
    }
    "cuDevicePrimaryCtxReset" 7000 => fn cuDevicePrimaryCtxReset(call, device: Device) {
        call.act(|driver, thread| driver.reset_primary(thread, device))
    }
    "cuDevicePrimaryCtxReset" 11000 => fn cuDevicePrimaryCtxReset_v2(call, device: Device) {
        call.act(|driver, thread| driver.reset_primary(thread, device))
    }
    "cuDevicePrimaryCtxGetState" 7000 => fn cuDevicePrimaryCtxGetState(call, device: Device, flags: Out<u32>, active: Out<c_int>) {
        let answer = call.run(|driver, _| {
            require(flags.is_set() && active.is_set())?;
            driver.primary_state(device)
        });
        flags.store(answer.map(|(flags, _)| flags));
        active.store(answer.map(|(_, active)| active.into()));
        number(&answer)
    }
    "cuDevicePrimaryCtxSetFlags" 7000 => fn cuDevicePrimaryCtxSetFlags(call, device: Device, flags: u32) {
        call.act(|driver, _| driver.set_primary_flags(device, flags))
    }
    "cuDevicePrimaryCtxSetFlags" 11000 => fn cuDevicePrimaryCtxSetFlags_v2(call, device: Device, flags: u32) {
        call.act(|driver, _| driver.set_primary_flags(device, flags))
    }
}
