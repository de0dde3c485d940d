//! The loaded objects: where each lies and its build-id. Read by the thread that first sees a change (never by the
//! writer, which must not touch the loader's locks) and handed to the writer as a whole.

use super::loader;
use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// One loaded object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Path as the loader knows it, empty for the program.
    pub path: String,
    /// The folder that a path like `./libplugin.so` is seen from: the program's own at the time of the scan.
    pub folder: Option<String>,
    /// GNU build-id; empty if there is none.
    pub build_id: Vec<u8>,
    /// Lowest mapped address.
    pub start: u64,
    /// One past the highest mapped address.
    pub end: u64,
    /// Difference between mapped and file addresses.
    pub bias: u64,
}

/// All objects at one moment.
pub struct Scan {
    /// The loader's count of loads and unloads at that moment.
    pub generation: u32,
    /// In load order: the program first.
    pub objects: Vec<Object>,
    next: *mut Scan,
}

/// Scans that the writer has not taken yet, newest first.
static PUBLISHED: AtomicPtr<Scan> = AtomicPtr::new(std::ptr::null_mut());
/// Generation of the newest published scan plus one; 0 before the first.
static NEWEST: AtomicU32 = AtomicU32::new(0);
/// Where this library lies.
static OWN_START: AtomicUsize = AtomicUsize::new(0);
static OWN_END: AtomicUsize = AtomicUsize::new(0);

/// Where this library lies (known after the first scan).
#[inline]
pub fn own_range() -> Range<usize> {
    OWN_START.load(Ordering::Relaxed)..OWN_END.load(Ordering::Relaxed)
}

/// The loader's counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads plus unloads: grows with every change.
    pub generation: u32,
    /// Unloads: as long as it stays the same, what lies at an address is what lay there.
    pub unloads: u32,
}

fn counts(info: &libc::dl_phdr_info) -> Counts {
    Counts {
        generation: info.dlpi_adds.wrapping_add(info.dlpi_subs) as u32,
        unloads: info.dlpi_subs as u32,
    }
}

/// The current counts; publishes a scan first if this generation has not been seen. Whatever is on the calling thread's
/// stack is loaded and stays so, since it is executing: the scan has it.
#[inline]
pub fn now() -> Counts {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _: libc::size_t,
        to: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `to` is the local below.
        unsafe { *to.cast::<Counts>() = counts(&*info) };
        1
    }
    let mut now = Counts::default();
    // SAFETY: the callback matches, and returns at the first object.
    unsafe { loader::iterate(first, (&raw mut now).cast()) };
    if NEWEST.load(Ordering::Acquire) != now.generation.wrapping_add(1) {
        now.generation = publish();
    }
    now
}

#[cold]
fn publish() -> u32 {
    let scan = scan();
    let generation = scan.generation;
    for object in &scan.objects {
        if (object.start..object.end).contains(&(publish as fn() -> u32 as usize as u64)) {
            OWN_START.store(object.start as usize, Ordering::Relaxed);
            OWN_END.store(object.end as usize, Ordering::Relaxed);
        }
    }
    let scan = Box::into_raw(Box::new(scan));
    let mut head = PUBLISHED.load(Ordering::Acquire);
    loop {
        // SAFETY: not published yet, so it is ours alone.
        unsafe { (*scan).next = head };
        match PUBLISHED.compare_exchange(head, scan, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => break,
            Err(newer) => head = newer,
        }
    }
    // Never back: a slower thread's older scan must not stand for the newest.
    NEWEST.fetch_max(generation.wrapping_add(1), Ordering::AcqRel);
    generation
}

/// The scans published since the last call, oldest first. For the writer alone.
pub fn take_published() -> Vec<Scan> {
    let mut scans = Vec::new();
    let mut next = PUBLISHED.swap(std::ptr::null_mut(), Ordering::AcqRel);
    while !next.is_null() {
        // SAFETY: each was leaked by `publish` and unlinked by the swap: nobody else has it.
        let scan = unsafe { Box::from_raw(next) };
        next = scan.next;
        scans.push(*scan);
    }
    scans.reverse();
    scans
}

/// Fixed storage for a scan: the loader holds its lock while it calls back, and an allocator that unwinds (jemalloc's
/// profiling does) may be waiting for that lock: nothing may be allocated meanwhile.
struct Draft {
    generation: u32,
    objects: Vec<(Object, usize, usize)>,
    paths: Vec<u8>,
    build_ids: Vec<[u8; 64]>,
    overflow: bool,
}

fn scan() -> Scan {
    let mut room = 512;
    loop {
        let mut draft = Draft {
            generation: 0,
            objects: Vec::with_capacity(room),
            paths: Vec::with_capacity(room * 256),
            build_ids: Vec::with_capacity(room),
            overflow: false,
        };
        // SAFETY: the callback matches and gets the draft, which outlives the call.
        unsafe { loader::iterate(collect, (&raw mut draft).cast()) };
        if draft.overflow {
            room *= 2;
            continue;
        }
        return draft.finish();
    }
}

impl Draft {
    fn finish(self) -> Scan {
        let objects = self.objects.into_iter().zip(self.build_ids);
        let objects = objects.map(|((object, path_end, id_length), id)| {
            (object, path_end, id[..id_length].to_vec())
        });
        let mut start = 0;
        let objects = objects
            .map(|(object, path_end, build_id)| {
                let path = String::from_utf8_lossy(&self.paths[start..path_end]).into_owned();
                start = path_end;
                // Names without a folder are no files (linux-vdso.so.1).
                let is_relative = !path.starts_with('/') && path.contains('/');
                let folder = is_relative.then(std::env::current_dir).and_then(Result::ok);
                Object {
                    path,
                    folder: folder.map(|folder| folder.to_string_lossy().into_owned()),
                    build_id,
                    ..object
                }
            })
            .collect();
        Scan {
            generation: self.generation,
            objects,
            next: std::ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    draft: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a valid entry; `draft` is the one of `scan`, which waits for us.
    let (info, draft) = unsafe { (&*info, &mut *draft.cast::<Draft>()) };
    draft.generation = counts(info).generation;
    let path: &[u8] = if info.dlpi_name.is_null() {
        b""
    } else {
        // SAFETY: the loader's own NUL-terminated name, valid while it holds its lock.
        unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes()
    };
    if draft.objects.len() == draft.objects.capacity()
        || draft.paths.len() + path.len() > draft.paths.capacity()
    {
        draft.overflow = true;
        return 1;
    }
    // SAFETY: the loader keeps the program headers mapped while the object is loaded.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr;
    let segments = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let start = segments
        .clone()
        .map(|header| header.p_vaddr)
        .min()
        .unwrap_or(0);
    let end = segments
        .clone()
        .map(|header| header.p_vaddr + header.p_memsz)
        .max()
        .unwrap_or(0);
    let mut id = [0u8; 64];
    let mut id_length = 0;
    for header in headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE)
    {
        let mapped = segments.clone().any(|segment| {
            segment.p_flags & libc::PF_R != 0
                && segment.p_vaddr <= header.p_vaddr
                && header.p_vaddr + header.p_memsz <= segment.p_vaddr + segment.p_memsz
        });
        if !mapped {
            continue;
        }
        let at = std::ptr::with_exposed_provenance::<u8>((bias + header.p_vaddr) as usize);
        // SAFETY: the range lies inside a readable segment of a loaded object.
        let notes = unsafe { std::slice::from_raw_parts(at, header.p_memsz as usize) };
        if let Some(found) = build_id(notes).filter(|found| found.len() <= id.len()) {
            id[..found.len()].copy_from_slice(found);
            id_length = found.len();
        }
    }
    draft.paths.extend_from_slice(path);
    draft.build_ids.push(id);
    let object = Object {
        start: bias.wrapping_add(start),
        end: bias.wrapping_add(end),
        bias,
        // No allocation here: empty ones own no memory.
        path: String::new(),
        folder: None,
        build_id: Vec::new(),
    };
    draft.objects.push((object, draft.paths.len(), id_length));
    0
}

/// The GNU build-id among ELF notes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let padded = |length: usize| length.checked_add(3).map(|length| length & !3);
    while notes.len() >= 12 {
        let word = |at: usize| {
            u32::from_ne_bytes([notes[at], notes[at + 1], notes[at + 2], notes[at + 3]])
        };
        let (name_length, length, kind) = (word(0) as usize, word(4) as usize, word(8));
        let body = 12usize.checked_add(padded(name_length)?)?;
        let name = notes.get(12..12usize.checked_add(name_length)?)?;
        let content = notes.get(body..body.checked_add(length)?)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
        notes = notes.get(body.checked_add(padded(length)?)?..)?;
    }
    None
}

/// What is loaded at this moment.
pub fn loaded_now() -> Vec<Object> {
    scan().objects
}

/// Path of the object that holds an address, for a note; the address itself if there is none.
pub fn path_of(address: usize) -> String {
    let scan = scan();
    let holder = scan
        .objects
        .into_iter()
        .find(|object| (object.start..object.end).contains(&(address as u64)));
    match holder {
        Some(object) if object.path.is_empty() => "the program".into(),
        Some(object) => object.path,
        None => format!("{address:#x}"),
    }
}

/// Paths of everything that is loaded.
pub fn paths() -> Vec<String> {
    let objects = scan().objects.into_iter();
    objects.map(|object| object.path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_agrees_with_the_kernel() {
        let scan = scan();
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let here = the_scan_agrees_with_the_kernel as fn() as usize as u64;
        let program = scan
            .objects
            .iter()
            .find(|object| (object.start..object.end).contains(&here));
        let program = program.expect("this code lies in an object");
        assert!(
            program.path.is_empty(),
            "the program has no path of its own"
        );
        assert_eq!(program.build_id.len(), 20);
        let first = maps
            .lines()
            .find(|line| line.contains("/deps/"))
            .expect("the program is mapped");
        assert!(
            first.starts_with(&format!("{:x}-", program.start)),
            "{first}"
        );
        assert!(
            scan.objects
                .iter()
                .any(|object| object.path.contains("libc.so"))
        );
    }

    #[test]
    fn a_scan_is_published_once_a_generation() {
        let first = now().generation;
        assert_eq!(now().generation, first);
        assert!(own_range().contains(&(now as fn() -> Counts as usize)));
        let scans = take_published();
        assert!(scans.iter().any(|scan| scan.generation == first));
        assert!(take_published().is_empty());
    }

    #[test]
    fn notes_that_do_not_fit_are_no_build_id() {
        let note = |name_length: u32, length: u32| {
            let mut bytes = Vec::new();
            for word in [name_length, length, 3] {
                bytes.extend_from_slice(&word.to_ne_bytes());
            }
            bytes.extend_from_slice(b"GNU\0");
            bytes.extend_from_slice(&[1, 2, 3, 4]);
            bytes
        };
        assert_eq!(build_id(&note(4, 4)), Some(&[1, 2, 3, 4][..]));
        for (name_length, length) in [(u32::MAX, 4), (4, u32::MAX), (0, 0), (4, 9), (5, 4)] {
            assert_eq!(
                build_id(&note(name_length, length)),
                None,
                "{name_length} {length}"
            );
        }
        assert_eq!(build_id(&[0; 11]), None);
    }
}
