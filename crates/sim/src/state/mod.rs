//! The driver as plain data: what exists, and what each call does to it. Nothing here knows of C.

mod address;
mod array;
mod capture;
mod census;
mod context;
mod device;
mod exec;
mod external;
mod graph;
mod hidden;
mod host;
mod ipc;
mod location_pool;
mod memory;
mod module;
mod multicast;
mod object;
mod pointers;
mod pool;
mod shape;
mod share;
mod stream;
mod vmm;

pub use capture::{Info as CaptureInfo, Mode};
pub use census::{Memory as DeviceMemory, User};
pub use exec::GraphAttribute;
pub use graph::Node;
pub use memory::Pitched;
pub use object::Resource;
pub use pointers::{Place, Side};
pub use pool::Attribute as PoolAttribute;
pub use stream::Stream;
pub use vmm::GRANULARITY;

use crate::abi::{DevicePtr, Handle};
use crate::neighbours::Neighbour;
use crate::settings::Settings;
use crate::ticket::Bytes;
use address::AddressSpace;
use std::collections::{BTreeMap, BTreeSet};

/// The number of a thread of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread(pub u64);

/// What the driver keeps for each thread.
#[derive(Debug, Default)]
struct ThreadState {
    /// Current context last.
    contexts: Vec<Handle>,
    mode: Mode,
    /// The per-thread default stream of each context.
    streams: BTreeMap<Handle, Handle>,
}

/// The whole driver.
#[derive(Debug)]
pub struct Driver {
    pub version: i32,
    /// The number of the process, where it is not the real one.
    process: Option<u32>,
    /// The number by which NVML lists it, where it is another one.
    listed_as: Option<u32>,
    context_cost: u64,
    module_cost: u64,
    /// Device memory for each byte of stack beyond what a context has.
    stack_cost: u64,
    hidden: hidden::Costs,
    neighbours: Vec<Neighbour>,
    growth: u64,
    tells_processes: bool,
    pub mig: bool,
    pub compute_mode: u32,
    last_handle: Handle,
    devices: Vec<device::Device>,
    threads: BTreeMap<Thread, ThreadState>,
    contexts: BTreeMap<Handle, context::Context>,
    blocks: BTreeMap<DevicePtr, memory::Block>,
    arrays: BTreeMap<Handle, array::Array>,
    /// Addresses of handles of other processes.
    opened: BTreeMap<Bytes, DevicePtr>,
    externals: BTreeMap<Handle, external::External>,
    host: BTreeMap<usize, host::Pinned>,
    pools: BTreeMap<Handle, pool::Pool>,
    /// Pools of places that are no device, and of managed memory.
    places: BTreeMap<(i32, i32, i32), location_pool::Pools>,
    streams: BTreeMap<Handle, stream::StreamState>,
    events: BTreeMap<Handle, stream::Event>,
    captures: BTreeMap<u64, capture::Capture>,
    graphs: BTreeMap<Handle, graph::Graph>,
    execs: BTreeMap<Handle, exec::Exec>,
    modules: BTreeMap<Handle, module::Module>,
    objects: BTreeMap<u64, object::Object>,
    resource_descs: BTreeSet<Handle>,
    /// Green contexts and their devices.
    greens: BTreeMap<Handle, i32>,
    physical: BTreeMap<u64, vmm::Physical>,
    reservations: BTreeMap<DevicePtr, u64>,
    mappings: BTreeMap<DevicePtr, vmm::Mapping>,
    /// Addresses of device memory, of the 32-bit functions, and of reserved ranges.
    wide: AddressSpace,
    narrow: AddressSpace,
    ranges: AddressSpace,
}

impl Driver {
    pub fn new(settings: &Settings) -> Driver {
        let mut driver = Driver {
            version: settings.version,
            process: None,
            listed_as: settings.process,
            context_cost: settings.context,
            module_cost: settings.module,
            stack_cost: settings.stack,
            hidden: hidden::Costs::new(settings),
            neighbours: settings.neighbours.clone(),
            growth: settings.growth,
            tells_processes: settings.tells_processes,
            mig: settings.mig,
            compute_mode: settings.compute_mode,
            last_handle: 0x5100_0000_0000,
            devices: Vec::new(),
            threads: BTreeMap::new(),
            contexts: BTreeMap::new(),
            blocks: BTreeMap::new(),
            arrays: BTreeMap::new(),
            opened: BTreeMap::new(),
            externals: BTreeMap::new(),
            host: BTreeMap::new(),
            pools: BTreeMap::new(),
            places: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: BTreeMap::new(),
            graphs: BTreeMap::new(),
            execs: BTreeMap::new(),
            modules: BTreeMap::new(),
            objects: BTreeMap::new(),
            resource_descs: BTreeSet::new(),
            greens: BTreeMap::new(),
            physical: BTreeMap::new(),
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
            wide: AddressSpace::new(0x3000_0000_0000, 0x3800_0000_0000),
            narrow: AddressSpace::new(0x4000_0000, 0xF000_0000),
            ranges: AddressSpace::new(0x3800_0000_0000, 0x4000_0000_0000),
        };
        for ordinal in 0..settings.devices {
            driver.add_device(ordinal, settings);
        }
        driver
    }

    /// A handle that nothing else has or had.
    fn new_handle(&mut self) -> Handle {
        self.last_handle += 0x40;
        self.last_handle
    }

    fn thread(&mut self, thread: Thread) -> &mut ThreadState {
        self.threads.entry(thread).or_default()
    }
}

/// A driver with a current context, for tests.
#[cfg(test)]
fn ready(text: &str) -> (Driver, Thread) {
    let variable = |name: &str| (name == "OOMHOOK_SIM").then(|| text.to_owned());
    let settings = Settings::read(variable, |complaint| panic!("{complaint}"));
    let mut driver = Driver::new(&settings);
    let thread = Thread(1);
    let context = driver.retain_primary(0).unwrap();
    driver.set_current(thread, context).unwrap();
    (driver, thread)
}
