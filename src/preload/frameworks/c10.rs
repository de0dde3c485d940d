//! PyTorch's cache of device memory: what it hands out, what it takes back, when it gives up. It tells `libc10.so` by exported
//! functions, which we stand before, under all names that they have had; the arguments travel in the same registers in each.
//!
//! They are called with the cache's lock held, which other threads wait for that hold Python's; so nothing here may wait for
//! anybody but the writer.

use super::super::doors;
use super::super::guard::{self, Thread};
use super::super::raw::{Kind, Raw};
use super::super::record;
use super::super::state::{self, Recorder};
use super::super::{channel, stack, threads, writer};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// `c10::Device`: two bytes, the type and the index.
#[derive(Clone, Copy)]
struct Device(u16);

impl Device {
    /// The number of a CUDA device; others (CPU, another maker's) are not ours.
    fn cuda(self) -> Option<u8> {
        const CUDA: u8 = 1;
        let [kind, index] = self.0.to_le_bytes();
        (kind == CUDA && index < 128).then_some(index)
    }
}

/// PyTorch's own function of this name. (It is not in the global scope, so that RTLD_NEXT does not find it.)
#[cfg_attr(test, allow(dead_code))]
fn real(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = doors::symbol_of(b"libc10.so", name);
    cache.store(found, Ordering::Release);
    found
}

fn send(recorder: &'static Recorder, thread: &Thread, raw: Raw) {
    let with_stack = raw.kind != Kind::TensorFree;
    let stack = if with_stack {
        stack::capture(recorder)
    } else {
        0
    };
    let raw = Raw {
        stack,
        thread: threads::number(recorder, thread),
        time_ns: recorder.now(),
        ..raw
    };
    channel::send(&recorder.sender, raw);
}

/// Records, if this process's tensors are recorded and the device is one of ours.
fn tell(device: usize, raw: Raw) {
    let Some(device) = Device(device as u16).cuda() else {
        return;
    };
    // Switched off it costs next to nothing.
    if state::recorder_at_once().is_some_and(|recorder| !recorder.config.tensors) {
        return;
    }
    guard::with(|thread| {
        record::on_the_way(thread, |recorder| {
            if recorder.config.tensors {
                send(recorder, thread, Raw { device, ..raw });
            }
        });
    });
}

/// `reportMemoryUsageToProfiler(pointer, size, allocated, reserved, device)`: a block was handed out, or taken back (with a
/// negative size). The totals are those after that.
#[cfg_attr(test, allow(dead_code))]
fn used(name: &CStr, cache: &AtomicPtr<c_void>, arguments: [usize; 5]) {
    type Report = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize);
    let [pointer, size, allocated, reserved, device] = arguments;
    let signed = size as i64;
    let kind = if signed > 0 {
        Kind::TensorAlloc
    } else {
        Kind::TensorFree
    };
    if signed != 0 {
        tell(
            device,
            Raw {
                a: pointer as u64,
                b: signed.unsigned_abs(),
                c: allocated as u64,
                d: reserved as u64,
                ..Raw::new(kind)
            },
        );
    }
    let found = real(cache, name);
    if !found.is_null() {
        // SAFETY: the function of this very name, whose arguments are handed on as they came.
        unsafe {
            std::mem::transmute::<*mut c_void, Report>(found)(
                pointer, size, allocated, reserved, device,
            );
        }
    }
}

/// `reportOutOfMemoryToProfiler(size, allocated, reserved, device)`: the cache has given back all that it could, and the memory
/// still does not suffice. The program gets its `OutOfMemoryError` next.
#[cfg_attr(test, allow(dead_code))]
fn gave_up(name: &CStr, cache: &AtomicPtr<c_void>, arguments: [usize; 4]) {
    type Report = unsafe extern "C-unwind" fn(usize, usize, usize, usize);
    let [size, allocated, reserved, device] = arguments;
    tell(
        device,
        Raw {
            b: size as u64,
            c: allocated as u64,
            d: reserved as u64,
            ..Raw::new(Kind::TensorFailed)
        },
    );
    writer::framework_gave_up();
    let found = real(cache, name);
    if !found.is_null() {
        // SAFETY: as above.
        unsafe {
            std::mem::transmute::<*mut c_void, Report>(found)(size, allocated, reserved, device);
        }
    }
}

#[cfg(not(test))]
mod export {
    use super::{gave_up, used};
    use std::ffi::CStr;
    use std::sync::atomic::AtomicPtr;

    macro_rules! report {
        ($name:ident => $to:ident($($argument:ident),*)) => {
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C-unwind" fn $name($($argument: usize),*) {
                static REAL: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol cannot hold a NUL"),
                    };
                $to(NAME, &REAL, [$($argument),*]);
            }
        };
    }

    // PyTorch up to 1.13, and from 2.0 on.
    report!(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE => used(pointer, size, allocated, reserved, device));
    report!(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE => used(pointer, size, allocated, reserved, device));
    // PyTorch 1.13, from 2.0 on, and as its newest sources have it.
    report!(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE => gave_up(size, allocated, reserved, device));
    report!(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE => gave_up(size, allocated, reserved, device));
    report!(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE => gave_up(size, allocated, reserved, device));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cuda_devices_count() {
        assert_eq!(Device(0x0001).cuda(), Some(0));
        assert_eq!(Device(0x0301).cuda(), Some(3));
        // The CPU, AMD's, and "the current one".
        assert_eq!(Device(0x0000).cuda(), None);
        assert_eq!(Device(0x0014).cuda(), None);
        assert_eq!(Device(0xff01).cuda(), None);
    }
}
