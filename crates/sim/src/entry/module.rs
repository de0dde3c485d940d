//! Modules, libraries, and launches that compute nothing.

use super::{entries, fit};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, number};
use crate::gate::Call;
use crate::pointer::{Image, In, Out, Text};
use crate::state::{Driver, Thread};
use std::borrow::Cow;
use std::ffi::{c_int, c_void};

/// `CUlaunchConfig`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchConfig {
    dimensions: [u32; 7],
    stream: Handle,
}

/// `CUDA_LAUNCH_PARAMS`, as far as it is read.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchParams {
    function: Handle,
    dimensions: [u32; 7],
    stream: Handle,
    arguments: usize,
}

/// Options of loading, which are not looked into.
type Ignored = *const c_void;

/// Loads what lies in memory, as a module or as a library.
fn load(call: Call, out: Out<Handle>, image: Image, library: bool) -> c_int {
    call.give(out, |driver, thread| {
        load_bytes(
            driver,
            thread,
            image.bytes().ok_or(Code::INVALID_VALUE)?,
            library,
        )
    })
}

/// Loads what a file holds.
fn load_file(call: Call, out: Out<Handle>, path: Text, library: bool) -> c_int {
    call.give(out, |driver, thread| {
        let path = path.get().ok_or(Code::INVALID_VALUE)?.to_string_lossy();
        let image = std::fs::read(path.as_ref()).map_err(|_| Code::FILE_NOT_FOUND)?;
        load_bytes(driver, thread, &image, library)
    })
}

fn load_bytes(driver: &mut Driver, thread: Thread, image: &[u8], library: bool) -> Answer<Handle> {
    if library {
        driver.load_library(thread, image)
    } else {
        driver.load_module(thread, image)
    }
}

/// A name that was given.
fn named(name: &Text) -> Answer<Cow<'_, str>> {
    Ok(name.get().ok_or(Code::INVALID_VALUE)?.to_string_lossy())
}

/// A variable, in the widths of the old and the new functions. Either result may be left out.
fn global<P, S>(
    call: Call,
    address: Out<P>,
    bytes: Out<S>,
    name: &Text,
    find: impl FnOnce(&mut Driver, Thread, &str) -> Answer<(DevicePtr, u64)>,
) -> c_int
where
    P: Copy + TryFrom<u64>,
    S: Copy + TryFrom<u64>,
{
    let answer = call.run(|driver, thread| find(driver, thread, &named(name)?));
    let at: Answer<P> = fit(answer.map(|(address, _)| address));
    address.store(at);
    bytes.store(fit(answer.map(|(_, bytes)| bytes)));
    number(&at)
}

fn launch(call: Call, function: Handle, stream: Handle) -> c_int {
    call.act(|driver, thread| driver.launch(thread, function, call.stream(stream)))
}

entries! {
    "cuModuleLoad" 2000 => fn cuModuleLoad(call, out: Out<Handle>, path: Text) {
        load_file(call, out, path, false)
    }
    "cuModuleLoadData" 2000 => fn cuModuleLoadData(call, out: Out<Handle>, image: Image) {
        load(call, out, image, false)
    }
    "cuModuleLoadDataEx" 2010 => fn cuModuleLoadDataEx(call, out: Out<Handle>, image: Image, _count: u32, _options: Ignored, _values: Ignored) {
        load(call, out, image, false)
    }
    "cuModuleLoadFatBinary" 2000 => fn cuModuleLoadFatBinary(call, out: Out<Handle>, image: Image) {
        load(call, out, image, false)
    }
    "cuModuleUnload" 2000 => fn cuModuleUnload(call, module: Handle) {
        call.act(|driver, _| driver.unload_module(module, false))
    }
    "cuModuleGetFunction" 2000 => fn cuModuleGetFunction(call, out: Out<Handle>, module: Handle, name: Text) {
        call.give(out, |driver, _| driver.module_function(module, &named(&name)?))
    }
    "cuModuleGetGlobal" 2000 => fn cuModuleGetGlobal(call, address: Out<u32>, bytes: Out<u32>, module: Handle, name: Text) {
        global(call, address, bytes, &name, |driver, _, name| driver.module_global(module, name, None))
    }
    "cuModuleGetGlobal" 3020 => fn cuModuleGetGlobal_v2(call, address: Out<DevicePtr>, bytes: Out<usize>, module: Handle, name: Text) {
        global(call, address, bytes, &name, |driver, _, name| driver.module_global(module, name, None))
    }
    "cuLibraryLoadData" 12000 => fn cuLibraryLoadData(call, out: Out<Handle>, image: Image, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) {
        load(call, out, image, true)
    }
    "cuLibraryLoadFromFile" 12000 => fn cuLibraryLoadFromFile(call, out: Out<Handle>, path: Text, _jit: Ignored, _jit_values: Ignored, _jit_count: u32, _options: Ignored, _values: Ignored, _count: u32) {
        load_file(call, out, path, true)
    }
    "cuLibraryUnload" 12000 => fn cuLibraryUnload(call, library: Handle) {
        call.act(|driver, _| driver.unload_module(library, true))
    }
    "cuLibraryGetKernel" 12000 => fn cuLibraryGetKernel(call, out: Out<Handle>, library: Handle, name: Text) {
        call.give(out, |driver, _| driver.library_kernel(library, &named(&name)?))
    }
    "cuLibraryGetModule" 12000 => fn cuLibraryGetModule(call, out: Out<Handle>, library: Handle) {
        call.give(out, |driver, thread| driver.library_module(thread, library))
    }
    "cuLibraryGetGlobal" 12000 => fn cuLibraryGetGlobal(call, address: Out<DevicePtr>, bytes: Out<usize>, library: Handle, name: Text) {
        global(call, address, bytes, &name, |driver, thread, name| driver.library_global(thread, library, name, false))
    }
    "cuLibraryGetManaged" 12000 => fn cuLibraryGetManaged(call, address: Out<DevicePtr>, bytes: Out<usize>, library: Handle, name: Text) {
        global(call, address, bytes, &name, |driver, thread, name| driver.library_global(thread, library, name, true))
    }
    "cuFuncLoad" 12040 => fn cuFuncLoad(call, function: Handle) {
        call.act(|driver, _| driver.known_function(function))
    }
    "cuKernelGetFunction" 12000 => fn cuKernelGetFunction(call, out: Out<Handle>, kernel: Handle) {
        call.give(out, |driver, thread| driver.kernel_function(thread, kernel))
    }
    "cuLaunch" 2000 => fn cuLaunch(call, function: Handle) {
        launch(call, function, 0)
    }
    "cuLaunchGrid" 2000 => fn cuLaunchGrid(call, function: Handle, _width: c_int, _height: c_int) {
        launch(call, function, 0)
    }
    "cuLaunchGridAsync" 2000 => fn cuLaunchGridAsync(call, function: Handle, _width: c_int, _height: c_int, stream: Handle) {
        launch(call, function, stream)
    }
    "cuLaunchCooperativeKernelMultiDevice" 9000 => fn cuLaunchCooperativeKernelMultiDevice(call, list: In<LaunchParams>, count: u32, _flags: u32) {
        call.act(|driver, thread| {
            for index in 0..count as usize {
                let LaunchParams { function, stream, .. } = list.nth(index).ok_or(Code::INVALID_VALUE)?;
                driver.launch(thread, function, call.stream(stream))?;
            }
            Ok(())
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structs_have_the_layouts_of_the_header() {
        assert_eq!(offset_of!(LaunchConfig, stream), 32);
        assert_eq!(offset_of!(LaunchParams, stream), 40);
        assert_eq!(size_of::<LaunchParams>(), 56);
    }
}
