//! Substitution by returned pointer: whatever the real look-up answers, by whatever name, version and flags, is looked
//! up in {real address → hook}. No version table, no suffix logic, no touching of status values.

use super::super::hooks::{self, RowId, row::Row};
use super::elf;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicUsize, Ordering};

const BUCKETS: usize = 1024;

/// {real address → row} of the driver's functions, open addressing, filled once libcuda is loaded.
static ADDRESSES: [AtomicUsize; BUCKETS] = [const { AtomicUsize::new(0) }; BUCKETS];
static ROWS: [AtomicU16; BUCKETS] = [const { AtomicU16::new(RowId::MAX) }; BUCKETS];
static FILLED: AtomicBool = AtomicBool::new(false);

/// Functions that the driver's resolver has been asked for.
static ASKED: AtomicU32 = AtomicU32::new(0);

/// One more was asked for.
pub fn count() {
    ASKED.fetch_add(1, Ordering::Relaxed);
}

/// How many were.
pub fn asked() -> u32 {
    ASKED.load(Ordering::Relaxed)
}

fn bucket(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - BUCKETS.trailing_zeros())
}

/// Fills the table. Several threads may do it at once: they write the same entries.
fn fill() {
    if FILLED.load(Ordering::Acquire) {
        return;
    }
    super::with_libcuda(|libcuda| {
        for (id, row) in hooks::rows().filter(|(_, row)| hooks::is_driver(row)) {
            // The real address takes a slot now, so that no other function of this name can crowd it out.
            if let Some(real) = libcuda.symbol(row.symbol)
                && row.thunk_for(real).is_some()
            {
                insert(real as usize, id);
            }
        }
        FILLED.store(true, Ordering::Release);
    });
}

/// Makes all look-ups that a substitution for `row` needs. Before the caller's own look-up, so that the error of one that
/// failed is not taken for the caller's.
pub fn prepare(row: &'static Row) {
    if hooks::is_driver(row) {
        fill();
    }
}

fn insert(address: usize, id: RowId) {
    let mut at = bucket(address);
    loop {
        match ADDRESSES[at].compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return ROWS[at].store(id, Ordering::Release),
            // Two names of one address have one ABI; the first row serves both.
            Err(holder) if holder == address => return,
            Err(_) => at = (at + 1) % BUCKETS,
        }
    }
}

/// The hook for a pointer that a look-up returned, if it is one of the driver's own functions in the table.
pub fn substitute(pointer: *mut c_void) -> Option<*const c_void> {
    fill();
    let mut at = bucket(pointer as usize);
    loop {
        match ADDRESSES[at].load(Ordering::Acquire) {
            0 => return substitute_foreign(pointer),
            holder if holder == pointer as usize => {
                let mut id = ROWS[at].load(Ordering::Acquire);
                while id == RowId::MAX {
                    // Another thread is between its two stores.
                    std::hint::spin_loop();
                    id = ROWS[at].load(Ordering::Acquire);
                }
                return hooks::row(id).thunk_for(pointer);
            }
            _ => at = (at + 1) % BUCKETS,
        }
    }
}

/// A pointer that is none of the driver's may be another interposer's function of the same name (a limiter below us): its
/// library exports it under that name, and a copy of our hook leads to it.
#[cold]
fn substitute_foreign(pointer: *mut c_void) -> Option<*const c_void> {
    let mut found = None;
    elf::each(&mut |object| {
        let holder = object.contains(pointer as usize);
        let known = object.soname() == b"libcuda.so.1" || object.contains(super::own_address());
        if holder && !known {
            found = hooks::rows()
                .filter(|(_, row)| hooks::is_driver(row))
                .find(|(_, row)| object.symbol(row.symbol) == Some(pointer));
        }
        holder
    });
    found.and_then(|(_, row)| row.thunk_for(pointer))
}

/// The hook for what the real `dlsym` found under the exact name of a row.
pub fn substitute_named(row: &'static Row, pointer: *mut c_void) -> Option<*const c_void> {
    prepare(row);
    super::pin(pointer);
    row.thunk_for(pointer)
}
