//! The library's own allocations: from a heap of its own, and when there is nothing left, from a small reserve. Rust would
//! abort the process; the program may well go on without us.

mod arena;
mod heap;
mod pages;

use super::{cancel, state, thread};
pub use heap::{hold_for_fork, release_after_fork};
use std::alloc::{GlobalAlloc, Layout};
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

/// A signal ends a thread, which may have our heap and never comes back.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Says that a thread is being ended by a signal, wherever it was: our own threads then wait for the heap no longer than a
/// moment, and do without.
pub fn expect_the_worst(so: bool) {
    INTERRUPTED.store(so, Ordering::Release);
}

fn hopeless() -> bool {
    INTERRUPTED.load(Ordering::Acquire) && thread::is_ours()
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
            cancel::sleep(std::time::Duration::from_secs(3600));
        }
    }
    std::ptr::null_mut()
}

/// Neither of the reserve nor of the arena.
fn is_of_heap(pointer: *mut u8) -> bool {
    !is_reserved(pointer) && !arena::has(pointer)
}

// SAFETY: blocks of the heap, or pieces of the arena or the reserve, which are never handed out twice nor given back.
unsafe impl GlobalAlloc for Careful {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let pointer = match heap::allocate(layout, hopeless) {
            heap::Answer::Block(block) => block,
            heap::Answer::Stuck => arena::take(layout),
        };
        if pointer.is_null() {
            from_reserve(layout)
        } else {
            pointer
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if is_of_heap(pointer) {
            // SAFETY: the caller's own contract; the block is the heap's.
            unsafe { heap::free(pointer, layout, hopeless) };
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if is_of_heap(pointer) {
            // SAFETY: the caller's own contract; the block is the heap's.
            let moved = unsafe { heap::resize(pointer, layout, size, hopeless) };
            if !moved.is_null() {
                return moved;
            }
        } else if arena::resize(pointer, layout, size) {
            return pointer;
        }
        let Ok(new) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: both are valid for the smaller of the two sizes and do not overlap.
        unsafe {
            let moved = self.alloc(new);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(pointer, moved, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            moved
        }
    }
}

/// True if so many bytes can be had at this moment.
pub fn can_have(bytes: usize) -> bool {
    let room = pages::map(bytes);
    // SAFETY: given back at once, unused.
    !room.is_null() && unsafe { pages::unmap(room, bytes) }
}
