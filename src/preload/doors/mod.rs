//! The three doors by which a program reaches the driver: exported symbols (here and `runtime`), `dlsym`, and the
//! driver's own resolver, `cuGetProcAddress` (`resolver`).

pub mod bypass;
pub mod dlsym;
pub mod elf;
pub mod resolver;
pub mod runtime;

use super::hooks::row::Row;
use elf::Object;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

/// libcuda was seen once: it stays (see `pin`).
static HAS_LIBCUDA: AtomicBool = AtomicBool::new(false);

/// Calls `work` with libcuda, if the process has loaded it. Nothing is loaded by this: a process that makes no CUDA call
/// stays as it is.
fn with_libcuda(mut work: impl FnMut(Object<'_>)) {
    elf::each(&mut |object| {
        let found = object.soname() == b"libcuda.so.1";
        if found {
            HAS_LIBCUDA.store(true, Ordering::Release);
            work(object);
        }
        found
    });
}

/// True if the process has loaded libcuda.
pub fn has_libcuda() -> bool {
    if !HAS_LIBCUDA.load(Ordering::Acquire) {
        with_libcuda(|_| ());
    }
    HAS_LIBCUDA.load(Ordering::Acquire)
}

/// A driver function by exact symbol, as libcuda exports it; null if there is none.
pub fn driver_symbol(name: &CStr) -> *mut c_void {
    let mut found = None;
    with_libcuda(|object| found = object.symbol(name));
    found.unwrap_or(std::ptr::null_mut())
}

/// A function of the loaded library with this soname, however privately it is loaded; null if there is none.
pub fn symbol_of(soname: &[u8], name: &CStr) -> *mut c_void {
    let mut found = None;
    elf::each(&mut |object| {
        let is_it = object.soname() == soname;
        if is_it {
            found = object.symbol(name);
        }
        is_it
    });
    found.unwrap_or(std::ptr::null_mut())
}

/// A function of a library that we have loaded ourselves, by its handle: under which name it was loaded first is no matter.
/// Null if it has none of that name.
pub fn symbol_in(handle: *mut c_void, name: &CStr) -> *mut c_void {
    /// `RTLD_DI_LINKMAP`.
    const LINK_MAP: c_int = 2;
    let mut map: *const usize = std::ptr::null();
    // SAFETY: a handle of `dlopen`, and a place for the address of its link map.
    let code = unsafe { libc::dlinfo(handle, LINK_MAP, (&raw mut map).cast()) };
    if code != 0 || map.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a link map begins with the load address, and lives as long as the handle.
    let base = unsafe { map.read() };
    let mut found = None;
    elf::each(&mut |object| {
        let is_it = object.base() == base;
        if is_it {
            found = object.symbol(name);
        }
        is_it
    });
    found.unwrap_or(std::ptr::null_mut())
}

/// A function of the C library, or of a library preloaded after us that stands before it: what a caller would have reached
/// without us. Asks the loaded objects themselves: the loader's lock may be held by who waits for us, and `dlerror` is the
/// program's.
pub fn behind_us(name: &CStr) -> *mut c_void {
    let wrapper = runtime::preloaded_after_us(name);
    wrapper.unwrap_or_else(|| symbol_of(b"libc.so.6", name))
}

/// An address inside this library.
fn own_address() -> usize {
    has_libcuda as fn() -> bool as usize
}

/// Where the exported symbol of a driver function leads.
#[inline]
#[cfg_attr(test, allow(dead_code))]
pub fn exported_target(row: &'static Row) -> *const c_void {
    row.exported(|| {
        // What the program's own binding would have found without us: another preloaded library's, else libcuda's,
        // however privately that is loaded.
        let wrapper = runtime::preloaded_after_us(row.symbol);
        wrapper.unwrap_or_else(|| driver_symbol(row.symbol))
    })
}

/// Load address of the object that holds `address`; 0 if none does.
pub fn module_base(address: usize) -> usize {
    let mut base = 0;
    elf::each(&mut |object| {
        let found = object.contains(address);
        if found {
            base = object.base();
        }
        found
    });
    base
}

/// True if the address lies in this library.
fn is_ours(address: *const c_void) -> bool {
    let mut ours = false;
    elf::each(&mut |object| {
        let own = object.contains(own_address());
        ours |= own && object.contains(address as usize);
        own
    });
    ours
}

/// Keeps the library that holds `function` loaded: its address stands in a slot for good. Only where the caller is inside
/// the loader's own `dlsym` anyway.
fn pin(function: *mut c_void) {
    static PINNED: [AtomicUsize; 16] = [const { AtomicUsize::new(0) }; 16];
    let base = module_base(function as usize);
    let pinned = PINNED.iter().find_map(|slot| {
        match slot.compare_exchange(0, base, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Some(false),
            Err(known) => (known == base).then_some(true),
        }
    });
    if base == 0 || pinned != Some(false) {
        return;
    }
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the out-parameter is valid for writes; the name, if there is one, is NUL-terminated and belongs to an object
    // whose function the caller holds. RTLD_NOLOAD loads nothing; the handle is kept on purpose.
    unsafe {
        if libc::dladdr(function, info.as_mut_ptr()) != 0
            && !info.assume_init_ref().dli_fname.is_null()
        {
            libc::dlopen(
                info.assume_init_ref().dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD,
            );
        }
    }
}
