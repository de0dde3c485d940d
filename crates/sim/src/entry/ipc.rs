//! Handles of memory and events for other processes.

use super::entries;
use crate::abi::share::IpcHandle;
use crate::abi::{DevicePtr, Handle};
use crate::pointer::Out;

entries! {
    "cuIpcGetMemHandle" 4010 => fn cuIpcGetMemHandle(call, out: Out<IpcHandle>, address: DevicePtr) {
        call.give(out, |driver, thread| Ok(IpcHandle { bytes: driver.export_memory(thread, address)? }))
    }
    "cuIpcOpenMemHandle" 4010 => fn cuIpcOpenMemHandle(call, out: Out<DevicePtr>, handle: IpcHandle, flags: u32) {
        call.give(out, |driver, thread| driver.open_memory(thread, handle.bytes, flags))
    }
    "cuIpcOpenMemHandle" 11000 => fn cuIpcOpenMemHandle_v2(call, out: Out<DevicePtr>, handle: IpcHandle, flags: u32) {
        call.give(out, |driver, thread| driver.open_memory(thread, handle.bytes, flags))
    }
    "cuIpcCloseMemHandle" 4010 => fn cuIpcCloseMemHandle(call, address: DevicePtr) {
        call.act(|driver, thread| driver.close_memory(thread, address))
    }
    "cuIpcGetEventHandle" 4010 => fn cuIpcGetEventHandle(call, out: Out<IpcHandle>, event: Handle) {
        call.give(out, |driver, _| Ok(IpcHandle { bytes: driver.export_event(event)? }))
    }
    "cuIpcOpenEventHandle" 4010 => fn cuIpcOpenEventHandle(call, out: Out<Handle>, handle: IpcHandle) {
        call.give(out, |driver, thread| driver.open_event(thread, handle.bytes))
    }
}
