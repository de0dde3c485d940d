//! Look-ups in loaded objects without the loader: no dlopen, dlsym or dladdr. A hook may be entered by a thread for which a
//! constructor inside another thread's dlopen is waiting; that thread holds the loader's lock, and would never get on.
//! (`dl_iterate_phdr` takes a lock of its own, which is not held while constructors run.) `dlerror` stays untouched, too.

use super::super::loader;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;

/// Tags of the dynamic section, as <elf.h> has them.
mod tag {
    pub const NEEDED: i64 = 1;
    pub const PLTRELSZ: i64 = 2;
    pub const HASH: i64 = 4;
    pub const STRTAB: i64 = 5;
    pub const SYMTAB: i64 = 6;
    pub const RELA: i64 = 7;
    pub const RELASZ: i64 = 8;
    pub const SONAME: i64 = 14;
    pub const JMPREL: i64 = 23;
    pub const GNU_HASH: i64 = 0x6fff_fef5;
    pub const VERSYM: i64 = 0x6fff_fff0;
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// What a symbol names, as <elf.h> numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A variable.
    Data = 1,
    /// A function.
    Function = 2,
}

/// A loaded object, as long as the loader holds its list still: inside [`each`].
#[derive(Clone, Copy)]
pub struct Object<'a> {
    info: &'a libc::dl_phdr_info,
    dynamic: *const Dynamic,
    symbols: u64,
    strings: u64,
    gnu_hash: u64,
    hash: u64,
    versions: u64,
}

fn at<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}

/// Reads a value inside a mapped table.
///
/// # Safety
/// `address` lies in a table of a loaded object and is followed by a whole `T`.
unsafe fn read<T: Copy>(address: u64) -> T {
    // SAFETY: by this function's contract.
    unsafe { at::<T>(address).read_unaligned() }
}

/// Calls `look` with each loaded object, in load order (the program first), until it says that it has seen enough.
/// Nothing may be allocated in it: the loader's list is held still meanwhile.
pub fn each(look: &mut dyn FnMut(Object<'_>) -> bool) {
    unsafe extern "C" fn call(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        to: *mut c_void,
    ) -> c_int {
        // SAFETY: `to` is the closure below, which waits for us; the loader passes a valid entry.
        let (look, info) = unsafe {
            (
                &mut *to.cast::<&mut dyn FnMut(Object<'_>) -> bool>(),
                &*info,
            )
        };
        // SAFETY: the object stays loaded while the loader holds its list still.
        match unsafe { Object::new(info) } {
            Some(object) => c_int::from(look(object)),
            None => 0,
        }
    }
    let mut look = look;
    // SAFETY: the callback matches and gets the closure, which outlives the call.
    unsafe { loader::iterate(call, (&raw mut look).cast()) };
}

impl<'a> Object<'a> {
    /// # Safety
    /// `info` describes an object that stays loaded during the lifetime.
    unsafe fn new(info: &'a libc::dl_phdr_info) -> Option<Object<'a>> {
        // SAFETY: the loader keeps the program headers mapped while the object is loaded.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let header = headers
            .iter()
            .find(|header| header.p_type == libc::PT_DYNAMIC)?;
        let mut object = Object {
            info,
            dynamic: at(info.dlpi_addr + header.p_vaddr),
            symbols: 0,
            strings: 0,
            gnu_hash: 0,
            hash: 0,
            versions: 0,
        };
        object.symbols = object.table(tag::SYMTAB)?;
        object.strings = object.table(tag::STRTAB)?;
        object.gnu_hash = object.table(tag::GNU_HASH).unwrap_or(0);
        object.hash = object.table(tag::HASH).unwrap_or(0);
        object.versions = object.table(tag::VERSYM).unwrap_or(0);
        Some(object)
    }

    fn entries(&self) -> impl Iterator<Item = Dynamic> + use<> {
        let mut entry = self.dynamic;
        std::iter::from_fn(move || {
            // SAFETY: the dynamic section is mapped and ends with a zero tag, after which we stop.
            let found = unsafe { entry.read_unaligned() };
            entry = entry.wrapping_add(1);
            (found.tag != 0).then_some(found)
        })
    }

    fn value(&self, tag: i64) -> Option<u64> {
        self.entries()
            .find(|entry| entry.tag == tag)
            .map(|entry| entry.value)
    }

    /// An address of the dynamic section. glibc has put real addresses there; what it may not write (the vdso) still has
    /// offsets.
    fn table(&self, tag: i64) -> Option<u64> {
        let value = self.value(tag).filter(|value| *value != 0)?;
        let bias = self.info.dlpi_addr;
        Some(if value < bias { value + bias } else { value })
    }

    fn string(&self, offset: u64) -> &'a CStr {
        // SAFETY: offsets of the dynamic section and of symbols lie in the string table, whose strings are NUL-terminated.
        unsafe { CStr::from_ptr(at::<c_char>(self.strings + offset)) }
    }

    /// The path as the loader knows it; empty for the program.
    pub fn path(&self) -> &'a CStr {
        if self.info.dlpi_name.is_null() {
            return c"";
        }
        // SAFETY: the loader's own NUL-terminated name, valid while it holds its list still.
        unsafe { CStr::from_ptr(self.info.dlpi_name) }
    }

    /// The name that other objects ask for; the path's last part if there is none.
    pub fn soname(&self) -> &'a [u8] {
        match self.value(tag::SONAME) {
            Some(offset) => self.string(offset).to_bytes(),
            None => self
                .path()
                .to_bytes()
                .rsplit(|byte| *byte == b'/')
                .next()
                .unwrap_or_default(),
        }
    }

    /// True if this object asks for one of that name.
    pub fn needs(&self, soname: &[u8]) -> bool {
        self.entries()
            .filter(|entry| entry.tag == tag::NEEDED)
            .any(|entry| self.string(entry.value).to_bytes() == soname)
    }

    /// Address of its first mapped byte.
    pub fn base(&self) -> usize {
        // SAFETY: as in `new`.
        let headers = unsafe {
            std::slice::from_raw_parts(self.info.dlpi_phdr, usize::from(self.info.dlpi_phnum))
        };
        let loads = headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD);
        let first = loads.map(|header| header.p_vaddr).min().unwrap_or(0);
        (self.info.dlpi_addr + first) as usize
    }

    /// True if the address lies in the object.
    pub fn contains(&self, address: usize) -> bool {
        // SAFETY: as in `new`.
        let headers = unsafe {
            std::slice::from_raw_parts(self.info.dlpi_phdr, usize::from(self.info.dlpi_phnum))
        };
        headers
            .iter()
            .filter(|header| header.p_type == libc::PT_LOAD)
            .any(|header| {
                let start = self.info.dlpi_addr + header.p_vaddr;
                (start..start + header.p_memsz).contains(&(address as u64))
            })
    }

    /// Address of a function that the object exports under this name, in its default version.
    pub fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        let found = self.range(name, Kind::Function)?;
        Some(std::ptr::with_exposed_provenance_mut(found.start as usize))
    }

    /// Where a function or a variable lies that the object exports under this name, in its default version.
    pub fn range(&self, name: &CStr, kind: Kind) -> Option<Range<u64>> {
        let number = if self.gnu_hash != 0 {
            self.by_gnu_hash(name, kind)
        } else {
            self.by_hash(name, kind)
        }?;
        // SAFETY: the hash table named a symbol of the table.
        let symbol: Symbol =
            unsafe { read(self.symbols + u64::from(number) * size_of::<Symbol>() as u64) };
        let start = self.info.dlpi_addr.wrapping_add(symbol.value);
        Some(start..start.saturating_add(symbol.size))
    }

    fn fits(&self, number: u32, name: &CStr, kind: Kind) -> bool {
        const HIDDEN: u16 = 0x8000;
        // SAFETY: numbers come from the object's own hash table.
        let symbol: Symbol =
            unsafe { read(self.symbols + u64::from(number) * size_of::<Symbol>() as u64) };
        if symbol.section == 0
            || symbol.info & 0xf != kind as u8
            || self.string(u64::from(symbol.name)) != name
        {
            return false;
        }
        let version: u16 = if self.versions == 0 {
            0
        } else {
            // SAFETY: the version table has an entry for each symbol.
            unsafe { read(self.versions + u64::from(number) * 2) }
        };
        version & HIDDEN == 0
    }

    fn by_gnu_hash(&self, name: &CStr, kind: Kind) -> Option<u32> {
        let hash = name.to_bytes().iter().fold(5381u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        // SAFETY: the header of a GNU hash table is four words; the filter, the buckets and the chains follow it.
        unsafe {
            let word = |index: u64| read::<u32>(self.gnu_hash + index * 4);
            let (buckets, first, filters) = (word(0), word(1), word(2));
            if buckets == 0 {
                return None;
            }
            let start = self.gnu_hash + 16 + u64::from(filters) * 8;
            let mut number = read::<u32>(start + u64::from(hash % buckets) * 4);
            if number < first {
                return None;
            }
            let chains = start + u64::from(buckets) * 4;
            loop {
                let chained = read::<u32>(chains + u64::from(number - first) * 4);
                if chained | 1 == hash | 1 && self.fits(number, name, kind) {
                    return Some(number);
                }
                if chained & 1 != 0 {
                    return None;
                }
                number += 1;
            }
        }
    }

    fn by_hash(&self, name: &CStr, kind: Kind) -> Option<u32> {
        if self.hash == 0 {
            return None;
        }
        let hash = name.to_bytes().iter().fold(0u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(*byte));
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        // SAFETY: a hash table is its two counts, the buckets and the chains; chains end with 0.
        unsafe {
            let word = |index: u32| read::<u32>(self.hash + u64::from(index) * 4);
            let buckets = word(0);
            if buckets == 0 {
                return None;
            }
            let mut number = word(2 + hash % buckets);
            while number != 0 {
                if self.fits(number, name, kind) {
                    return Some(number);
                }
                number = word(2 + buckets + number);
            }
            None
        }
    }

    /// True if a slot that the object uses for the function `name` holds this address.
    pub fn binds(&self, name: &CStr, to: usize) -> bool {
        #[cfg(target_arch = "x86_64")]
        const SLOTS: [u32; 3] = [1, 6, 7]; // 64, GLOB_DAT, JUMP_SLOT
        #[cfg(target_arch = "aarch64")]
        const SLOTS: [u32; 3] = [257, 1025, 1026]; // ABS64, GLOB_DAT, JUMP_SLOT
        let lists = [(tag::JMPREL, tag::PLTRELSZ), (tag::RELA, tag::RELASZ)];
        lists.iter().any(|(list, size)| {
            let (Some(list), Some(bytes)) = (self.table(*list), self.value(*size)) else {
                return false;
            };
            (0..bytes / size_of::<Relocation>() as u64).any(|number| {
                // SAFETY: the section says that so many relocations lie there; they stay mapped.
                let relocation: Relocation =
                    unsafe { read(list + number * size_of::<Relocation>() as u64) };
                if !SLOTS.contains(&(relocation.info as u32)) {
                    return false;
                }
                // SAFETY: the slot is inside the object, where the loader has written it.
                let slot: u64 = unsafe { read(self.info.dlpi_addr + relocation.offset) };
                // The value first: names are looked at only where it fits.
                slot == to as u64 && {
                    let symbol =
                        self.symbols + (relocation.info >> 32) * size_of::<Symbol>() as u64;
                    // SAFETY: a relocation names a symbol of the object's own table.
                    let symbol: Symbol = unsafe { read(symbol) };
                    self.string(u64::from(symbol.name)) == name
                }
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &CStr) -> Vec<*mut c_void> {
        let mut all = Vec::with_capacity(16);
        each(&mut |object| {
            all.extend(object.symbol(name));
            false
        });
        all
    }

    #[test]
    fn symbols_are_those_that_the_loader_finds() {
        for name in [
            c"malloc",
            c"free",
            c"pthread_create",
            c"dl_iterate_phdr",
            c"fopen",
            c"_Unwind_Backtrace",
        ] {
            // SAFETY: a NUL-terminated name.
            let real = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert!(!real.is_null(), "{name:?}");
            assert!(found(name).contains(&real), "{name:?}");
        }
        assert_eq!(found(c"no_such_function_anywhere"), []);
        let mut variables = Vec::with_capacity(16);
        each(&mut |object| {
            assert_eq!(object.range(c"environ", Kind::Function), None);
            assert_eq!(object.range(c"malloc", Kind::Data), None);
            variables.extend(object.range(c"stdout", Kind::Data));
            false
        });
        // SAFETY: a NUL-terminated name.
        let real = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"stdout".as_ptr()) } as u64;
        assert!(variables.contains(&(real..real + 8)), "{variables:?}");
    }

    #[test]
    fn objects_know_their_names_and_what_they_need() {
        let (mut libc_path, mut needs_libc, mut own) = (false, false, false);
        each(&mut |object| {
            libc_path |=
                object.soname() == b"libc.so.6" && object.path().to_bytes().ends_with(b"libc.so.6");
            needs_libc |= object.path().is_empty() && object.needs(b"libc.so.6");
            own |= object.path().is_empty()
                && object.contains(each as fn(&mut dyn FnMut(Object<'_>) -> bool) as usize);
            false
        });
        assert!(libc_path && needs_libc && own);
    }
}
