//! THE table of intercepted functions: symbol, ABI, name in reports, and how a call of it is recorded.
//!
//! To add a function, add a row. The recipe on the right says what the call means (see `record` for the recipes); the
//! order of the rows is of no consequence. A `_ptsz` symbol is the per-thread-default-stream form of the same call.

use super::abi::*;
use super::macros::{driver_table, runtime_table};
use crate::preload::record::Pass;
use crate::preload::record::capture::{BeginCapture, EndCapture};
use crate::preload::record::context::{
    CreateContext, DestroyContext, ReleasePrimary, ResetPrimary, RetainPrimary,
};
use crate::preload::record::memory::{Allocate, AllocatePitch, AllocatePitch3D, Free, Host, Out};
use crate::preload::record::pool::{CreatePool, DestroyPool};
use crate::preload::record::resolve::Resolve;
use crate::preload::record::virtual_memory::{CreateHandle, MapHandle, RetainHandle, Unmap};
use oomhook_trace::Space;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

driver_table! {
    // The resolver: substitutes in what it returns.
    fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64) as "cuGetProcAddress" => Resolve::new(function);
    fn cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: u64, status: *mut c_int) as "cuGetProcAddress" => Resolve::new(function);

    // Linear memory. The bare symbols are the 32-bit ABI of CUDA 2 and 3.
    fn cuMemAlloc(pointer: *mut DevicePointer32, bytes: c_uint) as "cuMemAlloc" => Allocate::new(Space::Device, Out::Address32(pointer), bytes as u64);
    fn cuMemAlloc_v2(pointer: *mut DevicePointer, bytes: usize) as "cuMemAlloc" => Allocate::new(Space::Device, Out::Address(pointer), bytes as u64);
    fn cuMemAllocPitch(pointer: *mut DevicePointer32, pitch: *mut c_uint, width: c_uint, height: c_uint, element: c_uint) as "cuMemAllocPitch" => AllocatePitch::new32(pointer, pitch, width, height);
    fn cuMemAllocPitch_v2(pointer: *mut DevicePointer, pitch: *mut usize, width: usize, height: usize, element: c_uint) as "cuMemAllocPitch" => AllocatePitch::new(Out::Address(pointer), pitch, width, height);
    fn cuMemAllocManaged(pointer: *mut DevicePointer, bytes: usize, flags: c_uint) as "cuMemAllocManaged" => Allocate::new(Space::Managed, Out::Address(pointer), bytes as u64);
    fn cuMemFree(pointer: DevicePointer32) as "cuMemFree" => Free::new(Space::Device, u64::from(pointer));
    fn cuMemFree_v2(pointer: DevicePointer) as "cuMemFree" => Free::new(Space::Device, pointer);
    fn cuMemGetInfo(free: *mut c_uint, total: *mut c_uint) as "cuMemGetInfo" => Pass;
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) as "cuMemGetInfo" => Pass;

    // Host memory.
    fn cuMemAllocHost(pointer: *mut *mut c_void, bytes: c_uint) as "cuMemAllocHost" => Allocate::new(Space::Pinned, Out::Pointer(pointer), bytes as u64);
    fn cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize) as "cuMemAllocHost" => Allocate::new(Space::Pinned, Out::Pointer(pointer), bytes as u64);
    fn cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) as "cuMemHostAlloc" => Allocate::new(Space::Pinned, Out::Pointer(pointer), bytes as u64);
    fn cuMemFreeHost(pointer: *mut c_void) as "cuMemFreeHost" => Free::new(Space::Pinned, pointer as u64);
    fn cuMemHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) as "cuMemHostRegister" => Host::register(pointer, bytes);
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) as "cuMemHostRegister" => Host::register(pointer, bytes);
    fn cuMemHostUnregister(pointer: *mut c_void) as "cuMemHostUnregister" => Free::new(Space::Registered, pointer as u64);

    // Stream-ordered memory and its pools.
    fn cuMemAllocAsync(pointer: *mut DevicePointer, bytes: usize, stream: Stream) as "cuMemAllocAsync" => Allocate::on_stream(Out::Address(pointer), bytes, stream, NO_POOL, false);
    fn cuMemAllocAsync_ptsz(pointer: *mut DevicePointer, bytes: usize, stream: Stream) as "cuMemAllocAsync" => Allocate::on_stream(Out::Address(pointer), bytes, stream, NO_POOL, true);
    fn cuMemAllocFromPoolAsync(pointer: *mut DevicePointer, bytes: usize, pool: Pool, stream: Stream) as "cuMemAllocFromPoolAsync" => Allocate::on_stream(Out::Address(pointer), bytes, stream, pool, false);
    fn cuMemAllocFromPoolAsync_ptsz(pointer: *mut DevicePointer, bytes: usize, pool: Pool, stream: Stream) as "cuMemAllocFromPoolAsync" => Allocate::on_stream(Out::Address(pointer), bytes, stream, pool, true);
    fn cuMemFreeAsync(pointer: DevicePointer, stream: Stream) as "cuMemFreeAsync" => Free::on_stream(pointer, stream, false);
    fn cuMemFreeAsync_ptsz(pointer: DevicePointer, stream: Stream) as "cuMemFreeAsync" => Free::on_stream(pointer, stream, true);
    fn cuMemPoolCreate(pool: *mut Pool, properties: *const PoolProperties) as "cuMemPoolCreate" => CreatePool::new(pool, properties);
    fn cuMemPoolDestroy(pool: Pool) as "cuMemPoolDestroy" => DestroyPool::new(pool);
    fn cuMemPoolTrimTo(pool: Pool, keep: usize) as "cuMemPoolTrimTo" => Pass;

    // Virtual memory management: addresses, physical handles, mappings.
    fn cuMemAddressReserve(pointer: *mut DevicePointer, bytes: usize, alignment: usize, wanted: DevicePointer, flags: c_ulonglong) as "cuMemAddressReserve" => Allocate::new(Space::ReservedVa, Out::Address(pointer), bytes as u64);
    fn cuMemAddressFree(pointer: DevicePointer, bytes: usize) as "cuMemAddressFree" => Free::new(Space::ReservedVa, pointer);
    fn cuMemCreate(handle: *mut VmmHandle, bytes: usize, properties: *const VmmProperties, flags: c_ulonglong) as "cuMemCreate" => CreateHandle::new(handle, bytes, properties);
    fn cuMemRelease(handle: VmmHandle) as "cuMemRelease" => Free::new(Space::Vmm, handle);
    fn cuMemRetainAllocationHandle(handle: *mut VmmHandle, address: *mut c_void) as "cuMemRetainAllocationHandle" => RetainHandle::new(handle);
    fn cuMemMap(pointer: DevicePointer, bytes: usize, offset: usize, handle: VmmHandle, flags: c_ulonglong) as "cuMemMap" => MapHandle::new(pointer, bytes, offset, handle);
    fn cuMemUnmap(pointer: DevicePointer, bytes: usize) as "cuMemUnmap" => Unmap::new(pointer, bytes);

    // Contexts: they own linear, managed and pinned memory.
    fn cuCtxCreate(context: *mut Context, flags: c_uint, device: DeviceOrdinal) as "cuCtxCreate" => CreateContext::new(context, device);
    fn cuCtxCreate_v2(context: *mut Context, flags: c_uint, device: DeviceOrdinal) as "cuCtxCreate" => CreateContext::new(context, device);
    fn cuCtxCreate_v3(context: *mut Context, affinity: *mut c_void, count: c_int, flags: c_uint, device: DeviceOrdinal) as "cuCtxCreate" => CreateContext::new(context, device);
    fn cuCtxCreate_v4(context: *mut Context, parameters: *mut c_void, flags: c_uint, device: DeviceOrdinal) as "cuCtxCreate" => CreateContext::new(context, device);
    fn cuCtxDestroy(context: Context) as "cuCtxDestroy" => DestroyContext::new(context);
    fn cuCtxDestroy_v2(context: Context) as "cuCtxDestroy" => DestroyContext::new(context);
    fn cuDevicePrimaryCtxRetain(context: *mut Context, device: DeviceOrdinal) as "cuDevicePrimaryCtxRetain" => RetainPrimary::new(context, device);
    fn cuDevicePrimaryCtxRelease(device: DeviceOrdinal) as "cuDevicePrimaryCtxRelease" => ReleasePrimary::new(device);
    fn cuDevicePrimaryCtxRelease_v2(device: DeviceOrdinal) as "cuDevicePrimaryCtxRelease" => ReleasePrimary::new(device);
    fn cuDevicePrimaryCtxReset(device: DeviceOrdinal) as "cuDevicePrimaryCtxReset" => ResetPrimary::new(device);
    fn cuDevicePrimaryCtxReset_v2(device: DeviceOrdinal) as "cuDevicePrimaryCtxReset" => ResetPrimary::new(device);

    // Captures: a captured allocation is a node of a graph, not memory.
    fn cuStreamBeginCapture(stream: Stream, mode: c_int) as "cuStreamBeginCapture" => BeginCapture;
    fn cuStreamBeginCapture_ptsz(stream: Stream, mode: c_int) as "cuStreamBeginCapture" => BeginCapture;
    fn cuStreamBeginCapture_v2(stream: Stream, mode: c_int) as "cuStreamBeginCapture" => BeginCapture;
    fn cuStreamBeginCapture_v2_ptsz(stream: Stream, mode: c_int) as "cuStreamBeginCapture" => BeginCapture;
    fn cuStreamBeginCaptureToGraph(stream: Stream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_int) as "cuStreamBeginCaptureToGraph" => BeginCapture;
    fn cuStreamBeginCaptureToGraph_ptsz(stream: Stream, graph: *mut c_void, dependencies: *const c_void, data: *const c_void, count: usize, mode: c_int) as "cuStreamBeginCaptureToGraph" => BeginCapture;
    fn cuStreamEndCapture(stream: Stream, graph: *mut *mut c_void) as "cuStreamEndCapture" => EndCapture;
    fn cuStreamEndCapture_ptsz(stream: Stream, graph: *mut *mut c_void) as "cuStreamEndCapture" => EndCapture;
}

runtime_table! {
    fn cudaMalloc(pointer: *mut *mut c_void, bytes: usize) as "cudaMalloc" => Allocate::new(Space::Device, Out::Pointer(pointer), bytes as u64);
    fn cudaMallocPitch(pointer: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) as "cudaMallocPitch" => AllocatePitch::new(Out::Pointer(pointer), pitch, width, height);
    fn cudaMalloc3D(pointer: *mut PitchedPointer, extent: Extent) as "cudaMalloc3D" => AllocatePitch3D::new(pointer, extent);
    fn cudaMallocManaged(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) as "cudaMallocManaged" => Allocate::new(Space::Managed, Out::Pointer(pointer), bytes as u64);
    fn cudaFree(pointer: *mut c_void) as "cudaFree" => Free::new(Space::Device, pointer as u64);

    fn cudaMallocHost(pointer: *mut *mut c_void, bytes: usize) as "cudaMallocHost" => Allocate::new(Space::Pinned, Out::Pointer(pointer), bytes as u64);
    fn cudaHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint) as "cudaHostAlloc" => Allocate::new(Space::Pinned, Out::Pointer(pointer), bytes as u64);
    fn cudaFreeHost(pointer: *mut c_void) as "cudaFreeHost" => Free::new(Space::Pinned, pointer as u64);
    fn cudaHostRegister(pointer: *mut c_void, bytes: usize, flags: c_uint) as "cudaHostRegister" => Host::register(pointer, bytes);
    fn cudaHostUnregister(pointer: *mut c_void) as "cudaHostUnregister" => Free::new(Space::Registered, pointer as u64);

    fn cudaMallocAsync(pointer: *mut *mut c_void, bytes: usize, stream: Stream) as "cudaMallocAsync" => Allocate::on_stream(Out::Pointer(pointer), bytes, stream, NO_POOL, false);
    fn cudaMallocAsync_ptsz(pointer: *mut *mut c_void, bytes: usize, stream: Stream) as "cudaMallocAsync" => Allocate::on_stream(Out::Pointer(pointer), bytes, stream, NO_POOL, true);
    fn cudaMallocFromPoolAsync(pointer: *mut *mut c_void, bytes: usize, pool: Pool, stream: Stream) as "cudaMallocFromPoolAsync" => Allocate::on_stream(Out::Pointer(pointer), bytes, stream, pool, false);
    fn cudaMallocFromPoolAsync_ptsz(pointer: *mut *mut c_void, bytes: usize, pool: Pool, stream: Stream) as "cudaMallocFromPoolAsync" => Allocate::on_stream(Out::Pointer(pointer), bytes, stream, pool, true);
    fn cudaFreeAsync(pointer: *mut c_void, stream: Stream) as "cudaFreeAsync" => Free::on_stream(pointer as u64, stream, false);
    fn cudaFreeAsync_ptsz(pointer: *mut c_void, stream: Stream) as "cudaFreeAsync" => Free::on_stream(pointer as u64, stream, true);
    fn cudaMemPoolCreate(pool: *mut Pool, properties: *const c_void) as "cudaMemPoolCreate" => Pass;
    fn cudaMemPoolDestroy(pool: Pool) as "cudaMemPoolDestroy" => Pass;
    fn cudaMemPoolTrimTo(pool: Pool, keep: usize) as "cudaMemPoolTrimTo" => Pass;

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) as "cudaMemGetInfo" => Pass;
    fn cudaDeviceReset() as "cudaDeviceReset" => Pass;
}

const NO_POOL: Pool = std::ptr::null_mut();

/// Names by row number, for the look-up that the compiler builds.
pub(super) const NAMES: [&CStr; DRIVER.len() + RUNTIME.len()] = {
    let mut names = [c""; DRIVER.len() + RUNTIME.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = if at < DRIVER.len() {
            DRIVER_NAMES[at]
        } else {
            RUNTIME_NAMES[at - DRIVER.len()]
        };
        at += 1;
    }
    names
};
