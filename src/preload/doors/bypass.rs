//! Which loaded libraries go round our `dlsym`? One loaded with RTLD_DEEPBIND binds to glibc's own, and a CUDA runtime
//! linked into it reaches the driver unseen. The linkage tables tell: their slot for `dlsym` holds glibc's address.

use super::dlsym::glibc_dlsym;
use super::elf;

/// Paths of the loaded objects whose `dlsym` is glibc's own (a few at most; the rest is not listed).
pub fn libraries() -> Vec<String> {
    let glibc = glibc_dlsym();
    if glibc == 0 {
        return Vec::new();
    }
    // Room that is there before the loader's list is held still: nothing may be allocated meanwhile.
    let mut names: Vec<u8> = Vec::with_capacity(8 << 10);
    let mut ends: Vec<usize> = Vec::with_capacity(8);
    elf::each(&mut |object| {
        let path = object.path().to_bytes();
        let room = ends.len() < ends.capacity() && names.len() + path.len() <= names.capacity();
        if room
            && !path.is_empty()
            && !is_part_of_glibc(object.soname())
            && object.binds(c"dlsym", glibc)
        {
            names.extend_from_slice(path);
            ends.push(names.len());
        }
        false
    });
    let mut start = 0;
    ends.iter()
        .map(|end| {
            let name = String::from_utf8_lossy(&names[start..*end]).into_owned();
            start = *end;
            name
        })
        .collect()
}

/// glibc's own parts, and the kernel's vdso, have reasons of their own.
fn is_part_of_glibc(soname: &[u8]) -> bool {
    let parts: [&[u8]; 5] = [
        b"libc.so",
        b"libdl.so",
        b"libpthread.so",
        b"ld-linux",
        b"linux-vdso",
    ];
    parts.iter().any(|part| soname.starts_with(part))
}
