//! One row of the table of intercepted functions, and the slots that bind its hook to real functions.
//!
//! A process may hold several functions of one name (two CUDA runtimes, another interposer's wrapper), and each caller
//! must reach the one it would have reached without us. So each hook is compiled a few times, once a *slot*; a slot
//! belongs to one real address for good, and doors hand out the copy that leads there.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Copies of each hook. More than four functions of one name in one process are handed out unhooked.
pub const SLOTS: usize = 4;

/// The layer an intercepted function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Exported by libcuda: its hook records.
    Driver,
    /// Exported by libcudart: its hook labels.
    Runtime,
}

/// One intercepted function.
pub struct Row {
    /// Exported symbol, exactly.
    pub symbol: &'static CStr,
    /// Name in reports: without version or stream suffix.
    pub shown: &'static str,
    /// Driver or runtime.
    pub layer: Layer,
    /// The hook's copies, one a slot.
    thunks: [*const c_void; SLOTS],
    /// The real function of each slot; null while the slot is free.
    reals: [AtomicPtr<c_void>; SLOTS],
    /// The copy that our exported symbol goes to (driver functions; null until first used).
    exported: AtomicPtr<c_void>,
}

// SAFETY: the only fields that are not `Sync` by themselves are the thunks: addresses of functions, never written.
unsafe impl Sync for Row {}

impl Row {
    /// A row whose slots are free.
    pub const fn new(
        symbol: &'static CStr,
        shown: &'static str,
        layer: Layer,
        thunks: [*const c_void; SLOTS],
    ) -> Row {
        Row {
            symbol,
            shown,
            layer,
            thunks,
            reals: [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS],
            exported: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The real function behind a slot; null if the slot is free.
    #[inline]
    pub fn real(&self, slot: usize) -> *const c_void {
        self.reals[slot].load(Ordering::Acquire)
    }

    /// The hook's copy that leads to `real`, taking a free slot for it if need be.
    ///
    /// `None` when `real` is null, is one of our own copies, or all slots are taken: then `real` itself is to be used.
    pub fn thunk_for(&self, real: *mut c_void) -> Option<*const c_void> {
        if real.is_null() || self.is_own(real) {
            return None;
        }
        for (slot, thunk) in self.reals.iter().zip(&self.thunks) {
            let taken = slot.compare_exchange(
                std::ptr::null_mut(),
                real,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            match taken {
                Ok(_) => return Some(*thunk),
                Err(holder) if holder == real => return Some(*thunk),
                Err(_) => {}
            }
        }
        None
    }

    /// True if `address` is one of our own copies of this hook.
    pub fn is_own(&self, address: *const c_void) -> bool {
        self.thunks.contains(&address)
    }

    /// The copy that the exported symbol leads to; `find` looks for the real function the first time.
    #[inline]
    pub fn exported(&self, find: impl FnOnce() -> *mut c_void) -> *const c_void {
        let known = self.exported.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let real = find();
        let thunk = match self.thunk_for(real) {
            Some(thunk) => thunk,
            // Not there: not remembered, since the library may be loaded later.
            None => return real,
        };
        self.exported.store(thunk.cast_mut(), Ordering::Release);
        thunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_real_function_keeps_its_slot() {
        let thunks = [1, 2, 3, 4].map(|at: usize| std::ptr::without_provenance(at));
        let row = Row::new(c"f", "f", Layer::Driver, thunks);
        let real = |at: usize| std::ptr::without_provenance_mut::<c_void>(at);
        assert_eq!(row.thunk_for(std::ptr::null_mut()), None);
        assert_eq!(row.thunk_for(real(100)), Some(thunks[0]));
        assert_eq!(row.thunk_for(real(200)), Some(thunks[1]));
        assert_eq!(row.thunk_for(real(100)), Some(thunks[0]));
        assert_eq!(
            row.thunk_for(real(2)),
            None,
            "our own copy is no real function"
        );
        assert_eq!(row.thunk_for(real(300)), Some(thunks[2]));
        assert_eq!(row.thunk_for(real(400)), Some(thunks[3]));
        assert_eq!(row.thunk_for(real(500)), None, "no slot is left");
        assert_eq!(row.real(1), real(200).cast_const());
    }
}
