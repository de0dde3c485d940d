//! Which runtime does this caller mean? Several libcudarts may live in one process (a wheel's and the system's); a call
//! must reach the one that the caller was linked to.

use super::super::environment;
use super::super::hooks::{self, table};
use super::elf;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

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
    let real = meant(row.symbol, return_address)?;
    // With all slots taken the caller goes to its runtime unlabelled.
    Some(row.thunk_for(real).unwrap_or(real))
}

/// A library that has a function of the wanted name.
#[derive(Clone, Copy)]
struct Candidate {
    function: *mut c_void,
    /// Its name, as others ask for it; a longer one is cut, which only makes it match nobody.
    soname: [u8; 64],
    length: usize,
    /// Loaded before us: preloaded ahead of us, or the program.
    before_us: bool,
    /// The caller is inside it.
    is_caller: bool,
    /// Named by LD_PRELOAD.
    is_preloaded: bool,
}

impl Candidate {
    fn soname(&self) -> &[u8] {
        &self.soname[..self.length]
    }
}

const MOST: usize = 16;

/// All libraries but this one that have the function, in load order.
fn candidates(symbol: &CStr, return_address: usize) -> ([Option<Candidate>; MOST], usize) {
    let mut found = [None; MOST];
    let mut count = 0;
    let mut before_us = true;
    elf::each(&mut |object| {
        if object.contains(super::own_address()) {
            before_us = false;
            return false;
        }
        if count < MOST
            && let Some(function) = object.symbol(symbol)
        {
            let name = object.soname();
            let mut soname = [0; 64];
            let length = name.len().min(soname.len());
            soname[..length].copy_from_slice(&name[..length]);
            found[count] = Some(Candidate {
                function,
                soname,
                length,
                before_us,
                is_caller: object.contains(return_address),
                is_preloaded: !before_us && environment::is_preloaded(object.path()),
            });
            count += 1;
        }
        false
    });
    (found, count)
}

/// A preloaded library's function of this name, if one comes after us: it wraps what lies below, as we do.
pub fn preloaded_after_us(symbol: &CStr) -> Option<*mut c_void> {
    let (found, count) = candidates(symbol, 0);
    let mut found = found[..count].iter().flatten();
    found.find(|one| one.is_preloaded).map(|one| one.function)
}

/// The function that a call means: a later preloaded wrapper's; else the one of the runtime that the caller's library was
/// linked to (symbol versions make it so even where another runtime stands in the global scope); else the first one.
fn meant(symbol: &CStr, return_address: usize) -> Option<*mut c_void> {
    let (found, count) = candidates(symbol, return_address);
    let found = &found[..count];
    let all = || found.iter().flatten();
    if let Some(wrapper) = all().find(|one| one.is_preloaded && !one.is_caller) {
        return Some(wrapper.function);
    }
    // A library that exports a runtime of its own means that one. (One preloaded before us is a wrapper, and means what
    // comes after us.)
    if let Some(own) = all().find(|one| one.is_caller && !one.before_us) {
        return Some(own.function);
    }
    let after = || all().filter(|one| !one.before_us);
    if after().count() > 1
        && let Some(linked) = linked_to(found, return_address)
    {
        return Some(linked);
    }
    let any = after().next().or_else(|| all().find(|one| !one.is_caller));
    any.map(|one| one.function)
}

/// The candidate that the caller's library asks for, or that one of those asks for.
fn linked_to(found: &[Option<Candidate>], return_address: usize) -> Option<*mut c_void> {
    let after = || found.iter().flatten().filter(|one| !one.before_us);
    let mut linked = None;
    // What the caller needs directly, and the names of what it needs: those stay loaded, since the caller is executing.
    elf::each(&mut |caller| {
        if !caller.contains(return_address) {
            return false;
        }
        linked = after()
            .find(|one| caller.needs(one.soname()))
            .map(|one| one.function);
        if linked.is_none() {
            elf::each(&mut |between| {
                if caller.needs(between.soname()) {
                    linked = after()
                        .find(|one| between.needs(one.soname()))
                        .map(|one| one.function);
                }
                linked.is_some()
            });
        }
        true
    });
    linked
}
