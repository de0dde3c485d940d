//! PyTorch's `c10::reportOutOfMemoryToProfiler`: called by its cache when it has given back all that it could and the memory
//! still does not suffice, just before the program gets its `OutOfMemoryError`. Exported under all names that it has had;
//! its four arguments travel in the same registers in each.

use super::super::doors;
use super::super::writer;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

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

#[cfg_attr(test, allow(dead_code))]
fn reported(name: &CStr, cache: &AtomicPtr<c_void>, arguments: [usize; 4]) {
    type Report = unsafe extern "C-unwind" fn(usize, usize, usize, usize);
    writer::framework_gave_up();
    let found = real(cache, name);
    if !found.is_null() {
        let [size, allocated, reserved, device] = arguments;
        // SAFETY: the function of this very name, whose arguments are handed on as they came.
        unsafe {
            std::mem::transmute::<*mut c_void, Report>(found)(size, allocated, reserved, device);
        }
    }
}

#[cfg(not(test))]
mod export {
    use super::reported;
    use std::ffi::CStr;
    use std::sync::atomic::AtomicPtr;

    macro_rules! report {
        ($name:ident) => {
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            unsafe extern "C-unwind" fn $name(
                size: usize,
                allocated: usize,
                reserved: usize,
                device: usize,
            ) {
                static REAL: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(std::ptr::null_mut());
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol cannot hold a NUL"),
                    };
                reported(NAME, &REAL, [size, allocated, reserved, device]);
            }
        };
    }

    report!(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE);
    report!(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE);
    report!(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE);
}
