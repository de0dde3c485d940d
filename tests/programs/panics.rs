//! Holds 3 MiB, and panics; built with panic=abort.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the driver with these arguments.
macro_rules! driver {
    ($handle:expr, $name:literal ($($type:ty),*) ($($argument:expr),*)) => {{
        let found = unsafe { dlsym($handle, $name.as_ptr()) };
        let call: unsafe extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(found) };
        assert_eq!(unsafe { call($($argument),*) }, 0);
    }};
}

#[inline(never)]
fn take(handle: *mut c_void) -> u64 {
    let mut block = 0u64;
    driver!(handle, c"cuMemAlloc_v2" (*mut u64, usize) (&mut block, 3 << 20));
    block
}

fn main() {
    let handle = unsafe { dlopen(c"libcuda.so.1".as_ptr(), 2) };
    let mut context = std::ptr::null_mut::<c_void>();
    driver!(handle, c"cuInit" (u32) (0));
    driver!(handle, c"cuDevicePrimaryCtxRetain" (*mut *mut c_void, c_int) (&mut context, 0));
    driver!(handle, c"cuCtxSetCurrent" (*mut c_void) (context));
    let block = take(handle);
    match std::env::args().nth(1).as_deref() {
        Some("index") => println!("{}", [1, 2][block as usize]),
        Some("overflow the stack") => println!("{}", deep(block)),
        _ => panic!("nobody catches this"),
    }
}

#[inline(never)]
fn deep(number: u64) -> u64 {
    let room = std::hint::black_box([number; 512]);
    if room[1] == 1 { 0 } else { deep(room[0]) + room[2] }
}
