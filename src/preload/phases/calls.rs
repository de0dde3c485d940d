//! The functions of `oomhook.h`: a program calls them if they are there.

use super::names::Name;
use std::ffi::{CStr, c_char};

#[cfg_attr(test, allow(dead_code))]
unsafe fn named(name: *const c_char) -> Name<'static> {
    let name: &'static [u8] = if name.is_null() {
        b""
    } else {
        // SAFETY: the contract of `oomhook.h`: a NUL-terminated string, which is not kept.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    };
    Name { domain: b"", name }
}

#[cfg(not(test))]
mod export {
    use super::super::super::on_demand;
    use super::super::{mark, pop, push};
    use super::named;
    use std::ffi::c_char;

    /// A number of its own: ranges of NVTX are not popped by this.
    const DOMAIN: super::super::Domain = u32::MAX;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn oomhook_mark(name: *const c_char) {
        // SAFETY: handed on.
        mark(unsafe { named(name) });
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn oomhook_push(name: *const c_char) {
        // SAFETY: handed on.
        push(DOMAIN, unsafe { named(name) });
    }

    #[unsafe(no_mangle)]
    extern "C" fn oomhook_pop() {
        pop(DOMAIN);
    }

    #[unsafe(no_mangle)]
    extern "C" fn oomhook_report() {
        on_demand::asked_by_signal();
    }
}
