//! NVTX: each library that has it loads what `NVTX_INJECTION64_PATH` names at its first call, and has its functions replaced.
//! We set the variable to our own path, if nobody has (`injection.rs`), and take pushes, pops, starts, ends, marks, domains and
//! registered strings. Called once for each library; in a process that merely inherited the variable it does nothing.

use super::super::phases::names::Name;
use super::super::phases::{self, Domain};
use super::super::{guard, injection};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Modules of NVTX whose functions are replaced.
const CORE: c_int = 1;
const CORE2: c_int = 5;
/// The table of callbacks that the injected library asks for.
const CALLBACKS: u32 = 1;

type Function = *const c_void;
type GetTable = unsafe extern "C" fn(c_int, *mut *mut *mut Function, *mut u32) -> c_int;
type GetExportTable = unsafe extern "C" fn(u32) -> *const ExportTable;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct ExportTable {
    size: usize,
    get_table: Option<GetTable>,
}

/// `nvtxEventAttributes_t`, version 2 and later: what we read of it.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    colour_type: i32,
    colour: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_void,
}

const _: () = assert!(size_of::<Attributes>() == 48);

const ASCII: i32 = 1;
const UNICODE: i32 = 2;
const REGISTERED: i32 = 3;

/// Domains and registered strings that a program may make.
const MOST_TEXTS: usize = 65_536;

/// Text of each domain and registered string, by its number from 1. Never freed, as a program may use them after it has
/// destroyed them. The last place stands for all that are too many, and stays empty.
static TEXTS: [AtomicPtr<Box<[u8]>>; MOST_TEXTS + 1] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_TEXTS + 1];

/// What a program holds of a domain or a registered string: the address of its place in [`TEXTS`]. It is looked up and never
/// followed, for a program may hand us anything.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Handle(*const c_void);

impl Handle {
    const NONE: Handle = Handle(std::ptr::null());

    fn of(number: usize) -> Handle {
        Handle((&raw const TEXTS[number.min(MOST_TEXTS)]).cast())
    }

    /// The number and the text, if it is one of ours.
    fn look_up(self) -> Option<(usize, &'static [u8])> {
        const PLACE: usize = size_of::<AtomicPtr<Box<[u8]>>>();
        let from_first = self.0.addr().checked_sub(TEXTS.as_ptr().addr())?;
        if !from_first.is_multiple_of(PLACE) {
            return None;
        }
        let number = from_first / PLACE;
        let text = TEXTS.get(number)?.load(Ordering::Acquire);
        // SAFETY: NULL, or published by `make` and never freed.
        let text = unsafe { text.as_ref() };
        text.map(|text| (number, &**text))
    }
}

fn make(text: &[u8]) -> Handle {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let count_on = |next: u32| ((next as usize) < MOST_TEXTS).then(|| next + 1);
    let next = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count_on);
    let Ok(number) = next.map(|number| number as usize) else {
        return Handle::of(MOST_TEXTS);
    };
    let _busy = guard::Busy::enter();
    let text = Box::into_raw(Box::new(Box::from(text)));
    TEXTS[number].store(text, Ordering::Release);
    Handle::of(number)
}

/// Longest name that is read, in bytes.
const LONGEST: usize = 256;

/// Runs `work` with the bytes of a wide string as UTF-8.
unsafe fn with_wide<T>(text: *const libc::wchar_t, work: impl FnOnce(&[u8]) -> T) -> T {
    let mut bytes = [0u8; LONGEST];
    let mut length = 0;
    let mut at = text;
    // SAFETY: a wide string that ends with 0, by NVTX's contract.
    unsafe {
        while !at.is_null() && *at != 0 {
            let c = char::from_u32(*at as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            if length + c.len_utf8() > LONGEST {
                break;
            }
            length += c.encode_utf8(&mut bytes[length..]).len();
            at = at.add(1);
        }
    }
    work(&bytes[..length])
}

unsafe fn narrow<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: a string that ends with NUL, by NVTX's contract; it is not kept.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The number and the name of a domain. NULL is the default one; handles that are none of ours are one domain without a name.
fn domain(of: Handle) -> (Domain, &'static [u8]) {
    if of.0.is_null() {
        return (0, b"");
    }
    let (number, name) = of.look_up().unwrap_or((MOST_TEXTS, b""));
    (number as Domain, name)
}

/// Runs `work` with the message of these attributes.
unsafe fn with_message<T>(
    of: Handle,
    attributes: *const Attributes,
    work: impl FnOnce(Domain, Name<'_>) -> T,
) -> T {
    // SAFETY: handed on; the attributes are the caller's, of the size that they say.
    unsafe {
        let (number, domain) = domain(of);
        fn named<'a>(domain: &'a [u8], name: &'a [u8]) -> Name<'a> {
            Name { domain, name }
        }
        let is_known = attributes
            .as_ref()
            .is_some_and(|attributes| usize::from(attributes.size) >= size_of::<Attributes>());
        if !is_known {
            return work(number, named(domain, b""));
        }
        let message = (*attributes).message;
        match (*attributes).message_type {
            ASCII => work(number, named(domain, narrow(message.cast()))),
            UNICODE => with_wide(message.cast(), |name| work(number, named(domain, name))),
            REGISTERED => {
                let text = Handle(message).look_up();
                work(number, named(domain, text.map_or(b"", |text| text.1)))
            }
            _ => work(number, named(domain, b"")),
        }
    }
}

fn plain(name: &[u8]) -> Name<'_> {
    Name { domain: b"", name }
}

// The functions that take the place of NVTX's. SAFETY of all: NVTX calls them with what the program gave it.

unsafe extern "C" fn mark_ex(attributes: *const Attributes) {
    // SAFETY: as above.
    unsafe { with_message(Handle::NONE, attributes, |_, name| phases::mark(name)) }
}

unsafe extern "C" fn mark_a(name: *const c_char) {
    // SAFETY: as above.
    phases::mark(plain(unsafe { narrow(name) }));
}

unsafe extern "C" fn mark_w(name: *const libc::wchar_t) {
    // SAFETY: as above.
    unsafe { with_wide(name, |name| phases::mark(plain(name))) }
}

unsafe extern "C" fn start_ex(attributes: *const Attributes) -> u64 {
    // SAFETY: as above.
    unsafe { with_message(Handle::NONE, attributes, |_, name| phases::start(name)) }
}

unsafe extern "C" fn start_a(name: *const c_char) -> u64 {
    // SAFETY: as above.
    phases::start(plain(unsafe { narrow(name) }))
}

unsafe extern "C" fn start_w(name: *const libc::wchar_t) -> u64 {
    // SAFETY: as above.
    unsafe { with_wide(name, |name| phases::start(plain(name))) }
}

unsafe extern "C" fn end(range: u64) {
    phases::end(range);
}

unsafe extern "C" fn push_ex(attributes: *const Attributes) -> c_int {
    // SAFETY: as above.
    unsafe { with_message(Handle::NONE, attributes, phases::push) }
}

unsafe extern "C" fn push_a(name: *const c_char) -> c_int {
    // SAFETY: as above.
    phases::push(0, plain(unsafe { narrow(name) }))
}

unsafe extern "C" fn push_w(name: *const libc::wchar_t) -> c_int {
    // SAFETY: as above.
    unsafe { with_wide(name, |name| phases::push(0, plain(name))) }
}

unsafe extern "C" fn pop() -> c_int {
    phases::pop(0)
}

unsafe extern "C" fn domain_mark_ex(of: Handle, attributes: *const Attributes) {
    // SAFETY: as above.
    unsafe { with_message(of, attributes, |_, name| phases::mark(name)) }
}

unsafe extern "C" fn domain_start_ex(of: Handle, attributes: *const Attributes) -> u64 {
    // SAFETY: as above.
    unsafe { with_message(of, attributes, |_, name| phases::start(name)) }
}

unsafe extern "C" fn domain_end(_of: Handle, range: u64) {
    phases::end(range);
}

unsafe extern "C" fn domain_push_ex(of: Handle, attributes: *const Attributes) -> c_int {
    // SAFETY: as above.
    unsafe { with_message(of, attributes, phases::push) }
}

unsafe extern "C" fn domain_pop(of: Handle) -> c_int {
    phases::pop(domain(of).0)
}

unsafe extern "C" fn register_a(_of: Handle, text: *const c_char) -> Handle {
    // SAFETY: as above.
    make(unsafe { narrow(text) })
}

unsafe extern "C" fn register_w(_of: Handle, text: *const libc::wchar_t) -> Handle {
    // SAFETY: as above.
    unsafe { with_wide(text, make) }
}

unsafe extern "C" fn create_a(name: *const c_char) -> Handle {
    // SAFETY: as above.
    make(unsafe { narrow(name) })
}

unsafe extern "C" fn create_w(name: *const libc::wchar_t) -> Handle {
    // SAFETY: as above.
    unsafe { with_wide(name, make) }
}

/// Functions of the module CORE by their numbers.
const OF_CORE: [(usize, Function); 11] = [
    (1, mark_ex as Function),
    (2, mark_a as Function),
    (3, mark_w as Function),
    (4, start_ex as Function),
    (5, start_a as Function),
    (6, start_w as Function),
    (7, end as Function),
    (8, push_ex as Function),
    (9, push_a as Function),
    (10, push_w as Function),
    (11, pop as Function),
];

/// Functions of the module CORE2 by their numbers.
const OF_CORE2: [(usize, Function); 9] = [
    (1, domain_mark_ex as Function),
    (2, domain_start_ex as Function),
    (3, domain_end as Function),
    (4, domain_push_ex as Function),
    (5, domain_pop as Function),
    (10, register_a as Function),
    (11, register_w as Function),
    (12, create_a as Function),
    (13, create_w as Function),
];

unsafe fn replace(get: GetTable, module: c_int, functions: &[(usize, Function)]) -> bool {
    let mut table: *mut *mut Function = std::ptr::null_mut();
    let mut size = 0u32;
    // SAFETY: NVTX's own function, with places for its answers; the table has `size` entries, each NULL or a place.
    unsafe {
        if get(module, &mut table, &mut size) != 1 || table.is_null() {
            return false;
        }
        for (number, function) in functions {
            if *number < size as usize {
                let place = *table.add(*number);
                if !place.is_null() {
                    *place = *function;
                }
            }
        }
    }
    true
}

/// NVTX asks to be injected; 1 if it is.
#[cfg_attr(test, allow(dead_code))]
unsafe fn inject(get_export_table: Option<GetExportTable>) -> c_int {
    let Some(get_export_table) = get_export_table else {
        return 0;
    };
    if !injection::are_we_preloaded() || injection::is_refused() || !phases::are_wanted() {
        return 0;
    }
    // SAFETY: the contract of an injection: the table is NULL or NVTX's own.
    unsafe {
        let Some(table) = get_export_table(CALLBACKS).as_ref() else {
            return 0;
        };
        if table.size < size_of::<ExportTable>() {
            return 0;
        }
        let Some(get) = table.get_table else { return 0 };
        // An old NVTX has no domains.
        let core = replace(get, CORE, &OF_CORE);
        replace(get, CORE2, &OF_CORE2);
        c_int::from(core)
    }
}

#[cfg(not(test))]
mod export {
    use super::{GetExportTable, inject};
    use std::ffi::c_int;

    #[unsafe(no_mangle)]
    unsafe extern "C" fn InitializeInjectionNvtx2(get: Option<GetExportTable>) -> c_int {
        // SAFETY: handed on.
        unsafe { inject(get) }
    }
}
