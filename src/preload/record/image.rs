//! What a module is loaded from, and how large that is: a file, or an image in memory that tells its own size.

use std::ffi::{CStr, c_char, c_void};

/// Device code before it is loaded.
#[derive(Clone, Copy)]
pub enum Image {
    /// Nobody says.
    Unknown,
    /// In memory: a cubin, a fat binary, or text of PTX.
    Memory(*const c_void),
    /// A file.
    File(*const c_char),
}

/// `__fatBinC_Wrapper_t`: magic, version, and a pointer to the fat binary.
const WRAPPER: u32 = 0x4662_43b1;
/// A fat binary: magic, version, bytes of the header (16 bits each but the first), bytes of the rest (64 bits).
const FAT_BINARY: u32 = 0xba55_ed50;
const ELF: u32 = u32::from_le_bytes(*b"\x7fELF");
/// No text of PTX is longer.
const LONGEST_TEXT: usize = 1 << 30;

impl Image {
    /// Its bytes; 0 if they are not known. Call after it was loaded, and before the call returns to the program.
    pub fn bytes(self) -> u64 {
        match self {
            Image::Unknown => 0,
            Image::File(name) => of_file(name),
            Image::Memory(image) => of_memory(image.cast()),
        }
    }
}

fn of_file(name: *const c_char) -> u64 {
    if name.is_null() {
        return 0;
    }
    // SAFETY: the driver has just opened the file of this name, so it is a string.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: all zeros is a value of the structure.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a name that ends, and a place for the answer.
    let code = unsafe { libc::stat(name.as_ptr(), &mut found) };
    if code == 0 {
        u64::try_from(found.st_size).unwrap_or(0)
    } else {
        0
    }
}

/// A number at an offset of an image.
///
/// # Safety
/// The driver has read the image there.
unsafe fn read<T: Copy>(image: *const u8, offset: usize) -> T {
    // SAFETY: by the contract.
    unsafe { image.add(offset).cast::<T>().read_unaligned() }
}

fn of_memory(image: *const u8) -> u64 {
    if image.is_null() {
        return 0;
    }
    // SAFETY: the driver has just told what the image is, for which it reads at least this.
    let first: [u8; 4] = unsafe { read(image, 0) };
    match u32::from_le_bytes(first) {
        WRAPPER => {
            // SAFETY: the driver has followed this pointer.
            let inner: *const u8 = unsafe { read(image, 8) };
            if inner.is_null() {
                0
            } else {
                of_fat_binary(inner)
            }
        }
        FAT_BINARY => of_fat_binary(image),
        ELF => of_elf(image),
        _ if first.iter().all(|byte| is_text(*byte)) => {
            // SAFETY: what is no binary is text, which the driver has read to its end.
            unsafe { libc::strnlen(image.cast(), LONGEST_TEXT) as u64 }
        }
        _ => 0,
    }
}

fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte.is_ascii_whitespace()
}

fn of_fat_binary(image: *const u8) -> u64 {
    // SAFETY: the driver has read the header.
    let (magic, header, rest): (u32, u16, u64) =
        unsafe { (read(image, 0), read(image, 6), read(image, 8)) };
    match magic {
        FAT_BINARY => u64::from(header).saturating_add(rest),
        _ => 0,
    }
}

/// Up to the end of the section headers or of the program headers, whichever come last, as the linker puts them.
fn of_elf(image: *const u8) -> u64 {
    const IS_64: u8 = 2;
    // SAFETY: the driver has read the header, 64 bytes of it.
    let class: u8 = unsafe { read(image, 4) };
    if class != IS_64 {
        return 0;
    }
    // SAFETY: as above.
    let (programs, sections): (u64, u64) = unsafe { (read(image, 32), read(image, 40)) };
    // SAFETY: as above.
    let [program_size, program_count, section_size, section_count]: [u16; 4] = unsafe {
        [
            read(image, 54),
            read(image, 56),
            read(image, 58),
            read(image, 60),
        ]
    };
    let end =
        |at: u64, size: u16, count: u16| at.saturating_add(u64::from(size) * u64::from(count));
    end(programs, program_size, program_count).max(end(sections, section_size, section_count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &[u8]) -> u64 {
        Image::Memory(image.as_ptr().cast()).bytes()
    }

    #[test]
    fn an_image_tells_its_size() {
        assert_eq!(bytes(b".version 8.0\n\0"), 13);
        let mut fat = vec![0u8; 16];
        fat[..4].copy_from_slice(&FAT_BINARY.to_le_bytes());
        fat[6] = 16;
        fat[8..10].copy_from_slice(&1000u16.to_le_bytes());
        assert_eq!(bytes(&fat), 1016);
        let mut wrapper = vec![0u8; 16];
        wrapper[..4].copy_from_slice(&WRAPPER.to_le_bytes());
        wrapper[8..].copy_from_slice(&(fat.as_ptr() as u64).to_le_bytes());
        assert_eq!(bytes(&wrapper), 1016);
        let mut elf = vec![0u8; 64];
        elf[..5].copy_from_slice(b"\x7fELF\x02");
        elf[40..42].copy_from_slice(&5000u16.to_le_bytes());
        elf[58] = 64;
        elf[60] = 10;
        assert_eq!(bytes(&elf), 5640);
        assert_eq!(bytes(&[1, 2, 3, 4]), 0);
        assert_eq!(Image::Memory(std::ptr::null()).bytes(), 0);
        assert_eq!(Image::File(c"/dev/null".as_ptr()).bytes(), 0);
        assert_eq!(Image::File(c"/no/such/file".as_ptr()).bytes(), 0);
    }
}
