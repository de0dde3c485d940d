//! The three doors by which a program reaches the driver: exported symbols (here and `runtime`), `dlsym`, and the
//! driver's own resolver, `cuGetProcAddress` (`resolver`).

pub mod bypass;
pub mod dlsym;
pub mod resolver;
pub mod runtime;

use super::hooks::row::Row;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

// The path is spelled out because `include_str!` counts from the file that uses the macro.
#[cfg(target_arch = "aarch64")]
#[cfg_attr(test, allow(unused_macros))]
macro_rules! runtime_stub {
    () => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/preload/doors/runtime_aarch64.s"
        ))
    };
}
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(unused_macros))]
macro_rules! runtime_stub {
    () => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/preload/doors/runtime_x86_64.s"
        ))
    };
}
#[cfg_attr(test, allow(unused_imports))]
pub(in crate::preload) use runtime_stub;

static LIBCUDA: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The handle of libcuda, if the process has loaded it. Never loads it: a process that makes no CUDA call stays as it is.
pub fn libcuda() -> Option<*mut c_void> {
    let known = LIBCUDA.load(Ordering::Acquire);
    if !known.is_null() {
        return Some(known);
    }
    // RTLD_NEXT would not do: Python loads CUDA libraries RTLD_LOCAL.
    let handle = loaded(c"libcuda.so.1")?;
    LIBCUDA.store(handle, Ordering::Release);
    Some(handle)
}

/// A handle of an object that is loaded already; nothing is loaded by this.
fn loaded(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a NUL-terminated name; RTLD_NOLOAD runs no constructor.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!handle.is_null()).then_some(handle)
}

/// A driver function by exact symbol, as libcuda exports it; null if there is none.
pub fn driver_symbol(name: &CStr) -> *mut c_void {
    libcuda().map_or(std::ptr::null_mut(), |handle| dlsym::look_up(handle, name))
}

/// Where the exported symbol of a driver function leads.
#[inline]
#[cfg_attr(test, allow(dead_code))]
pub fn exported_target(row: &'static Row) -> *const c_void {
    row.exported(|| {
        // What the program's own binding would have found without us: the next one in the global scope (which may be
        // another preloaded library's), else libcuda loaded privately.
        let next = dlsym::look_up(libc::RTLD_NEXT, row.symbol);
        if next.is_null() {
            driver_symbol(row.symbol)
        } else {
            next
        }
    })
}

/// The object that an address lies in.
struct Module {
    /// Path as the loader knows it; empty for the program itself.
    name: *const libc::c_char,
    /// Where it is loaded.
    base: *mut c_void,
}

/// The start of glibc's `struct link_map`, as <link.h> fixes it.
#[repr(C)]
struct LinkMap {
    address: usize,
    name: *const libc::c_char,
}

unsafe extern "C" {
    fn dladdr1(
        address: *const c_void,
        info: *mut libc::Dl_info,
        extra: *mut *mut LinkMap,
        flags: libc::c_int,
    ) -> libc::c_int;
}

/// `RTLD_DL_LINKMAP` of <dlfcn.h>.
const RTLD_DL_LINKMAP: libc::c_int = 2;

fn module_of(address: *const c_void) -> Option<Module> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut map: *mut LinkMap = std::ptr::null_mut();
    // SAFETY: both out-parameters are valid for writes; the address is only compared with load ranges.
    let found = unsafe { dladdr1(address, info.as_mut_ptr(), &mut map, RTLD_DL_LINKMAP) };
    if found == 0 || map.is_null() {
        return None;
    }
    // SAFETY: dladdr1 succeeded, so both are filled in; the link map lives as long as its object is loaded, which the
    // caller guarantees by executing (or holding a function) inside it.
    Some(unsafe {
        Module {
            name: (*map).name,
            base: info.assume_init().dli_fbase,
        }
    })
}

/// The dynamic symbol of exactly this address, if it lies outside libcuda and outside this library.
fn foreign_symbol(address: *const c_void) -> Option<&'static CStr> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the out-parameter is valid for writes; the address is only compared with load ranges.
    if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: dladdr succeeded, so it is filled in.
    let info = unsafe { info.assume_init() };
    let driver = driver_symbol(c"cuInit");
    let is_known = |base: usize| {
        base == module_base(driver as usize)
            || base == module_base(libcuda as fn() -> Option<*mut c_void> as usize)
    };
    if info.dli_sname.is_null()
        || info.dli_saddr.cast_const() != address
        || is_known(info.dli_fbase as usize)
    {
        return None;
    }
    // SAFETY: the name lies in the string table of an object whose function the caller was just given.
    Some(unsafe { CStr::from_ptr(info.dli_sname) })
}

/// Load address of the object that holds `address`; 0 if none does.
pub fn module_base(address: usize) -> usize {
    module_of(std::ptr::without_provenance(address)).map_or(0, |module| module.base as usize)
}

/// True if the address lies in this library.
fn is_ours(address: *const c_void) -> bool {
    let own = module_base(libcuda as fn() -> Option<*mut c_void> as usize);
    own != 0 && module_base(address as usize) == own
}
