//! A value that a thread keeps between captures, on the heap: its stack may be small, and its thread-local room is everybody's.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::Cell;

/// Types for which all zeroes are a value.
///
/// # Safety
/// They are.
pub unsafe trait Zeroed {}

/// The value of one thread.
pub struct Kept<T>(Cell<*mut T>);

impl<T: Zeroed> Kept<T> {
    /// Not yet made.
    pub const fn new() -> Kept<T> {
        const { assert!(!std::mem::needs_drop::<T>() && size_of::<T>() > 0) };
        Kept(Cell::new(std::ptr::null_mut()))
    }

    /// Runs `work` with the value, made at the first call; `None` if there is no memory for it, or the thread ends.
    #[inline]
    pub fn with<R>(&self, work: impl FnOnce(Option<&mut T>) -> R) -> R {
        let mut value = self.0.get();
        if value.is_null() {
            value = make();
            self.0.set(value);
        }
        if value.is_null() || value == std::ptr::dangling_mut() {
            return work(None);
        }
        // SAFETY: this thread's own, made below; our own work (marked by `Busy`) never begins inside itself.
        work(Some(unsafe { &mut *value }))
    }

    fn made(&self) -> Option<*mut T> {
        let value = self.0.get();
        (!value.is_null() && value != std::ptr::dangling_mut()).then_some(value)
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: this thread's own, made below, and lent out by this type alone.
        self.made().map(|value| unsafe { &*value })
    }

    /// The value, if it has been made.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: as above.
        self.made().map(|value| unsafe { &mut *value })
    }

    /// Gives the value back, after `last`; none is made any more.
    pub fn forget(&self, last: impl FnOnce(&mut T)) {
        let value = self.made();
        self.0.set(std::ptr::dangling_mut());
        if let Some(value) = value {
            // SAFETY: made by `make`, for this thread alone, and nobody finds it any more.
            unsafe {
                last(&mut *value);
                dealloc(value.cast(), Layout::new::<T>());
            }
        }
    }
}

#[cold]
#[inline(never)]
fn make<T: Zeroed>() -> *mut T {
    // SAFETY: the size is not zero. Never on our own stack first, as a box is made.
    unsafe { alloc_zeroed(Layout::new::<T>()) }.cast()
}
