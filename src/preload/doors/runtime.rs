//! Which runtime does this caller mean? Several libcudarts may live in one process (a wheel's and the system's); a call
//! must reach the one that the caller was linked to.

use super::super::hooks::{self, table};
use super::dlsym::look_up;
use super::{loaded, module_of};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Sonames of the runtime, newest first, for callers whose own libraries do not lead to one.
const RUNTIMES: [&CStr; 3] = [c"libcudart.so.13", c"libcudart.so.12", c"libcudart.so.11.0"];

/// What is known of one call site.
struct CallSite {
    return_address: usize,
    row: u16,
    thunk: *const c_void,
}

const BUCKETS: usize = 1024;

/// Direct-mapped; entries are made once and never freed, so that a reader can hold one without a lock. A lost race or
/// a collision costs a leaked entry of 24 bytes or a slow look-up, never a wrong answer.
static SITES: [AtomicPtr<CallSite>; BUCKETS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; BUCKETS];

/// Called by the exported stubs: where the call of `row` that returns to `return_address` belongs.
#[cfg_attr(test, allow(dead_code))]
pub extern "C" fn target(row: u16, return_address: usize) -> *const c_void {
    let bucket = &SITES[(return_address ^ (return_address >> 12) ^ usize::from(row)) % BUCKETS];
    let known = bucket.load(Ordering::Acquire);
    if !known.is_null() {
        // SAFETY: entries are leaked, so a pointer that was published stays valid.
        let known = unsafe { &*known };
        if known.return_address == return_address && known.row == row {
            return known.thunk;
        }
    }
    let Some(thunk) = find(row, return_address) else {
        return absent as extern "C" fn() -> i32 as *const c_void;
    };
    if known.is_null() {
        let site = Box::into_raw(Box::new(CallSite {
            return_address,
            row,
            thunk,
        }));
        let _ = bucket.compare_exchange(
            std::ptr::null_mut(),
            site,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
    thunk
}

/// Stands in for a function of a runtime that is not there: says "not initialised", as a runtime without a driver.
extern "C" fn absent() -> i32 {
    hooks::abi::NOT_INITIALIZED
}

#[cold]
fn find(row: u16, return_address: usize) -> Option<*const c_void> {
    let row = &table::RUNTIME[usize::from(row)];
    let real = of_caller(row.symbol, return_address)
        .or_else(|| non_null(look_up(libc::RTLD_NEXT, row.symbol)))
        .or_else(|| {
            RUNTIMES
                .iter()
                .filter_map(|name| loaded(name))
                .find_map(|handle| non_null(look_up(handle, row.symbol)))
        })?;
    pin(real);
    // With all slots taken the caller goes to its runtime unlabelled.
    Some(row.thunk_for(real).unwrap_or(real))
}

fn non_null(pointer: *mut c_void) -> Option<*mut c_void> {
    (!pointer.is_null()).then_some(pointer)
}

/// The function as the libraries of the caller's own module lead to it. Symbol versions make this the right one even
/// where another runtime stands in the global scope.
fn of_caller(symbol: &CStr, return_address: usize) -> Option<*mut c_void> {
    let module = module_of(std::ptr::without_provenance(return_address))?;
    // SAFETY: the loader's own NUL-terminated name of a module that is executing.
    let name = unsafe { CStr::from_ptr(module.name) };
    if name.is_empty() {
        // The program itself: its scope is the global one, which the caller of this asks next.
        return None;
    }
    let handle = loaded(name)?;
    let found = look_up(handle, symbol);
    // SAFETY: the reference that `loaded` took just now.
    unsafe { libc::dlclose(handle) };
    let found = non_null(found).filter(|found| !super::is_ours(*found))?;
    if super::module_base(found as usize) == module.base as usize {
        // The caller's own function of that name. If the global scope finds that one first, the caller is a wrapper
        // preloaded before us: it got us by RTLD_NEXT, and wants what comes after us.
        let first = look_up(libc::RTLD_DEFAULT, symbol);
        if first == found {
            return None;
        }
    }
    Some(found)
}

/// Modules pinned so far.
static PINNED: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];

/// Keeps the runtime that holds `function` loaded: its address stands in a slot for good.
pub fn pin(function: *mut c_void) {
    let Some(module) = module_of(function) else {
        return;
    };
    for pinned in &PINNED {
        match pinned.compare_exchange(0, module.base as usize, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => {
                // SAFETY: the loader's own NUL-terminated name of a loaded module.
                let name = unsafe { CStr::from_ptr(module.name) };
                if !name.is_empty() {
                    // The handle is kept on purpose.
                    let _ = loaded(name);
                }
                return;
            }
            Err(holder) if holder == module.base as usize => return,
            Err(_) => {}
        }
    }
}
