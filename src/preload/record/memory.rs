//! Linear, managed, pinned, registered and stream-ordered memory. (Pitched memory is in `pitch`.)

use super::{Call, Recipe, failure, graph};
use crate::preload::hooks::abi::{Code, Pool, SUCCESS, Stream};
use crate::preload::pretend::{Ask, Memory};
use crate::preload::raw::{FROM_POOL, Kind, Raw};
use crate::preload::{captures, devices};
use oomhook_trace::Space;
use std::ffi::c_void;

/// Where a call puts the address of the block. Read only after success, and never if the caller gave NULL.
#[derive(Clone, Copy)]
pub enum Out {
    /// `CUdeviceptr*`.
    Address(*mut u64),
    /// `CUdeviceptr_v1*`: 4 bytes. Reading 8 would take what lies behind it.
    Address32(*mut u32),
    /// `void**`.
    Pointer(*mut *mut c_void),
}

impl Out {
    /// The caller gave NULL, which the driver refuses.
    pub fn is_null(self) -> bool {
        match self {
            Out::Address(to) => to.is_null(),
            Out::Address32(to) => to.is_null(),
            Out::Pointer(to) => to.is_null(),
        }
    }

    /// The address; 0 if the caller gave NULL.
    pub fn read(self) -> u64 {
        // SAFETY: the driver has just written through these pointers, successfully.
        unsafe {
            match self {
                Out::Address(to) if !to.is_null() => to.read_unaligned(),
                Out::Address32(to) if !to.is_null() => u64::from(to.read_unaligned()),
                Out::Pointer(to) if !to.is_null() => to.read_unaligned() as u64,
                _ => 0,
            }
        }
    }
}

/// The stream of a stream-ordered call.
#[derive(Clone, Copy)]
struct OnStream {
    stream: Stream,
    pool: Pool,
    per_thread: bool,
}

/// A stream as it is recorded: what stands for the same stream is the same number.
fn number_of(stream: Stream, per_thread: bool) -> u64 {
    /// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`.
    const LEGACY: u64 = 1;
    const PER_THREAD: u64 = 2;
    match (stream as u64, per_thread) {
        (0, true) => PER_THREAD,
        (LEGACY, _) => 0,
        (stream, _) => stream,
    }
}

/// A block of a known size.
pub struct Allocate {
    space: Space,
    out: Out,
    requested: u64,
    on_stream: Option<OnStream>,
}

impl Allocate {
    /// Memory of `space`, its address written to `out`.
    pub fn new(space: Space, out: Out, requested: u64) -> Allocate {
        Allocate {
            space,
            out,
            requested,
            on_stream: None,
        }
    }

    /// Stream-ordered memory. `per_thread`: the `_ptsz` form, whose stream 0 is the thread's own.
    pub fn on_stream(
        out: Out,
        requested: usize,
        stream: Stream,
        pool: Pool,
        per_thread: bool,
    ) -> Allocate {
        let on_stream = Some(OnStream {
            stream,
            pool,
            per_thread,
        });
        Allocate {
            space: Space::Async,
            out,
            requested: requested as u64,
            on_stream,
        }
    }

    fn succeeded(&self, call: &Call) {
        if self.requested == 0 {
            return call.send(Raw::new(Kind::ZeroSize));
        }
        let address = self.out.read();
        let raw = Raw {
            a: address,
            b: self.requested,
            c: self.requested,
            ..Raw::new(Kind::Alloc)
        };
        match self.on_stream {
            // A captured allocation is a node of a graph: it holds no memory until the graph is launched.
            Some(on) if captures::is_capturing(on.stream, on.per_thread) => {
                graph::send_alloc(call, address, self.requested, true);
            }
            Some(on) => {
                let (space, device) = devices::of_pool(on.pool, address);
                if space == Space::Async {
                    devices::pools::introduce(call, device);
                }
                let raw = Raw {
                    d: on.pool as u64,
                    e: number_of(on.stream, on.per_thread),
                    flags: FROM_POOL,
                    device,
                    ..raw
                };
                allocated(call, space, raw);
            }
            None => {
                let place = devices::current(call);
                allocated(
                    call,
                    self.space,
                    Raw {
                        d: place.context,
                        device: place.device,
                        ..raw
                    },
                );
            }
        }
    }
}

/// Sends an allocation, unless an inner call has sent the same block already.
pub fn allocated(call: &Call, space: Space, raw: Raw) {
    if raw.a == 0 || call.thread.was_nested(raw.a) {
        return;
    }
    call.thread.note_nested(raw.a);
    devices::announce(call, raw.device);
    call.send_here(Raw {
        space: space as u8,
        ..raw
    });
}

impl Recipe for Allocate {
    fn starts(&self) -> bool {
        true
    }

    fn asks(&self) -> Option<Ask> {
        if self.out.is_null() {
            return None;
        }
        let memory = match (self.on_stream, self.space) {
            (_, Space::ReservedVa) => return None,
            (Some(on), _) => Memory::Pool {
                pool: on.pool,
                stream: on.stream,
                per_thread: on.per_thread,
            },
            (None, Space::Device) => Memory::Current,
            (None, _) => Memory::Unlimited,
        };
        Ask::new(self.requested, memory)
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            self.succeeded(call);
        } else {
            failure::record(call, Some(self.space), Some(self.requested), code);
        }
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        self.after(call, code);
        code == SUCCESS && self.requested != 0 && self.out.read() != 0
    }
}

/// Host memory of the program, registered with the driver.
pub struct Host {
    address: u64,
    bytes: u64,
}

impl Host {
    /// `cuMemHostRegister`.
    pub fn register(pointer: *mut c_void, bytes: usize) -> Host {
        Host {
            address: pointer as u64,
            bytes: bytes as u64,
        }
    }
}

impl Recipe for Host {
    fn starts(&self) -> bool {
        true
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            let at = Some(self.address);
            return failure::record_at(call, Some(Space::Registered), Some(self.bytes), code, at);
        }
        let place = devices::current(call);
        let raw = Raw {
            a: self.address,
            b: self.bytes,
            c: self.bytes,
            ..Raw::new(Kind::Alloc)
        };
        allocated(
            call,
            Space::Registered,
            Raw {
                d: place.context,
                device: place.device,
                ..raw
            },
        );
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        self.after(call, code);
        code == SUCCESS
    }
}

/// A free, of whatever family: announced before, taken back if it fails.
pub struct Free {
    family: Space,
    address: u64,
    stream: Option<(Stream, bool)>,
    /// What the thread was freeing when this began (a free inside a free).
    outer: u64,
    announced: bool,
    /// The stream was being captured: a node is made, nothing is freed.
    captured: bool,
}

impl Free {
    /// A free of `family`.
    pub fn new(family: Space, address: u64) -> Free {
        Free {
            family,
            address,
            stream: None,
            outer: 0,
            announced: false,
            captured: false,
        }
    }

    /// A stream-ordered free.
    pub fn on_stream(address: u64, stream: Stream, per_thread: bool) -> Free {
        Free {
            stream: Some((stream, per_thread)),
            ..Free::new(Space::Async, address)
        }
    }

    fn announce(&mut self, call: &Call) {
        let stream = self
            .stream
            .map_or(0, |(stream, own)| number_of(stream, own));
        let raw = Raw {
            a: self.address,
            e: stream,
            ..Raw::new(Kind::Free)
        };
        call.send_here(Raw {
            space: self.family as u8,
            ..raw
        });
        self.announced = true;
    }
}

impl Recipe for Free {
    fn before(&mut self, call: &Call) {
        self.outer = call.thread.freeing.replace(self.address);
        self.captured = self
            .stream
            .is_some_and(|(stream, own)| captures::is_capturing(stream, own));
        if self.address != 0 && self.outer != self.address && !self.captured {
            self.announce(call);
        }
    }

    fn after(&mut self, call: &Call, code: Code) {
        call.thread.freeing.set(self.outer);
        if self.address == 0 {
            if code == SUCCESS {
                call.send(Raw::new(Kind::NullFree));
            }
        } else if self.captured && code == SUCCESS {
            graph::send_free(call, self.address, true);
        } else if self.announced && code != SUCCESS {
            call.send(Raw {
                a: self.address,
                b: code as u64,
                ..Raw::new(Kind::Undo)
            });
        }
    }

    fn unseen(&mut self, call: &Call, code: Code) -> bool {
        if self.address != 0 {
            self.announce(call);
        }
        self.after(call, code);
        code == SUCCESS && self.address != 0
    }
}
