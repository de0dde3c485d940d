//! What capturing a native stack costs: our own walk beside `backtrace`, libgcc and framehop, over the same stacks of 64
//! different functions in four libraries (C++ with -O2, no frame pointers), in one run.
//!
//! `cargo bench --bench unwind`

#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    reason = "a part of the library's modules is used"
)]

#[path = "../src/preload"]
mod preload {
    pub mod cancel;
    pub mod libraries;
    pub mod loader;
    pub mod doors {
        pub mod elf;
    }
    pub mod stack {
        pub mod kept;
        pub mod native;
        mod readable;
        mod reads;
        mod room;
    }
}

use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder};
use object::{Object, ObjectSection};
use preload::libraries;
use preload::stack::kept::Kept;
use preload::stack::native::{self, Frames, walk};
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::time::Instant;

const DEPTHS: [usize; 3] = [10, 32, 64];
const ROUNDS: usize = 15;

/// One way to take a stack; the number of frames it found, at most as many as asked for.
type Take = fn(usize) -> usize;

const WAYS: [(&str, Take); 7] = [
    ("oomhook's own walk", ours),
    ("own walk of a stack that is known to repeat", repeated),
    (
        "own walk, with the check for changed libraries",
        ours_checked,
    ),
    ("framehop 0.16, its cache per thread", framehop),
    ("libgcc _Unwind_Backtrace", libgcc),
    ("backtrace::trace_unsynchronized", unsynchronized),
    ("backtrace::trace", synchronized),
];

thread_local! {
    static LATEST: Kept<walk::Unchanged> = const { Kept::new() };
}

#[inline]
fn walk(unloads: u32, frames: &mut Frames, repeats: bool) -> walk::Found {
    LATEST.with(|latest| {
        latest.with(|latest| {
            let latest = latest.expect("memory");
            let found = walk::capture(unloads, frames, latest, repeats);
            found.expect("no stack is left to libgcc")
        })
    })
}

/// The frames are not filled where they are known to be the same.
fn repeated(depth: usize) -> usize {
    let mut frames = Frames::new(depth);
    match walk(UNLOADS.with(std::cell::Cell::get), &mut frames, true) {
        walk::Found::Same => depth,
        walk::Found::Frames => black_box(&frames[..]).len(),
    }
}

fn ours(depth: usize) -> usize {
    let mut frames = Frames::new(depth);
    walk(UNLOADS.with(std::cell::Cell::get), &mut frames, false);
    black_box(&frames[..]).len()
}

fn ours_checked(depth: usize) -> usize {
    let mut frames = Frames::new(depth);
    walk(libraries::now().unloads, &mut frames, false);
    black_box(&frames[..]).len()
}

thread_local! {
    static UNLOADS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    static FRAMEHOP: std::cell::RefCell<Option<Framehop>> = const { std::cell::RefCell::new(None) };
}

struct Framehop {
    unwinder: framehop::x86_64::UnwinderX86_64<Vec<u8>, MayAllocateDuringUnwind>,
    cache: framehop::x86_64::CacheX86_64<MayAllocateDuringUnwind>,
}

impl Framehop {
    fn new() -> Framehop {
        let mut unwinder = framehop::x86_64::UnwinderX86_64::new();
        for loaded in libraries::loaded_now() {
            let path = match loaded.path.as_str() {
                "" => std::env::current_exe().expect("this program"),
                path => path.into(),
            };
            let Ok(bytes) = std::fs::read(&path) else {
                continue;
            };
            let file = object::File::parse(&*bytes).expect("an object");
            let section = |name| {
                let found = file.section_by_name(name)?;
                let range = found.address()..found.address() + found.size();
                Some((range, found.data().ok()?.to_vec()))
            };
            let (text, eh, header) = (
                section(".text"),
                section(".eh_frame"),
                section(".eh_frame_hdr"),
            );
            let (eh_frame_svma, eh_frame) = eh.unzip();
            let (eh_frame_hdr_svma, eh_frame_hdr) = header.unzip();
            let (text_svma, text) = text.unzip();
            unwinder.add_module(Module::new(
                loaded.path,
                loaded.start..loaded.end,
                loaded.bias,
                ExplicitModuleSectionInfo {
                    text_svma,
                    text,
                    eh_frame_svma,
                    eh_frame,
                    eh_frame_hdr_svma,
                    eh_frame_hdr,
                    ..Default::default()
                },
            ));
        }
        Framehop {
            unwinder,
            cache: framehop::x86_64::CacheX86_64::new(),
        }
    }
}

#[inline(never)]
fn framehop(depth: usize) -> usize {
    let (pc, sp, bp): (u64, u64, u64);
    // SAFETY: reads three registers.
    unsafe {
        std::arch::asm!("lea {}, [rip]", "mov {}, rsp", "mov {}, rbp", out(reg) pc, out(reg) sp, out(reg) bp);
    }
    FRAMEHOP.with_borrow_mut(|framehop| {
        let framehop = framehop.as_mut().expect("prepared");
        // SAFETY: the unwinder asks for slots of this thread's own stack.
        let mut read = |at: u64| Ok(unsafe { (at as *const u64).read() });
        let own = libraries::own_range();
        let mut frames = [0u64; 64];
        let mut length = 0;
        let registers = framehop::x86_64::UnwindRegsX86_64::new(pc, sp, bp);
        let mut iterator =
            framehop
                .unwinder
                .iter_frames(pc, registers, &mut framehop.cache, &mut read);
        while let Ok(Some(frame)) = iterator.next() {
            let address = frame.address();
            if own.contains(&(address as usize)) {
                continue;
            }
            frames[length] = address;
            length += 1;
            if length == depth {
                break;
            }
        }
        black_box(&frames);
        length
    })
}

struct Raw {
    frames: [usize; 64],
    length: usize,
    depth: usize,
    own: std::ops::Range<usize>,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        look: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        to: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

fn libgcc(depth: usize) -> usize {
    unsafe extern "C" fn look(context: *mut c_void, raw: *mut c_void) -> c_int {
        // SAFETY: libgcc's context, and the local below.
        let (address, raw) = unsafe { (_Unwind_GetIP(context), &mut *raw.cast::<Raw>()) };
        if !raw.own.contains(&address) {
            raw.frames[raw.length] = address;
            raw.length += 1;
        }
        // 5 is _URC_END_OF_STACK.
        if raw.length == raw.depth { 5 } else { 0 }
    }
    let mut raw = Raw {
        frames: [0; 64],
        length: 0,
        depth,
        own: libraries::own_range(),
    };
    // SAFETY: the callback matches.
    unsafe { _Unwind_Backtrace(look, (&raw mut raw).cast()) };
    black_box(&raw.frames);
    raw.length
}

fn unsynchronized(depth: usize) -> usize {
    let mut frames = Frames::new(depth);
    native::libgcc::capture(&mut frames);
    black_box(&frames[..]).len()
}

fn synchronized(depth: usize) -> usize {
    let own = libraries::own_range();
    let mut frames = [0usize; 64];
    let mut length = 0;
    backtrace::trace(|frame| {
        let address = frame.ip() as usize;
        if !own.contains(&address) {
            frames[length] = address;
            length += 1;
        }
        length < depth
    });
    black_box(&frames);
    length
}

/// The layout of chain.cpp.
#[repr(C)]
struct Chain<'a> {
    tables: [*const c_void; 4],
    work: extern "C" fn(&mut &'a mut dyn FnMut()),
    argument: *mut &'a mut dyn FnMut(),
}

type Step = unsafe extern "C" fn(*const Chain<'_>, c_int);

struct Chains([libloading::Library; 4]);

impl Chains {
    fn build(folder: &Path) -> Chains {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/unwind/chain.cpp");
        Chains(std::array::from_fn(|number| {
            let to = folder.join(format!("chain{number}.so"));
            let status = Command::new("c++")
                .args(["-O2", "-fPIC", "-shared", "-fomit-frame-pointer"])
                .args([format!("-DNUMBER={number}"), "-o".into()])
                .arg(&to)
                .arg(&source)
                .status();
            assert!(status.expect("a C++ compiler").success());
            // SAFETY: a library of ours, without constructors.
            unsafe { libloading::Library::new(&to).expect("it loads") }
        }))
    }

    /// Runs work below so many frames of the chain.
    fn below(&self, depth: usize, mut work: &mut dyn FnMut()) {
        extern "C" fn call(work: &mut &mut dyn FnMut()) {
            work();
        }
        let tables = self.0.each_ref().map(|library| {
            // SAFETY: chain.cpp exports a table of this name.
            unsafe {
                library
                    .get::<*const c_void>(b"chain_table\0")
                    .expect("a table")
                    .into_raw()
                    .into_raw() as *const c_void
            }
        });
        let chain = Chain {
            tables,
            work: call,
            argument: &raw mut work,
        };
        // SAFETY: a table of sixteen functions with this signature.
        let first = unsafe { *tables[depth % 4].cast::<Step>().add(depth / 4 % 16) };
        // SAFETY: the chain outlives the call.
        unsafe { first(&chain, depth as c_int) };
    }
}

/// Nanoseconds for one stack: the lowest of some medians.
fn measure(take: Take, depth: usize, cold: bool) -> f64 {
    let mut dirt = vec![1u8; if cold { 4 << 20 } else { 0 }];
    let calls = if cold { 1 } else { 100 };
    let mut samples: Vec<f64> = (0..if cold { 60 } else { ROUNDS })
        .map(|_| {
            dirt.iter_mut()
                .step_by(64)
                .for_each(|byte| *byte = byte.wrapping_add(1));
            let start = Instant::now();
            for _ in 0..calls {
                assert_eq!(black_box(take(depth)), depth);
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    samples.sort_by(f64::total_cmp);
    black_box(&dirt);
    samples[samples.len() / 2]
}

fn row(chains: &Chains, take: Take, threads: usize, cold: bool) -> [f64; 3] {
    DEPTHS.map(|depth| {
        let barrier = Barrier::new(threads);
        let one = || {
            FRAMEHOP.set(Some(Framehop::new()));
            UNLOADS.set(libraries::now().unloads);
            let mut result = 0.0;
            // More frames than are taken, so that all that are taken are the chain's.
            chains.below(depth + 4, &mut || {
                take(depth);
                barrier.wait();
                result = (0..9)
                    .map(|_| measure(take, depth, cold))
                    .fold(f64::MAX, f64::min);
            });
            result
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            let sum: f64 = all
                .into_iter()
                .map(|thread| thread.join().expect("no panic"))
                .sum();
            sum / threads as f64
        })
    })
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let chains = Chains::build(folder.path());
    libraries::now();
    native::warm_up();
    println!("nanoseconds for a stack of 10, 32 and 64 frames (lowest of 9 medians)");
    for (title, threads, cold) in [
        ("warm, 1 thread", 1, false),
        ("warm, 2 threads", 2, false),
        ("cold (4 MiB touched before each), 1 thread", 1, true),
    ] {
        println!("\n{title}");
        println!("{:<48} {:>7} {:>7} {:>7}   own walk x (32)", "", 10, 32, 64);
        let mut own = None;
        for (name, take) in WAYS {
            let [a, b, c] = row(&chains, take, threads, cold);
            let own = *own.get_or_insert(b);
            println!("{name:<48} {a:>7.0} {b:>7.0} {c:>7.0}   {:.1}", b / own);
        }
    }
}
