//! A small world: a program, libraries with names, and calls in them.
#![allow(dead_code)]

use oomhook_ledger::Ledger;
use oomhook_report::{Facts, Report, Symbol, Symbols};
use oomhook_trace::header::Process;
use oomhook_trace::record::{Code, Device, EndKind, Library};
use oomhook_trace::{Event, Header, Record, Space, What};
use std::collections::HashMap;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;

pub const APP: u32 = 1;
pub const CUDART: u32 = 2;
pub const LIBC: u32 = 3;
pub const CUBLAS: u32 = 4;
pub const C10: u32 = 5;
pub const TORCH: u32 = 6;
pub const PYTHON: u32 = 7;

/// Names by library and offset.
#[derive(Default)]
pub struct Names(HashMap<(u32, u64), Vec<Symbol>>);

impl Symbols for Names {
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol> {
        let id = library.map_or(0, |library| library.id);
        // Frames are return addresses, and looked up one byte before.
        self.0.get(&(id, address + 1)).cloned().unwrap_or_default()
    }
}

/// What happens in the small world.
pub struct World {
    pub ledger: Ledger,
    pub names: Names,
    pub header: Header,
    pub facts: Facts,
    pub records: Vec<Record>,
    pub device: Option<u8>,
    pub call: u16,
    frames: u32,
    stacks: u32,
    addresses: u64,
    time_ns: u64,
}

impl World {
    pub fn new() -> World {
        let mut world = World {
            ledger: Ledger::default(),
            names: Names::default(),
            header: Header {
                process: Process {
                    host: "node7".into(),
                    pid: 4242,
                    ppid: 4200,
                    command: vec!["/app/trainer".into(), "--epochs=3".into()],
                    executable: "/app/trainer".into(),
                    start_unix_ns: 1_764_436_380_000_000_000,
                    ..Process::default()
                },
                ..Header::default()
            },
            facts: Facts {
                complete: true,
                ..Facts::default()
            },
            records: Vec::new(),
            device: Some(0),
            call: 1,
            frames: 0,
            stacks: 0,
            addresses: 0x7f00_0000_0000,
            time_ns: 0,
        };
        for (id, path) in [
            (APP, "/app/trainer"),
            (CUDART, "/usr/local/cuda/lib64/libcudart.so.13"),
            (LIBC, "/lib/x86_64-linux-gnu/libc.so.6"),
            (CUBLAS, "/usr/local/cuda/lib64/libcublas.so.13"),
            (C10, "/x/torch/lib/libc10_cuda.so"),
            (TORCH, "/x/torch/lib/libtorch_cuda.so"),
            (PYTHON, "/usr/bin/python3.12"),
        ] {
            world.record(Record::Library(Library {
                id,
                path: path.into(),
                build_id: Vec::new(),
                start: 0,
                end: 0,
                bias: 0,
                time_ns: 0,
            }));
        }
        for (id, name) in [(1, "cudaMalloc"), (2, "cudaFree"), (3, "cudaHostAlloc")] {
            world.record(Record::Call {
                id,
                name: name.into(),
            });
        }
        for ordinal in 0..2 {
            world.record(Record::Device(Device {
                ordinal,
                uuid: vec![ordinal as u8 + 1; 16],
                name: "NVIDIA H200".into(),
                pci_bus_id: format!("0000:0{ordinal}:00.0"),
                total_bytes: 16 * GIB,
            }));
        }
        world.record(Record::Thread {
            id: 0,
            tid: 4242,
            name: "trainer".into(),
        });
        world
    }

    pub fn record(&mut self, record: Record) {
        self.ledger.apply(&record);
        self.records.push(record);
    }

    /// A frame with a name.
    pub fn frame(&mut self, library: u32, symbols: &[(&str, &str, u32)]) -> u32 {
        self.frames += 1;
        let (id, offset) = (self.frames, u64::from(self.frames) * 0x100);
        self.record(Record::Frame {
            id,
            library,
            offset,
        });
        let symbols = symbols
            .iter()
            .map(|(function, file, line)| Symbol {
                function: (!function.is_empty()).then(|| (*function).to_owned()),
                file: (!file.is_empty()).then(|| (*file).to_owned()),
                line: (*line > 0).then_some(*line),
            })
            .collect();
        self.names.0.insert((library, offset), symbols);
        id
    }

    /// A Python frame.
    pub fn python(&mut self, function: &str, file: &str, line: u32) -> u32 {
        self.frames += 1;
        let id = self.frames;
        self.record(Record::Code(Code {
            id,
            file: file.into(),
            name: function.into(),
            first_line: 1,
        }));
        self.record(Record::PythonFrame { id, code: id, line });
        id
    }

    /// A stack of frames that exist.
    pub fn stack(&mut self, frames: &[u32]) -> u32 {
        self.stacks += 1;
        let id = self.stacks;
        self.record(Record::Stack {
            id,
            frames: frames.to_vec(),
        });
        id
    }

    /// cudaMalloc called by a function of the program.
    pub fn from(&mut self, function: &str, file: &str, line: u32) -> u32 {
        let runtime = self.frame(CUDART, &[("cudaMalloc", "", 0)]);
        let site = self.frame(APP, &[(function, file, line)]);
        let main = self.frame(APP, &[("main", "/src/main.cpp", 7)]);
        self.stack(&[runtime, site, main])
    }

    pub fn happens(&mut self, stack: u32, what: What) {
        self.time_ns += 1_000_000;
        self.record(Record::Event(Event {
            time_ns: self.time_ns,
            thread: 0,
            device: self.device,
            call: self.call,
            stack,
            what,
        }));
    }

    pub fn alloc(&mut self, stack: u32, space: Space, bytes: u64) -> u64 {
        self.addresses += bytes.next_multiple_of(512).max(512);
        let address = self.addresses;
        self.happens(
            stack,
            What::Alloc {
                space,
                address,
                bytes,
                requested: bytes,
                context: 0xc0,
                stream: 0,
                pool: 0,
            },
        );
        address
    }

    pub fn malloc(&mut self, stack: u32, bytes: u64) -> u64 {
        self.alloc(stack, Space::Device, bytes)
    }

    pub fn free(&mut self, stack: u32, address: u64) {
        let call = std::mem::replace(&mut self.call, 2);
        self.happens(
            stack,
            What::Free {
                space: Space::Device,
                address,
                stream: 0,
            },
        );
        self.call = call;
    }

    pub fn failing_free(&mut self, stack: u32, address: u64) {
        self.free(stack, address);
        self.happens(0, What::Undo { address, code: 1 });
    }

    pub fn fails(&mut self, stack: u32, requested: u64, free: u64) {
        self.happens(
            stack,
            What::AllocFailed {
                space: Some(Space::Device),
                requested: Some(requested),
                code: 2,
                free: Some(free),
                total: Some(16 * GIB),
                address: None,
            },
        );
    }

    pub fn exits(&mut self, code: u8) {
        self.happens(
            0,
            What::End {
                kind: EndKind::Exit,
                code: Some(code),
                signal: None,
            },
        );
    }

    pub fn report(&mut self) -> Report {
        Report::build(&self.header, &self.ledger, &mut self.names, &self.facts)
    }
}

/// Leaks, an out of memory, bad frees, caches, host memory: a bad day.
pub fn bad_day(fatal: bool) -> World {
    let mut world = World::new();
    let weights = world.from("load_weights(char const*)", "/src/loader.cpp", 88);
    let cache = world.from(
        "void serving::kv::PagedCache<__half, 128>::grow_to(unsigned long, serving::kv::Policy const&)",
        "/src/serving/kv/paged_cache.cpp",
        1204,
    );
    let runtime = world.frame(CUDART, &[("cudaMalloc", "", 0)]);
    let blas = world.frame(CUBLAS, &[("cublasCreate_v2", "", 0)]);
    let main = world.frame(APP, &[("main", "/src/main.cpp", 7)]);
    let blas = world.stack(&[runtime, blas, main]);
    let c10 = world.frame(
        C10,
        &[(
            "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::alloc_block(bool)",
            "",
            0,
        )],
    );
    let torch = world.frame(
        TORCH,
        &[(
            "at::native::empty_cuda(c10::ArrayRef<long>, std::optional<c10::ScalarType>)",
            "",
            0,
        )],
    );
    let torch = world.stack(&[runtime, c10, torch, main]);
    let stripped = world.frame(APP, &[]);
    let stripped = world.stack(&[runtime, stripped]);

    world.malloc(weights, 2 * GIB);
    world.malloc(weights, GIB);
    let scratch = world.malloc(stripped, 300 * MIB);
    world.malloc(blas, 32 * MIB);
    world.malloc(torch, 512 * MIB);
    world.alloc(weights, Space::Pinned, 64 * MIB);
    world.alloc(weights, Space::Managed, 24 * GIB);
    for _ in 0..12 {
        world.malloc(cache, 40 * MIB);
    }
    for line in 1..9 {
        let stack = world.from("helper()", "/src/helper.cpp", line);
        let address = world.malloc(stack, u64::from(line) * MIB);
        world.free(stack, address);
        if line % 2 == 0 {
            world.malloc(stack, MIB);
        }
    }
    world.free(weights, scratch);
    world.failing_free(blas, scratch);
    world.failing_free(cache, 0xdead_0000);
    if fatal {
        world.fails(cache, 16 * GIB, 11 * GIB);
        world.fails(cache, 16 * GIB, 11 * GIB);
        world.exits(1);
    } else {
        world.exits(0);
    }
    world
}
