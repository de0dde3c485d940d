//! `dlsym`, exported without going between the caller and the real one: it looks at the request and then either
//! answers or jumps on, so that the real `dlsym` sees the caller's own return address (RTLD_NEXT depends on it).
//!
//! An ordinary wrapper here makes any library that wraps a function by `dlsym(RTLD_NEXT, …)` find itself: endless
//! recursion. The jump needs CFI by hand, since none is made for naked functions and an unwinder comes this way.

use super::super::hooks::{self, row::Row};
use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Address of the next `dlsym` in the chain (another preloaded library's, or glibc's); 0 until first needed.
static REAL: AtomicUsize = AtomicUsize::new(0);

/// The versions under which glibc has exported it: since 2.34, x86_64, aarch64.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.2.5", c"GLIBC_2.17"];

fn real() -> usize {
    let known = REAL.load(Ordering::Acquire);
    if known != 0 { known } else { find_real() }
}

/// glibc's own `dlsym`; 0 if this glibc is not known.
pub fn glibc_dlsym() -> usize {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let known = FOUND.load(Ordering::Acquire);
    if known != 0 {
        return known;
    }
    let mut found = 0;
    for version in VERSIONS {
        // SAFETY: NUL-terminated names; a version that does not exist gives NULL. `dlvsym` is not interposed by us.
        found =
            unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) } as usize;
        if found != 0 {
            break;
        }
    }
    FOUND.store(found, Ordering::Release);
    found
}

#[cold]
fn find_real() -> usize {
    let mut found = glibc_dlsym();
    if found != 0 {
        // SAFETY: glibc's own dlsym, found above.
        let glibc: Dlsym = unsafe { std::mem::transmute::<usize, Dlsym>(found) };
        // A later preloaded library may wrap `dlsym` as well: asking by plain name keeps it in the chain.
        // SAFETY: as for any dlsym call; RTLD_NEXT is taken relative to this code, which lies in our library.
        let next = unsafe { glibc(libc::RTLD_NEXT, c"dlsym".as_ptr()) } as usize;
        if next != 0 {
            found = next;
        }
    }
    REAL.store(found, Ordering::Release);
    found
}

/// A look-up by glibc itself, past all wrappers: RTLD_NEXT is relative to this library, and a handle gives what its library
/// exports. For all that we want to know ourselves.
#[inline(never)]
fn look_up(handle: *mut c_void, name: &CStr) -> *mut c_void {
    ask(glibc_dlsym(), handle, name)
}

/// A look-up through the chain, as the caller of our `dlsym` would make it without us. (Not for RTLD_NEXT, which a wrapper
/// in the chain takes relative to itself.)
#[inline(never)]
fn real_dlsym(handle: *mut c_void, name: &CStr) -> *mut c_void {
    ask(real(), handle, name)
}

/// NULL when there is none (a glibc that we do not know).
fn ask(real: usize, handle: *mut c_void, name: &CStr) -> *mut c_void {
    if real == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the loader gave it under the name `dlsym`.
    let real: Dlsym = unsafe { std::mem::transmute::<usize, Dlsym>(real) };
    // SAFETY: the handle is a pseudo handle or one that the caller holds; the name is NUL-terminated.
    unsafe { real(handle, name.as_ptr()) }
}

/// What the stub does next.
#[repr(C)]
pub struct Decision {
    /// The answer, if `decided`.
    answer: *const c_void,
    /// 0: jump on to the real `dlsym`.
    decided: usize,
}

const GO_ON: Decision = Decision {
    answer: std::ptr::null(),
    decided: 0,
};

/// Looks at a request. Runs inside allocators and loaders: for all names but ours it neither allocates, locks nor
/// touches anything that is initialised lazily.
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    // The stub jumps through REAL, so it has to be known by then.
    if real() == 0 || name.is_null() {
        return GO_ON;
    }
    // SAFETY: the caller of dlsym passes a NUL-terminated name.
    let name = unsafe { CStr::from_ptr(name) };
    let Some((_, row)) = hooks::find(name) else {
        return GO_ON;
    };
    let pseudo = handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT;
    let mut found = std::ptr::null_mut();
    if !pseudo {
        super::resolver::prepare(row);
        found = real_dlsym(handle, name);
    }
    if pseudo || (!found.is_null() && super::is_ours(found)) {
        // The search meets our exported symbol. Without us it would meet the real one, or nothing: programs probe for
        // CUDA this way, and must not take our mere presence for a driver. Which one is meant only the real dlsym can
        // know ("the one after the caller").
        if is_elsewhere(row, name) {
            return GO_ON;
        }
        return Decision {
            answer: std::ptr::null(),
            decided: 1,
        };
    }
    if found.is_null() {
        return GO_ON;
    }
    match super::resolver::substitute_named(row, found) {
        Some(hook) => Decision {
            answer: hook,
            decided: 1,
        },
        None => GO_ON,
    }
}

/// True if this process knows the function without us.
fn is_elsewhere(row: &'static Row, name: &CStr) -> bool {
    if hooks::is_driver(row) && super::has_libcuda() {
        return true;
    }
    let first = look_up(libc::RTLD_DEFAULT, name);
    if !first.is_null() && !super::is_ours(first) {
        // Of a library before us.
        return true;
    }
    // Asked last, so that it is this failure that `dlerror` speaks of.
    !look_up(libc::RTLD_NEXT, name).is_null()
}

#[cfg(not(test))]
mod export {
    use super::{REAL, decide};
    use std::ffi::{c_char, c_void};

    #[cfg(target_arch = "aarch64")]
    macro_rules! stub {
        () => {
            include_str!("dlsym_aarch64.s")
        };
    }
    #[cfg(target_arch = "x86_64")]
    macro_rules! stub {
        () => {
            include_str!("dlsym_x86_64.s")
        };
    }

    #[unsafe(naked)]
    #[unsafe(no_mangle)]
    unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
        std::arch::naked_asm!(stub!(), decide = sym decide, real = sym REAL)
    }
}
