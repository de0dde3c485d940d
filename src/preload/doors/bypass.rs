//! Which loaded libraries go round our `dlsym`? One loaded with RTLD_DEEPBIND binds to glibc's own, and a CUDA runtime
//! linked into it reaches the driver unseen. The linkage tables tell: their slot for `dlsym` holds glibc's address.

use super::dlsym::glibc_dlsym;
use std::ffi::{CStr, c_int, c_void};

/// Tags of the dynamic section, kinds of relocations, as <elf.h> has them.
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_PLTRELSZ: i64 = 2;
const DT_JMPREL: i64 = 23;
#[cfg(target_arch = "x86_64")]
const SLOT_KINDS: [u32; 3] = [1, 6, 7]; // 64, GLOB_DAT, JUMP_SLOT
#[cfg(target_arch = "aarch64")]
const SLOT_KINDS: [u32; 3] = [257, 1025, 1026]; // ABS64, GLOB_DAT, JUMP_SLOT

#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// Findings, in storage that is there before the loader's lock is taken: nothing may be allocated under it.
struct Found {
    wanted: u64,
    names: Vec<u8>,
    ends: Vec<usize>,
}

/// Paths of the loaded objects whose `dlsym` is glibc's own (a few at most; the rest is not listed).
pub fn libraries() -> Vec<String> {
    let mut found = Found {
        wanted: glibc_dlsym() as u64,
        names: Vec::with_capacity(8 << 10),
        ends: Vec::with_capacity(8),
    };
    if found.wanted == 0 {
        return Vec::new();
    }
    // SAFETY: the callback matches and gets `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    let mut start = 0;
    let names = found.ends.iter().map(|end| {
        let name = String::from_utf8_lossy(&found.names[start..*end]).into_owned();
        start = *end;
        name
    });
    names.filter(|name| !is_part_of_glibc(name)).collect()
}

/// glibc's own parts, and the loader's vdso, have reasons of their own.
fn is_part_of_glibc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let parts = [
        "libc.so",
        "libdl.so",
        "libpthread.so",
        "ld-linux",
        "linux-vdso",
    ];
    parts.iter().any(|part| name.starts_with(part))
}

unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid entry; `found` is the one of `libraries`, which waits for us.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Found>()) };
    if info.dlpi_name.is_null() || found.ends.len() == found.ends.capacity() {
        return 0;
    }
    // SAFETY: the loader's own NUL-terminated name, valid while it holds its lock.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
    if found.names.len() + name.len() > found.names.capacity() {
        return 0;
    }
    // SAFETY: the object is loaded for as long as the loader holds its lock.
    if !name.is_empty() && unsafe { binds_to(info, found.wanted) } {
        found.names.extend_from_slice(name);
        found.ends.push(found.names.len());
    }
    0
}

/// True if a slot of the object for `dlsym` holds `wanted`.
///
/// # Safety
/// `info` describes an object that stays loaded during the call.
unsafe fn binds_to(info: &libc::dl_phdr_info, wanted: u64) -> bool {
    let bias = info.dlpi_addr;
    // SAFETY: the loader keeps the program headers mapped while the object is loaded.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let Some(header) = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC)
    else {
        return false;
    };
    let mut entry = at::<Dynamic>(bias + header.p_vaddr);
    let mut table = [0u64; 24];
    loop {
        // SAFETY: the dynamic section is mapped and ends with a zero tag.
        let Dynamic { tag, value } = unsafe { entry.read_unaligned() };
        if tag == 0 {
            break;
        }
        if let Some(slot) = usize::try_from(tag).ok().and_then(|tag| table.get_mut(tag)) {
            *slot = value;
        }
        entry = entry.wrapping_add(1);
    }
    // glibc has put real addresses into the section; what it may not write (the vdso) still has offsets.
    let address = |tag: i64| match table[tag as usize] {
        value if value != 0 && value < bias => value + bias,
        value => value,
    };
    let (symbols, strings) = (address(DT_SYMTAB), address(DT_STRTAB));
    if symbols == 0 || strings == 0 {
        return false;
    }
    let lists = [(DT_JMPREL, DT_PLTRELSZ), (DT_RELA, DT_RELASZ)];
    lists.iter().any(|(list, size)| {
        let (list, bytes) = (address(*list), table[*size as usize]);
        let count = if list == 0 {
            0
        } else {
            bytes as usize / size_of::<Relocation>()
        };
        (0..count).any(|number| {
            // SAFETY: the section says that so many relocations lie there; they stay mapped.
            let relocation = unsafe { at::<Relocation>(list).add(number).read_unaligned() };
            if !SLOT_KINDS.contains(&(relocation.info as u32)) {
                return false;
            }
            // SAFETY: the slot is inside the object, where the loader has written it.
            let slot = unsafe { at::<u64>(bias + relocation.offset).read_unaligned() };
            // The value first: names are looked at only where it fits.
            slot == wanted && {
                let symbol = symbols + (relocation.info >> 32) * 24;
                // SAFETY: a relocation names a symbol of the object's own table, whose name is NUL-terminated.
                let name = unsafe {
                    let name = at::<u32>(symbol).read_unaligned();
                    CStr::from_ptr(at::<libc::c_char>(strings + u64::from(name)))
                };
                name == c"dlsym"
            }
        })
    })
}

fn at<T>(address: u64) -> *const T {
    std::ptr::with_exposed_provenance(address as usize)
}
