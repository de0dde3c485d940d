//! Our own heap. The program's allocator may be broken, or locked for ever by a thread that a signal has ended inside it, and
//! the trace must be closed all the same; and what we do never shows in the program's own heap.

use super::super::cancel;
use super::pages::{self, PAGE};
use dlmalloc::{Allocator, Dlmalloc};
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// From this size on a block is a mapping of its own, which grows without being copied and goes back to the kernel at once.
const LARGE: usize = 256 << 10;

/// Bytes by which the heap grows.
const STEP: usize = 256 << 10;

/// Nobody waits longer than this for the heap: whoever has it may never come back.
const PATIENCE: Duration = Duration::from_secs(5);

struct Pages;

// SAFETY: the calls of `pages`, as the trait wants them.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        (pages::map(size), size, 0)
    }

    fn remap(&self, start: *mut u8, size: usize, wanted: usize, may_move: bool) -> *mut u8 {
        // SAFETY: the heap passes what `alloc` gave it.
        unsafe { pages::remap(start, size, wanted, may_move) }
    }

    fn free_part(&self, start: *mut u8, size: usize, wanted: usize) -> bool {
        // SAFETY: the heap passes what `alloc` gave it, and has done with the rest.
        unsafe { pages::unmap(start.wrapping_add(wanted), size - wanted) }
    }

    fn free(&self, start: *mut u8, size: usize) -> bool {
        // SAFETY: the heap passes what `alloc` gave it, and has done with it.
        unsafe { pages::unmap(start, size) }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

struct Heap(UnsafeCell<Dlmalloc<Pages>>);

// SAFETY: used under the lock below alone.
unsafe impl Sync for Heap {}

static HEAP: Heap = Heap(UnsafeCell::new({
    let mut heap = Dlmalloc::new_with_allocator(Pages);
    let _ = heap.set_granularity(STEP);
    heap
}));

/// Who has the heap: the address of one of the thread's own variables; 0 for nobody.
static OWNER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: u8 = const { 0 };
}

fn own() -> usize {
    OWN.with(|own| std::ptr::from_ref(own) as usize)
}

/// The heap, until dropped.
struct Held;

impl Held {
    /// `None` if it cannot be had: this very thread has it (we are in a signal handler that interrupted it), or whoever has it
    /// does not come back; `hopeless` says that this is to be expected.
    #[inline]
    fn get(hopeless: impl Fn() -> bool) -> Option<Held> {
        match take() {
            0 => Some(Held),
            owner => Held::wait(owner, hopeless),
        }
    }

    #[cold]
    fn wait(owner: usize, hopeless: impl Fn() -> bool) -> Option<Held> {
        if owner == own() {
            return None;
        }
        for _ in 0..100 {
            std::hint::spin_loop();
            if take() == 0 {
                return Some(Held);
            }
        }
        let begin = Instant::now();
        let mut looks = 0u32;
        loop {
            if take() == 0 {
                return Some(Held);
            }
            looks += 1;
            let patience = if hopeless() { PATIENCE / 50 } else { PATIENCE };
            if begin.elapsed() > patience {
                return None;
            }
            if looks < 50 {
                std::thread::yield_now();
            } else {
                cancel::sleep(Duration::from_micros(50));
            }
        }
    }

    fn heap(&mut self) -> &mut Dlmalloc<Pages> {
        // SAFETY: `Held` is had by one thread at a time, and lends the heap for as long as it lives itself.
        unsafe { &mut *HEAP.0.get() }
    }
}

/// 0 if the heap is ours now, else who has it.
#[inline]
fn take() -> usize {
    match OWNER.compare_exchange(0, own(), Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => 0,
        Err(owner) => owner,
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Release);
    }
}

/// What came of it.
pub enum Answer {
    /// The block; null when there is no memory.
    Block(*mut u8),
    /// The heap cannot be had.
    Stuck,
}

fn is_large(size: usize, align: usize) -> bool {
    size >= LARGE && align <= PAGE
}

fn in_pages(size: usize) -> usize {
    size.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX)
}

/// A block.
pub fn allocate(layout: Layout, hopeless: impl Fn() -> bool) -> Answer {
    if is_large(layout.size(), layout.align()) {
        return Answer::Block(pages::map(in_pages(layout.size())));
    }
    match Held::get(hopeless) {
        Some(mut held) => {
            // SAFETY: a layout's size and alignment.
            let block = unsafe { held.heap().malloc(layout.size(), layout.align()) };
            Answer::Block(block)
        }
        None => Answer::Stuck,
    }
}

/// Gives a block back. Where the heap cannot be had it stays.
///
/// # Safety
/// The block came from here with this layout, and nobody uses it any more.
pub unsafe fn free(block: *mut u8, layout: Layout, hopeless: impl Fn() -> bool) {
    // SAFETY: by this function's contract.
    unsafe {
        if is_large(layout.size(), layout.align()) {
            pages::unmap(block, in_pages(layout.size()));
        } else if let Some(mut held) = Held::get(hopeless) {
            held.heap().free(block, layout.size(), layout.align());
        }
    }
}

/// The block in another size, with its content; null where that needs another block (or there is no memory).
///
/// # Safety
/// The block came from here with this layout, and nobody else uses it.
pub unsafe fn resize(
    block: *mut u8,
    layout: Layout,
    size: usize,
    hopeless: impl Fn() -> bool,
) -> *mut u8 {
    let (was_large, is_large) = (
        is_large(layout.size(), layout.align()),
        is_large(size, layout.align()),
    );
    // SAFETY: by this function's contract.
    unsafe {
        match (was_large, is_large) {
            (true, true) => pages::remap(block, in_pages(layout.size()), in_pages(size), true),
            (false, false) => match Held::get(hopeless) {
                Some(mut held) => held
                    .heap()
                    .realloc(block, layout.size(), layout.align(), size),
                None => std::ptr::null_mut(),
            },
            _ => std::ptr::null_mut(),
        }
    }
}

/// Before a fork: nobody may be in the middle of it. True if it could be had.
pub fn hold_for_fork() -> bool {
    let held = Held::get(|| false);
    let is_held = held.is_some();
    std::mem::forget(held);
    is_held
}

/// After a fork, in both processes, if it was held for it.
pub fn release_after_fork() {
    OWNER.store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(layout: Layout) -> *mut u8 {
        match allocate(layout, || false) {
            Answer::Block(block) if !block.is_null() => block,
            _ => panic!("no block"),
        }
    }

    #[test]
    fn blocks_of_all_sizes_keep_what_is_written() {
        let mut blocks: Vec<(*mut u8, Layout, u8)> = Vec::new();
        let mut seed = 1u64;
        for round in 0..4000usize {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let power = (seed >> 33) % 20;
            let size = 1 + (seed >> 40) as usize % (1 << power);
            let align = 1 << ((seed >> 20) % 8);
            let layout = Layout::from_size_align(size, align).expect("a layout");
            let new = block(layout);
            assert!((new as usize).is_multiple_of(align));
            // SAFETY: a block of that size.
            unsafe { new.write_bytes(round as u8, size) };
            blocks.push((new, layout, round as u8));
            if round % 3 == 0 {
                let (old, layout, byte) = blocks.swap_remove(seed as usize % blocks.len());
                // SAFETY: a block of that size.
                let bytes = unsafe { std::slice::from_raw_parts(old, layout.size()) };
                assert!(bytes.iter().all(|found| *found == byte));
                // SAFETY: from here, and used no more.
                unsafe { free(old, layout, || false) };
            }
        }
        for (old, layout, byte) in blocks {
            // SAFETY: a block of that size.
            let bytes = unsafe { std::slice::from_raw_parts(old, layout.size()) };
            assert!(bytes.iter().all(|found| *found == byte));
            // SAFETY: from here, and used no more.
            unsafe { free(old, layout, || false) };
        }
    }

    #[test]
    fn a_large_block_grows_without_losing_its_content() {
        let layout = Layout::from_size_align(LARGE, 8).expect("a layout");
        let old = block(layout);
        // SAFETY: a block of that size.
        unsafe { old.write_bytes(7, LARGE) };
        // SAFETY: from here, with that layout.
        let new = unsafe { resize(old, layout, 64 * LARGE, || false) };
        assert!(!new.is_null());
        // SAFETY: a block of at least that size.
        let bytes = unsafe { std::slice::from_raw_parts(new, LARGE) };
        assert!(bytes.iter().all(|byte| *byte == 7));
        let layout = Layout::from_size_align(64 * LARGE, 8).expect("a layout");
        // SAFETY: from here, and used no more.
        unsafe { free(new, layout, || false) };
    }

    #[test]
    fn threads_do_not_get_the_same_block() {
        let layout = Layout::from_size_align(40, 8).expect("a layout");
        let work = move |mark: u8| {
            for _ in 0..2000 {
                let blocks: Vec<_> = (0..10).map(|_| block(layout)).collect();
                for one in &blocks {
                    // SAFETY: a block of that size.
                    unsafe { one.write_bytes(mark, 40) };
                }
                for one in blocks {
                    // SAFETY: a block of that size; from here, and used no more.
                    unsafe {
                        assert!(
                            std::slice::from_raw_parts(one, 40)
                                .iter()
                                .all(|byte| *byte == mark)
                        );
                        free(one, layout, || false);
                    }
                }
            }
        };
        let threads: Vec<_> = (1..5)
            .map(|mark| std::thread::spawn(move || work(mark)))
            .collect();
        for thread in threads {
            thread.join().expect("it ends");
        }
    }

    #[test]
    fn who_has_the_heap_already_is_told_so() {
        let held = Held::get(|| false).expect("the heap");
        assert!(Held::get(|| false).is_none());
        drop(held);
        assert!(Held::get(|| false).is_some());
    }
}
