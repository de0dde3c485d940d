//! The variable by which NVTX finds us: set to our own path as the process begins, if nobody has set it (a profiler does) and the
//! recording is not switched off.
//!
//! Not by `setenv`: a shell has a function of that name of its own, which is not ready before the shell's `main`.

use super::doors::elf;
use super::environment;
use std::ffi::{CStr, c_char};

const NAME: &[u8] = b"NVTX_INJECTION64_PATH=";
const LONGEST: usize = 4096;

/// `NVTX_INJECTION64_PATH=/the/path`, for the rest of the process's life.
static mut ENTRY: [u8; NAME.len() + LONGEST] = [0; NAME.len() + LONGEST];

fn own_address() -> usize {
    own_address as fn() -> usize as usize
}

/// Runs `work` with our path, as the loader knows it.
fn with_own_path<T>(work: impl FnOnce(&CStr) -> T) -> Option<T> {
    let mut work = Some(work);
    let mut result = None;
    elf::each(&mut |object| {
        let is_it = object.contains(own_address());
        if is_it && let Some(work) = work.take() {
            result = Some(work(object.path()));
        }
        is_it
    });
    result
}

/// True if this library was preloaded, not merely loaded because the variable was inherited.
pub fn are_we_preloaded() -> bool {
    with_own_path(environment::is_preloaded).unwrap_or(false)
}

/// True if the variable is set to nothing: whoever set it so wants no injection. NVTX would load the library of no name, which to
/// the loader is the program and all that is preloaded, and find us.
pub fn is_refused() -> bool {
    // SAFETY: a name that ends with NUL, and a string that does; NVTX itself has asked for it just now.
    unsafe {
        let value = libc::getenv(c"NVTX_INJECTION64_PATH".as_ptr());
        !value.is_null() && *value == 0
    }
}

fn value_of<'a>(entry: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    entry.strip_prefix(name)?.strip_prefix(b"=")
}

/// Sets the variable, if it is for us to set.
///
/// # Safety
/// `environment` is the process's first one, and no other thread runs yet.
pub unsafe fn offer(environment: *const *const c_char) {
    if environment.is_null() {
        return;
    }
    let mut count = 0;
    // SAFETY: a list of NUL-terminated strings that ends with NULL.
    unsafe {
        loop {
            let entry = *environment.add(count);
            if entry.is_null() {
                break;
            }
            let entry = CStr::from_ptr(entry).to_bytes();
            if entry.starts_with(NAME) {
                return;
            }
            if value_of(entry, b"OOMHOOK").is_some_and(|value| value == b"0" || value == b"off") {
                return;
            }
            count += 1;
        }
    }
    if !are_we_preloaded() || with_own_path(write_entry) != Some(true) {
        return;
    }
    let bytes = (count + 2) * size_of::<*const c_char>();
    // SAFETY: a mapping of that size is made, filled with the old entries and ours (which lives as long as the process), and never
    // unmapped. The program's own list is left as it is.
    unsafe {
        // Somebody was here before us: the list that counts is not the one that we have read.
        if !std::ptr::eq(environ.cast::<*const c_char>(), environment) {
            return;
        }
        let memory = libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if memory == libc::MAP_FAILED {
            return;
        }
        let list = memory.cast::<*const c_char>();
        std::ptr::copy_nonoverlapping(environment, list, count);
        list.add(count).write((&raw const ENTRY).cast());
        list.add(count + 1).write(std::ptr::null());
        environ = list.cast();
    }
}

// SAFETY: the variable of <unistd.h>.
unsafe extern "C" {
    static mut environ: *mut *mut c_char;
}

/// Writes the variable with this path made absolute; false if it does not fit.
fn write_entry(path: &CStr) -> bool {
    let path = path.to_bytes();
    // SAFETY: one thread, before `main`.
    #[allow(clippy::deref_addrof)]
    let entry = unsafe { &mut *(&raw mut ENTRY) };
    let (name, room) = entry.split_at_mut(NAME.len());
    name.copy_from_slice(NAME);
    let mut length = 0;
    if !path.starts_with(b"/") {
        // SAFETY: writes at most so many bytes, with a NUL.
        let folder = unsafe { libc::getcwd(room.as_mut_ptr().cast(), room.len()) };
        let Some(end) = room.iter().position(|byte| *byte == 0) else {
            return false;
        };
        if folder.is_null() || end + 1 >= room.len() {
            return false;
        }
        room[end] = b'/';
        length = end + 1;
    }
    let Some(place) = room.get_mut(length..length + path.len() + 1) else {
        return false;
    };
    place[..path.len()].copy_from_slice(path);
    place[path.len()] = 0;
    !path.is_empty()
}
