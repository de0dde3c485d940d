//! The library's own allocations: from the program's allocator, and when that has nothing left, from a small reserve. Rust
//! would abort the process; the program may well go on without us.

mod arena;

use super::{state, thread};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of the reserve: for what is under way when memory runs out, and the words about it.
const RESERVE: usize = 512 << 10;

#[repr(align(64))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: pieces are handed out once each, by an atomic count.
unsafe impl Sync for Reserve {}

static RESERVED: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static USED: AtomicUsize = AtomicUsize::new(0);

/// Our own threads keep off the program's allocator.
static ALONE: AtomicBool = AtomicBool::new(false);
/// They have done so once: there may be pieces of the arena about.
static EVER_ALONE: AtomicBool = AtomicBool::new(false);

/// From now on our own threads neither take from the program's allocator nor give back to it: the thread that a signal ends
/// may have been in the middle of it, and never lets go of its lock.
pub fn stand_alone(alone: bool) {
    if alone {
        EVER_ALONE.store(true, Ordering::Release);
    }
    ALONE.store(alone, Ordering::Release);
}

#[inline]
fn stands_alone() -> bool {
    ALONE.load(Ordering::Acquire) && thread::is_ours()
}

#[inline]
fn is_of_arena(pointer: *mut u8) -> bool {
    EVER_ALONE.load(Ordering::Acquire) && arena::has(pointer)
}

/// The allocator.
pub struct Careful;

fn is_reserved(pointer: *mut u8) -> bool {
    let start = RESERVED.0.get() as usize;
    (start..start + RESERVE).contains(&(pointer as usize))
}

#[cold]
fn from_reserve(layout: Layout) -> *mut u8 {
    state::out_of_memory();
    // The program's threads find something left when ours have had their part.
    let ours = thread::is_ours();
    let limit = if ours { RESERVE / 2 } else { RESERVE };
    let mut at = 0;
    let taken = USED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
        at = used.next_multiple_of(layout.align().min(64));
        let end = at.checked_add(layout.size())?;
        (layout.align() <= 64 && end <= limit).then_some(end)
    });
    if taken.is_ok() {
        // SAFETY: `at` lies inside the reserve, and this piece was handed out here alone.
        return unsafe { RESERVED.0.get().cast::<u8>().add(at) };
    }
    if ours {
        // Nothing can be done any more, and the program does not need this thread.
        loop {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        }
    }
    std::ptr::null_mut()
}

// SAFETY: the system's allocator, or pieces of the arena or the reserve, which are never handed out twice nor given back.
unsafe impl GlobalAlloc for Careful {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let pointer = if stands_alone() {
            arena::take(layout)
        } else {
            // SAFETY: the caller's own contract.
            unsafe { System.alloc(layout) }
        };
        if pointer.is_null() {
            from_reserve(layout)
        } else {
            pointer
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if !is_reserved(pointer) && !is_of_arena(pointer) && !stands_alone() {
            // SAFETY: the caller's own contract; the pointer is the system's.
            unsafe { System.dealloc(pointer, layout) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let from_system = !is_reserved(pointer) && !is_of_arena(pointer);
        let alone = stands_alone();
        if from_system && !alone {
            // SAFETY: the caller's own contract; the pointer is the system's.
            let moved = unsafe { System.realloc(pointer, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        if alone && !from_system && arena::resize(pointer, layout, size) {
            return pointer;
        }
        let Ok(new) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        let moved = if from_system && !alone {
            from_reserve(new)
        } else {
            // SAFETY: a layout of the same alignment and a size that the caller vouches for.
            unsafe { self.alloc(new) }
        };
        if !moved.is_null() {
            // SAFETY: both are valid for the smaller of the two sizes and do not overlap.
            unsafe {
                std::ptr::copy_nonoverlapping(pointer, moved, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
        }
        moved
    }
}

/// True if so many bytes can be had at this moment.
pub fn can_have(bytes: usize) -> bool {
    // SAFETY: given back at once, unused.
    unsafe {
        let room = libc::malloc(bytes);
        libc::free(room);
        !room.is_null()
    }
}
