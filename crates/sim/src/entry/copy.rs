//! Copies and fills: device memory holds nothing, so only real memory is touched.

use super::entries;
use crate::abi::graph::{NODE_COPY, NODE_FILL};
use crate::abi::{DevicePtr, Handle, HostPtr};
use crate::codes::{Code, number};
use crate::gate::Call;
use crate::os;
use crate::state::Side;
use std::ffi::c_int;

/// One side of a copy: an address, and whether the call says that it is device memory.
#[derive(Clone, Copy)]
struct End(u64, bool);

fn host(address: HostPtr) -> End {
    End(address as u64, false)
}

/// Copies at once, or in the order of a stream.
///
/// # Safety
/// Host memory that the caller names is mapped for `length` bytes, as every CUDA copy asks.
unsafe fn copy(call: Call, to: End, from: End, length: usize, stream: Option<Handle>) -> c_int {
    let sides = call.run(|driver, thread| {
        // A copy without a stream is work of the default one, and waits for it.
        match stream {
            Some(stream) => driver.enqueue(thread, call.stream(stream), NODE_COPY)?,
            None => driver.query_stream(thread, call.stream(0))?,
        }
        let to = driver.side(to.0, length as u64, to.1)?;
        Ok((to, driver.side(from.0, length as u64, from.1)?))
    });
    if sides == Ok((Side::Real, Side::Real)) {
        // SAFETY: both sides are real: the caller's by the contract, or a mapping of the driver.
        unsafe { os::copy(to.0, from.0, length) };
    }
    number(&sides)
}

/// Fills `count` elements of 1, 2 or 4 bytes.
///
/// # Safety
/// Host memory that the caller names is mapped for all elements.
unsafe fn fill(call: Call, to: DevicePtr, pattern: &[u8], count: usize, stream: Handle) -> c_int {
    let side = call.run(|driver, thread| {
        driver.enqueue(thread, call.stream(stream), NODE_FILL)?;
        let length = count
            .checked_mul(pattern.len())
            .ok_or(Code::INVALID_VALUE)?;
        driver.side(to, length as u64, true)
    });
    if side == Ok(Side::Real) {
        // SAFETY: the driver knows the range, and it is real memory.
        unsafe { os::fill(to, pattern, count) };
    }
    number(&side)
}

/// The body of a row: a copy between two ends.
macro_rules! copy {
    ($($argument:expr),*) => {
        // SAFETY: the caller of the CUDA function promises what `copy` asks.
        unsafe { copy($($argument),*) }
    };
}

/// The body of a row: a fill.
macro_rules! fill {
    ($($argument:expr),*) => {
        // SAFETY: the caller of the CUDA function promises what `fill` asks.
        unsafe { fill($($argument),*) }
    };
}

entries! {
    "cuMemcpy" 4000 / cuMemcpy_ptds 7000 => fn cuMemcpy(call, to: DevicePtr, from: DevicePtr, length: usize) {
        copy!(call, End(to, false), End(from, false), length, None)
    }
    "cuMemcpyAsync" 4000 / cuMemcpyAsync_ptsz 7000 => fn cuMemcpyAsync(call, to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) {
        copy!(call, End(to, false), End(from, false), length, Some(stream))
    }
    "cuMemcpyHtoD" 3020 / cuMemcpyHtoD_v2_ptds 7000 => fn cuMemcpyHtoD_v2(call, to: DevicePtr, from: HostPtr, length: usize) {
        copy!(call, End(to, true), host(from), length, None)
    }
    "cuMemcpyDtoH" 3020 / cuMemcpyDtoH_v2_ptds 7000 => fn cuMemcpyDtoH_v2(call, to: HostPtr, from: DevicePtr, length: usize) {
        copy!(call, host(to), End(from, true), length, None)
    }
    "cuMemcpyDtoD" 3020 / cuMemcpyDtoD_v2_ptds 7000 => fn cuMemcpyDtoD_v2(call, to: DevicePtr, from: DevicePtr, length: usize) {
        copy!(call, End(to, true), End(from, true), length, None)
    }
    "cuMemcpyHtoDAsync" 3020 / cuMemcpyHtoDAsync_v2_ptsz 7000 => fn cuMemcpyHtoDAsync_v2(call, to: DevicePtr, from: HostPtr, length: usize, stream: Handle) {
        copy!(call, End(to, true), host(from), length, Some(stream))
    }
    "cuMemcpyDtoHAsync" 3020 / cuMemcpyDtoHAsync_v2_ptsz 7000 => fn cuMemcpyDtoHAsync_v2(call, to: HostPtr, from: DevicePtr, length: usize, stream: Handle) {
        copy!(call, host(to), End(from, true), length, Some(stream))
    }
    "cuMemcpyDtoDAsync" 3020 / cuMemcpyDtoDAsync_v2_ptsz 7000 => fn cuMemcpyDtoDAsync_v2(call, to: DevicePtr, from: DevicePtr, length: usize, stream: Handle) {
        copy!(call, End(to, true), End(from, true), length, Some(stream))
    }
    "cuMemsetD8" 3020 / cuMemsetD8_v2_ptds 7000 => fn cuMemsetD8_v2(call, to: DevicePtr, value: u8, count: usize) {
        fill!(call, to, &[value], count, 0)
    }
    "cuMemsetD16" 3020 / cuMemsetD16_v2_ptds 7000 => fn cuMemsetD16_v2(call, to: DevicePtr, value: u16, count: usize) {
        fill!(call, to, &value.to_ne_bytes(), count, 0)
    }
    "cuMemsetD32" 3020 / cuMemsetD32_v2_ptds 7000 => fn cuMemsetD32_v2(call, to: DevicePtr, value: u32, count: usize) {
        fill!(call, to, &value.to_ne_bytes(), count, 0)
    }
    "cuMemsetD8Async" 3020 / cuMemsetD8Async_ptsz 7000 => fn cuMemsetD8Async(call, to: DevicePtr, value: u8, count: usize, stream: Handle) {
        fill!(call, to, &[value], count, stream)
    }
    "cuMemsetD16Async" 3020 / cuMemsetD16Async_ptsz 7000 => fn cuMemsetD16Async(call, to: DevicePtr, value: u16, count: usize, stream: Handle) {
        fill!(call, to, &value.to_ne_bytes(), count, stream)
    }
    "cuMemsetD32Async" 3020 / cuMemsetD32Async_ptsz 7000 => fn cuMemsetD32Async(call, to: DevicePtr, value: u32, count: usize, stream: Handle) {
        fill!(call, to, &value.to_ne_bytes(), count, stream)
    }
}
