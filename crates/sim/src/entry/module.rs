//! Modules, libraries, and launches that compute nothing.

use super::entries;
use crate::abi::graph::NODE_KERNEL;
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};
use crate::gate::Call;
use crate::pointer::{In, Out, Text};
use std::ffi::{c_int, c_void};
use std::io::Read;

/// `CUlaunchConfig`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchConfig {
    dimensions: [u32; 7],
    stream: Handle,
}

/// Options of loading, which are not looked into.
type Ignored = *const c_void;

fn load(call: Call, out: Out<Handle>, image: In<[u8; 4]>) -> c_int {
    call.give(out, |driver, thread| {
        driver.load_module(thread, image.get().ok_or(Code::INVALID_VALUE)?)
    })
}

fn load_file(call: Call, out: Out<Handle>, path: Text) -> c_int {
    call.give(out, |driver, thread| {
        driver.load_module(thread, first_bytes(path)?)
    })
}

/// The first bytes of a file; zeros where it is shorter.
fn first_bytes(path: Text) -> Answer<[u8; 4]> {
    let path = path.get().ok_or(Code::INVALID_VALUE)?.to_string_lossy();
    let file = std::fs::File::open(path.as_ref()).map_err(|_| Code::FILE_NOT_FOUND)?;
    let mut start = Vec::new();
    file.take(4)
        .read_to_end(&mut start)
        .map_err(|_| Code::FILE_NOT_FOUND)?;
    start.resize(4, 0);
    start.try_into().map_err(|_| Code::FILE_NOT_FOUND)
}

fn launch(call: Call, function: Handle, stream: Handle) -> c_int {
    call.act(|driver, thread| {
        driver.known_function(function)?;
        driver.enqueue(thread, call.stream(stream), NODE_KERNEL)
    })
}

entries! {
    "cuModuleLoad" 2000 => fn cuModuleLoad(call, out: Out<Handle>, path: Text) {
        load_file(call, out, path)
    }
    "cuModuleLoadData" 2000 => fn cuModuleLoadData(call, out: Out<Handle>, image: In<[u8; 4]>) {
        load(call, out, image)
    }
    "cuModuleLoadDataEx" 2010 => fn cuModuleLoadDataEx(call, out: Out<Handle>, image: In<[u8; 4]>, _count: u32, _options: Ignored, _values: Ignored) {
        load(call, out, image)
    }
    "cuModuleLoadFatBinary" 2000 => fn cuModuleLoadFatBinary(call, out: Out<Handle>, image: In<[u8; 4]>) {
        load(call, out, image)
    }
    "cuModuleUnload" 2000 => fn cuModuleUnload(call, module: Handle) {
        call.act(|driver, _| driver.unload_module(module))
    }
    "cuModuleGetFunction" 2000 => fn cuModuleGetFunction(call, out: Out<Handle>, module: Handle, name: Text) {
        call.give(out, |driver, _| {
            require(name.get().is_some())?;
            driver.module_function(module)
        })
    }
    "cuModuleGetGlobal" 3020 => fn cuModuleGetGlobal_v2(call, _address: Out<DevicePtr>, _bytes: Out<usize>, module: Handle, _name: Text) {
        call.act(|driver, _| {
            driver.known_module(module)?;
            Err(Code::NOT_FOUND)
        })
    }
    "cuLibraryLoadData" 12000 => fn cuLibraryLoadData(call, out: Out<Handle>, image: In<[u8; 4]>, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) {
        load(call, out, image)
    }
    "cuLibraryLoadFromFile" 12000 => fn cuLibraryLoadFromFile(call, out: Out<Handle>, path: Text, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) {
        load_file(call, out, path)
    }
    "cuLibraryUnload" 12000 => fn cuLibraryUnload(call, library: Handle) {
        call.act(|driver, _| driver.unload_module(library))
    }
    "cuLibraryGetKernel" 12000 => fn cuLibraryGetKernel(call, out: Out<Handle>, library: Handle, name: Text) {
        call.give(out, |driver, _| {
            require(name.get().is_some())?;
            driver.module_function(library)
        })
    }
    "cuKernelGetFunction" 12000 => fn cuKernelGetFunction(call, out: Out<Handle>, kernel: Handle) {
        call.give(out, |driver, _| driver.known_function(kernel).map(|()| kernel))
    }
    "cuLaunchKernel" 4000 / cuLaunchKernel_ptsz 7000 => fn cuLaunchKernel(call, function: Handle, _grid_x: u32, _grid_y: u32, _grid_z: u32, _block_x: u32, _block_y: u32, _block_z: u32, _shared: u32, stream: Handle, _arguments: Ignored, _extra: Ignored) {
        launch(call, function, stream)
    }
    "cuLaunchCooperativeKernel" 9000 / cuLaunchCooperativeKernel_ptsz 9000 => fn cuLaunchCooperativeKernel(call, function: Handle, _grid_x: u32, _grid_y: u32, _grid_z: u32, _block_x: u32, _block_y: u32, _block_z: u32, _shared: u32, stream: Handle, _arguments: Ignored) {
        launch(call, function, stream)
    }
    "cuLaunchKernelEx" 11060 / cuLaunchKernelEx_ptsz 11060 => fn cuLaunchKernelEx(call, config: In<LaunchConfig>, function: Handle, _arguments: Ignored, _extra: Ignored) {
        launch(call, function, config.get().map_or(0, |config| config.stream))
    }
}
