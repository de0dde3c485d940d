//! What one message says: who ran out, and each number that it names.

use oomhook_report::diagnosis::Framework;
use serde::Serialize;

/// A message that was found in a line.
#[derive(Clone, Debug)]
pub struct Found {
    /// Where it begins in the text, bytes.
    pub start: usize,
    /// Who ran out.
    pub framework: Framework,
    /// What it is about.
    pub kind: Kind,
    /// Its numbers.
    pub numbers: Numbers,
    /// What it says beside them, in words.
    pub facts: Vec<String>,
}

impl Found {
    /// Without numbers.
    pub fn new(start: usize, framework: Framework, kind: Kind) -> Found {
        Found {
            start,
            framework,
            kind,
            numbers: Numbers::default(),
            facts: Vec::new(),
        }
    }
}

/// What a message is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A framework's allocator has no memory.
    Allocator,
    /// A CUDA error that says no more.
    ErrorCode,
    /// A library's error that often is out of memory.
    Library,
    /// vLLM: nothing is left for the KV cache.
    NoCacheBlocks,
    /// vLLM: less is free than its share.
    ShareNotFree,
    /// vLLM: one request of full length does not fit the KV cache.
    CacheTooSmall,
    /// vLLM: out of memory at the warm-up.
    WarmUp,
    /// The allocator of the host's memory has none.
    HostAllocator,
    /// The host's shared memory is full.
    SharedMemory,
    /// The kernel killed for want of memory.
    HostKill,
    /// A worker or a command was killed, which is mostly the same.
    Killed,
}

impl Kind {
    /// How much a message tells: the one that tells most is explained.
    pub fn weight(self, numbers: &Numbers) -> u32 {
        match self {
            Kind::Allocator if numbers.total_bytes.is_some() => 6,
            Kind::NoCacheBlocks | Kind::ShareNotFree | Kind::CacheTooSmall | Kind::WarmUp => 5,
            Kind::HostKill => 5,
            Kind::Allocator if numbers.requested_bytes.is_some() => 5,
            Kind::HostAllocator | Kind::SharedMemory => 4,
            Kind::Allocator | Kind::Library => 3,
            Kind::ErrorCode => 2,
            Kind::Killed => 1,
        }
    }
}

/// What a message counts. Bytes; what it does not say is null.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Numbers {
    /// The GPU, as the process counts.
    pub device: Option<u32>,
    /// Asked for.
    pub requested_bytes: Option<u64>,
    /// The GPU's size.
    pub total_bytes: Option<u64>,
    /// Free on the GPU.
    pub free_bytes: Option<u64>,
    /// This process's, all in all.
    pub process_bytes: Option<u64>,
    /// In use by tensors or arrays.
    pub allocated_bytes: Option<u64>,
    /// Of these in pools of their own (CUDA graphs).
    pub private_pool_bytes: Option<u64>,
    /// Held by the cache: in use and idle.
    pub reserved_bytes: Option<u64>,
    /// Held by the cache and idle.
    pub idle_bytes: Option<u64>,
    /// Largest idle piece, where it is told.
    pub largest_hole_bytes: Option<u64>,
    /// Of a compiled program: what it is given, what it computes with meanwhile, and what it gives back.
    pub parameter_bytes: Option<u64>,
    /// See there.
    pub temporary_bytes: Option<u64>,
    /// See there.
    pub output_bytes: Option<u64>,
    /// What the process may take.
    pub limit_bytes: Option<u64>,
    /// Other processes on the GPU.
    pub others: Vec<Other>,
}

/// Another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Other {
    /// Its number.
    pub pid: u32,
    /// What it has.
    pub bytes: u64,
}

impl Numbers {
    /// Bytes of all other processes.
    pub fn others_bytes(&self) -> u64 {
        let bytes = self.others.iter().map(|other| other.bytes);
        bytes.fold(0, u64::saturating_add)
    }

    /// Takes over what another telling of the same says beyond.
    pub fn complete(&mut self, more: &Numbers) {
        let Numbers {
            device,
            requested_bytes,
            total_bytes,
            free_bytes,
            process_bytes,
            allocated_bytes,
            private_pool_bytes,
            reserved_bytes,
            idle_bytes,
            largest_hole_bytes,
            parameter_bytes,
            temporary_bytes,
            output_bytes,
            limit_bytes,
            others,
        } = more;
        self.device = self.device.or(*device);
        for (mine, theirs) in [
            (&mut self.requested_bytes, requested_bytes),
            (&mut self.total_bytes, total_bytes),
            (&mut self.free_bytes, free_bytes),
            (&mut self.process_bytes, process_bytes),
            (&mut self.allocated_bytes, allocated_bytes),
            (&mut self.private_pool_bytes, private_pool_bytes),
            (&mut self.reserved_bytes, reserved_bytes),
            (&mut self.idle_bytes, idle_bytes),
            (&mut self.largest_hole_bytes, largest_hole_bytes),
            (&mut self.parameter_bytes, parameter_bytes),
            (&mut self.temporary_bytes, temporary_bytes),
            (&mut self.output_bytes, output_bytes),
            (&mut self.limit_bytes, limit_bytes),
        ] {
            *mine = mine.or(*theirs);
        }
        if self.others.is_empty() {
            self.others.clone_from(others);
        }
    }
}
