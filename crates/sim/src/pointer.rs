//! Pointers that a C caller hands in: the only place that follows them.
//!
//! Each type is a pointer in the C interface. None but NULL can be made inside this crate (tests apart), so
//! each comes from a caller who promised what the CUDA API asks of that argument: it is NULL, or it
//! points to a live object of that type for the duration of the call.

use crate::codes::Answer;
use crate::ptx;
use std::ffi::{CStr, c_char, c_void};

/// A place for a result (`T*`), NULL or writable.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub fn is_set(self) -> bool {
        !self.0.is_null()
    }
}

impl<T: Copy> Out<T> {
    pub fn put(self, value: T) {
        if self.is_set() {
            // SAFETY: not NULL, so writable as a `T` (promise of the module); C does not promise alignment.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// The value that lies there: for arguments that go both ways.
    pub fn get(self) -> Option<T> {
        // SAFETY: not NULL, so a live `T` (promise of the module).
        self.is_set().then(|| unsafe { self.0.read_unaligned() })
    }

    /// Writes the value of a success; a failure leaves garbage, which no caller may read.
    pub fn store(self, answer: Answer<T>) {
        match answer {
            Ok(value) => self.put(value),
            Err(_) if self.is_set() => {
                // SAFETY: not NULL, so writable for the bytes of a `T` (promise of the module).
                unsafe { self.0.cast::<u8>().write_bytes(0xA5, size_of::<T>()) }
            }
            Err(_) => {}
        }
    }

    /// NULL, for an argument that an older function lacks.
    pub fn none() -> Out<T> {
        Out(std::ptr::null_mut())
    }

    /// Place `index` of an array that the caller says is long enough.
    pub fn nth(self, index: usize) -> Out<T> {
        if self.is_set() {
            Out(self.0.wrapping_add(index))
        } else {
            self
        }
    }

    #[cfg(test)]
    pub fn of(place: &mut T) -> Out<T> {
        Out(place)
    }
}

impl Out<c_void> {
    /// The type that the call's attribute number gives a `void*`.
    pub fn typed<T>(self) -> Out<T> {
        Out(self.0.cast())
    }
}

/// An argument read through a pointer (`const T*`), NULL or readable.
#[repr(transparent)]
#[derive(Debug)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    pub fn get(self) -> Option<T> {
        self.nth(0)
    }

    /// Element `index` of an array that the caller says is long enough.
    pub fn nth(self, index: usize) -> Option<T> {
        // SAFETY: not NULL, so an array of live `T` that reaches to `index` (promise of the module).
        (!self.0.is_null()).then(|| unsafe { self.0.wrapping_add(index).read_unaligned() })
    }
}

/// A C string, NULL or terminated.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// The text, which lives as long as the call.
    pub fn get(&self) -> Option<&CStr> {
        // SAFETY: not NULL, so a terminated string that outlives the call (promise of the module).
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }

    #[cfg(test)]
    pub fn of(text: &'static CStr) -> Text {
        Text(text.as_ptr())
    }
}

/// An image of code (`const void*`): NULL, a terminated text, or something that begins with a magic
/// number. Any other beginning is compared no further than to the first byte that differs.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Image(*const u8);

impl Image {
    /// All of a text, the magic number of anything binary, and nothing of junk.
    pub fn bytes(&self) -> Option<&[u8]> {
        if self.0.is_null() {
            return None;
        }
        // SAFETY: not NULL, and as long as the bytes before agreed with a magic number (promise of the type).
        let at = |index: usize| unsafe { self.0.wrapping_add(index).read() };
        let starts = |magic: &[u8]| (0..magic.len()).all(|index| at(index) == magic[index]);
        Some(match ptx::kind(starts) {
            // SAFETY: a text is terminated (promise of the type), and lives as long as the call.
            Some(ptx::Kind::Text) => unsafe { CStr::from_ptr(self.0.cast()) }.to_bytes(),
            // SAFETY: that many bytes were compared just now, and live as long as the call.
            Some(ptx::Kind::Binary) => unsafe { std::slice::from_raw_parts(self.0, 4) },
            None => &[],
        })
    }
}

/// A buffer for text (`char*, int`).
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct TextOut(*mut c_char);

impl TextOut {
    pub fn is_set(self) -> bool {
        !self.0.is_null()
    }

    /// Writes as much of `text` as `length` bytes hold, always terminated.
    pub fn put(self, text: &str, length: usize) {
        if !self.is_set() || length == 0 {
            return;
        }
        let kept = text.len().min(length - 1);
        // SAFETY: not NULL, so writable for `length` bytes (promise of the module), and `kept < length`.
        unsafe {
            self.0.cast::<u8>().copy_from(text.as_ptr(), kept);
            self.0.add(kept).write(0);
        }
    }
}
