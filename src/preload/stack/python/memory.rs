//! Reads of the interpreter's memory: plain loads, or loads that first ask the kernel whether there is anything.

use super::super::readable::{PAGE, is_readable};
use super::super::reads::Reads;
use std::cell::RefCell;

/// How memory is read.
pub trait Memory: Copy {
    /// True if these bytes can be read.
    fn holds(self, address: u64, length: u64) -> bool;

    /// A pointer or a size.
    #[inline]
    fn word(self, address: u64) -> Option<u64> {
        self.read(address)
    }

    /// A C `int`.
    #[inline]
    fn int(self, address: u64) -> Option<i32> {
        self.read(address)
    }

    /// A C `char`.
    #[inline]
    fn byte(self, address: u64) -> Option<u8> {
        self.read(address)
    }

    /// A value of plain bits.
    #[inline]
    fn read<T: Plain>(self, address: u64) -> Option<T> {
        if !is_aligned::<T>(address) || !self.holds(address, size_of::<T>() as u64) {
            return None;
        }
        // SAFETY: aligned, in the half of the address space that is the program's, and (`Known`) inside an object of the
        // interpreter that this thread keeps alive, by a layout that was checked; or (`Asked`) found readable.
        Some(unsafe { std::ptr::with_exposed_provenance::<T>(address as usize).read_volatile() })
    }

    /// So many words, one after the other.
    #[inline]
    fn words<const N: usize>(self, address: u64) -> Option<[u64; N]> {
        if !is_aligned::<u64>(address) || !self.holds(address, 8 * N as u64) {
            return None;
        }
        let start = std::ptr::with_exposed_provenance::<u64>(address as usize);
        // SAFETY: as above, for each of them.
        Some(std::array::from_fn(|at| unsafe {
            start.wrapping_add(at).read_volatile()
        }))
    }

    /// So many bytes.
    fn bytes(self, address: u64, length: u64) -> Option<Vec<u8>> {
        let end = address.checked_add(length)?;
        if !is_of_user(address) || !is_of_user(end) || !self.holds(address, length) {
            return None;
        }
        let start = std::ptr::with_exposed_provenance::<u8>(address as usize);
        // SAFETY: as above.
        Some(unsafe { std::slice::from_raw_parts(start, length as usize) }.to_vec())
    }
}

/// Types for which any bits are a value.
pub trait Plain: Copy {
    /// Its bits, the lowest first.
    fn bits(self) -> u64;
}

macro_rules! plain {
    ($($type:ident as $unsigned:ident),*) => {
        $(impl Plain for $type {
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        })*
    };
}

plain!(u64 as u64, i32 as u32, u32 as u32, u8 as u8);

/// Bits of a program's addresses; what lies above is the kernel's, or nobody's.
const BITS: u32 = if cfg!(target_arch = "aarch64") {
    48
} else {
    47
};

/// The first page is never mapped.
const FIRST: u64 = 4096;

#[inline]
fn is_of_user(address: u64) -> bool {
    (FIRST..1 << BITS).contains(&address)
}

/// An address of the program's at which such a value can lie: one comparison, since bits that make it odd become the highest.
#[inline]
fn is_aligned<T>(address: u64) -> bool {
    let bits = align_of::<T>().trailing_zeros();
    let first = FIRST >> bits;
    address.rotate_right(bits).wrapping_sub(first) < ((1 << BITS) >> bits) - first
}

/// Memory of a layout that has been checked.
#[derive(Clone, Copy)]
pub struct Known;

impl Memory for Known {
    #[inline]
    fn holds(self, _: u64, _: u64) -> bool {
        true
    }
}

/// Memory of a layout that has been checked; what is read of it is noted.
pub struct Noted<'a, const MOST: usize>(RefCell<&'a mut Reads<MOST>>);

impl<'a, const MOST: usize> Noted<'a, MOST> {
    /// Into these notes.
    pub fn new(reads: &'a mut Reads<MOST>) -> Noted<'a, MOST> {
        Noted(RefCell::new(reads))
    }

    fn spoil<T>(&self) -> Option<T> {
        self.0.borrow_mut().spoil();
        None
    }
}

impl<const MOST: usize> Memory for &Noted<'_, MOST> {
    fn holds(self, _: u64, _: u64) -> bool {
        true
    }

    fn read<T: Plain>(self, address: u64) -> Option<T> {
        let Some(value) = Known.read::<T>(address) else {
            return self.spoil();
        };
        let mut reads = self.0.borrow_mut();
        reads.note(address, size_of::<T>() as u64, value.bits());
        Some(value)
    }

    fn words<const N: usize>(self, address: u64) -> Option<[u64; N]> {
        let Some(words) = Known.words::<N>(address) else {
            return self.spoil();
        };
        for (at, word) in (address..).step_by(8).zip(words) {
            self.0.borrow_mut().note(at, 8, word);
        }
        Some(words)
    }

    // The notes have no room for texts.
    fn bytes(self, _: u64, _: u64) -> Option<Vec<u8>> {
        self.spoil()
    }
}

/// Memory that may be anything.
#[derive(Clone, Copy)]
pub struct Asked;

impl Memory for Asked {
    fn holds(self, address: u64, length: u64) -> bool {
        let last = address.saturating_add(length.saturating_sub(1));
        let pages = (address / PAGE)..=(last / PAGE);
        pages.into_iter().all(|page| is_readable(page * PAGE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_not_read() {
        let value = [7u64, 9];
        let address = (&raw const value) as u64;
        assert_eq!(Asked.word(address + 8), Some(9));
        assert_eq!(Known.word(address), Some(7));
        assert_eq!(Asked.int(address), Some(7));
        assert_eq!(
            Asked.bytes(address, 9),
            Some(vec![7, 0, 0, 0, 0, 0, 0, 0, 9])
        );
        for odd in [0, 8, 4095, address + 1, 1 << BITS, u64::MAX - 7] {
            assert_eq!(Known.word(odd), None, "{odd:#x}");
            assert_eq!(Asked.word(odd), None, "{odd:#x}");
        }
        // SAFETY: a fresh mapping that nobody else uses.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                8192,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        } as u64;
        assert_eq!(Asked.word(page), None);
        assert_eq!(Asked.bytes(page - 1, 4), None);
    }
}
