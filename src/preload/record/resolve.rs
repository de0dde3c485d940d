//! The driver's resolver: what it hands out is replaced by our hook where there is one. Among the rows is the resolver
//! itself: cudart asks it for ("cuGetProcAddress", 12000) and takes the answer for all later questions.

use super::Recipe;
use crate::preload::doors::resolver;
use crate::preload::hooks::abi::{Code, SUCCESS};
use std::ffi::c_void;

/// `cuGetProcAddress` and its second version.
pub struct Resolve {
    function: *mut *mut c_void,
}

impl Resolve {
    /// The function's address is written to `function`.
    pub fn new(function: *mut *mut c_void) -> Resolve {
        Resolve { function }
    }
}

impl Recipe for Resolve {
    fn records(&self) -> bool {
        false
    }

    fn always(&mut self, code: Code) {
        // Success with NULL says "no such function"; that is left alone, and so is the status.
        if code != SUCCESS || self.function.is_null() {
            return;
        }
        // SAFETY: the driver has just written through this pointer, successfully.
        let found = unsafe { self.function.read() };
        if found.is_null() {
            return;
        }
        resolver::count();
        if let Some(hook) = resolver::substitute(found) {
            // SAFETY: as above; the caller expects an address there.
            unsafe { self.function.write(hook.cast_mut()) };
        }
    }
}
