//! Linear, pitched, managed and stream-ordered blocks, and how they are freed.

use super::graph::GraphBlock;
use super::{Driver, Stream, Thread};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};
use crate::os::Mapping;
use crate::ticket::Bytes;

const ALIGNMENT: u64 = 512;

/// Where a block comes from, and so how it goes back.
#[derive(Debug)]
pub(super) enum Origin {
    Linear,
    Managed {
        _memory: Mapping,
    },
    /// From a pool; a pool on the host hands out real memory.
    Pool {
        pool: Handle,
        memory: Option<Mapping>,
    },
    /// The address of a graph's node, with memory only at times.
    Graph(GraphBlock),
    /// Memory of another process, opened by a handle so many times.
    Ipc {
        bytes: Bytes,
        count: u32,
    },
    /// Memory of another process, from a pool that was imported.
    Foreign {
        pool: Handle,
    },
    /// Memory that another interface made.
    External,
    /// A variable of a module; a managed one is real.
    Global {
        memory: Option<Mapping>,
    },
}

#[derive(Debug)]
pub(super) struct Block {
    /// Bytes that were asked for.
    pub(super) length: u64,
    /// Bytes that are taken: the length rounded up.
    pub(super) taken: u64,
    pub(super) device: usize,
    pub(super) context: Handle,
    pub(super) origin: Origin,
    /// Its number for other processes, once it was exported.
    pub(super) exported: Option<u64>,
}

/// A pitched block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitched {
    pub address: DevicePtr,
    pub pitch: usize,
}

fn rounded(bytes: u64) -> Answer<u64> {
    bytes
        .checked_next_multiple_of(ALIGNMENT)
        .ok_or(Code::OUT_OF_MEMORY)
}

impl Driver {
    /// `cuMemAlloc`.
    pub fn alloc(&mut self, thread: Thread, bytes: u64) -> Answer<DevicePtr> {
        self.alloc_linear(thread, bytes, false)
    }

    /// `cuMemAlloc` of old, whose addresses have 32 bits.
    pub fn alloc_narrow(&mut self, thread: Thread, bytes: u32) -> Answer<u32> {
        let address = self.alloc_linear(thread, bytes.into(), true)?;
        u32::try_from(address).map_err(|_| Code::OUT_OF_MEMORY)
    }

    fn alloc_linear(&mut self, thread: Thread, bytes: u64, narrow: bool) -> Answer<DevicePtr> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        require(bytes > 0)?;
        let device = self.device_of(context);
        let taken = rounded(bytes)?;
        self.take(device, taken)?;
        let space = if narrow {
            &mut self.narrow
        } else {
            &mut self.wide
        };
        let Some(address) = space.take(taken, ALIGNMENT) else {
            self.give(device, taken);
            return Err(Code::OUT_OF_MEMORY);
        };
        let origin = Origin::Linear;
        self.add_block(address, bytes, device, context, origin);
        Ok(address)
    }

    /// `cuMemAllocPitch`.
    pub fn alloc_pitched(
        &mut self,
        thread: Thread,
        width: u64,
        height: u64,
        element: u32,
        narrow: bool,
    ) -> Answer<Pitched> {
        self.current(thread)?;
        require(matches!(element, 4 | 8 | 16) && width > 0 && height > 0)?;
        let pitch = rounded(width)?;
        let bytes = pitch.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        let address = self.alloc_linear(thread, bytes, narrow)?;
        let pitch = pitch as usize;
        Ok(Pitched { address, pitch })
    }

    /// `cuMemAllocManaged`: real memory, and none of the device's.
    pub fn alloc_managed(&mut self, thread: Thread, bytes: u64, flags: u32) -> Answer<DevicePtr> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        require(bytes > 0 && matches!(flags & 7, 1 | 2))?;
        let memory = Mapping::new(bytes as usize).ok_or(Code::OUT_OF_MEMORY)?;
        let address = memory.address() as u64;
        let origin = Origin::Managed { _memory: memory };
        self.add_block(address, bytes, self.device_of(context), context, origin);
        Ok(address)
    }

    /// Takes an address for so many bytes, and says how many it covers.
    pub(super) fn take_address(&mut self, bytes: u64) -> Answer<(DevicePtr, u64)> {
        require(bytes > 0)?;
        let taken = rounded(bytes)?;
        let address = self.wide.take(taken, ALIGNMENT);
        Ok((address.ok_or(Code::OUT_OF_MEMORY)?, taken))
    }

    pub(super) fn add_block(
        &mut self,
        address: DevicePtr,
        length: u64,
        device: usize,
        context: Handle,
        origin: Origin,
    ) {
        let taken = length.next_multiple_of(ALIGNMENT);
        let block = Block {
            length,
            taken,
            device,
            context,
            origin,
            exported: None,
        };
        self.blocks.insert(address, block);
    }

    /// `cuMemAllocAsync` and `cuMemAllocFromPoolAsync`; without a pool, the device's present one.
    pub fn alloc_async(
        &mut self,
        thread: Thread,
        bytes: u64,
        pool: Option<Handle>,
        stream: Stream,
    ) -> Answer<DevicePtr> {
        let work = self.work(thread, stream)?;
        require(bytes > 0)?;
        let device = self.device_of(work.context);
        let pool = pool.unwrap_or(self.devices[device].pool);
        let home = self.pool_home(pool)?;
        let at = home.unwrap_or(device);
        if let Some(capture) = work.capture {
            let graph = self.captures[&capture].graph;
            let made = self.allocate_in_graph(graph, &[], at, work.context, bytes);
            return made.map(|(_, address)| address);
        }
        let (address, origin) = self.pool_block(pool, home, bytes)?;
        self.add_block(address, bytes, at, work.context, origin);
        Ok(address)
    }

    /// Takes memory of a pool, and an address: a real one if the pool is on the host.
    fn pool_block(
        &mut self,
        pool: Handle,
        home: Option<usize>,
        bytes: u64,
    ) -> Answer<(DevicePtr, Origin)> {
        let taken = rounded(bytes)?;
        let (address, memory) = if home.is_some() {
            (self.take_address(bytes)?.0, None)
        } else {
            let memory = Mapping::new(taken as usize).ok_or(Code::OUT_OF_MEMORY)?;
            (memory.address() as u64, Some(memory))
        };
        if let Err(code) = self.grow_pool(pool, taken) {
            if memory.is_none() {
                self.give_address(address, taken);
            }
            return Err(code);
        }
        Ok((address, Origin::Pool { pool, memory }))
    }

    /// `cuMemFree`: any block by its first byte, from any thread.
    pub fn free(&mut self, thread: Thread, address: DevicePtr) -> Answer<()> {
        if address == 0 {
            return Ok(());
        }
        self.refuse_in_capture(thread)?;
        self.drop_block(address)
    }

    /// `cuMemFreeAsync`: the same in the order of a stream.
    pub fn free_async(&mut self, thread: Thread, address: DevicePtr, stream: Stream) -> Answer<()> {
        let work = self.work(thread, stream)?;
        if let Some(capture) = work.capture {
            // Only what a graph allocated can be freed in one.
            let graph = self.captures[&capture].graph;
            return self.add_free_node(graph, &[], address).map(|_| ());
        }
        self.drop_block(address)
    }

    /// Frees a block as the program asks for it.
    fn drop_block(&mut self, address: DevicePtr) -> Answer<()> {
        let block = self.blocks.get(&address).ok_or(Code::INVALID_VALUE)?;
        match block.origin {
            Origin::Graph(_) => self.free_graph_block(address)?,
            // They are closed and unloaded, not freed.
            Origin::Ipc { .. } | Origin::Global { .. } => return Err(Code::INVALID_VALUE),
            Origin::Linear
            | Origin::Managed { .. }
            | Origin::Pool { .. }
            | Origin::Foreign { .. }
            | Origin::External => self.remove_block(address),
        }
        Ok(())
    }

    /// Takes a block away, and gives what it took back.
    pub(super) fn remove_block(&mut self, address: DevicePtr) {
        let Some(block) = self.blocks.remove(&address) else {
            return;
        };
        match block.origin {
            Origin::Linear | Origin::Global { memory: None } => {
                self.give(block.device, block.taken);
                self.give_address(address, block.taken);
            }
            // Its memory goes with it.
            Origin::Managed { .. } | Origin::Global { memory: Some(_) } => {}
            Origin::Pool { pool, memory } => {
                if memory.is_none() {
                    self.give_address(address, block.taken);
                }
                self.shrink_pool(pool, block.taken);
            }
            Origin::Ipc { bytes, .. } => {
                self.opened.remove(&bytes);
                self.give_address(address, block.taken);
            }
            Origin::Graph(_) | Origin::Foreign { .. } | Origin::External => {
                self.give_address(address, block.taken);
            }
        }
    }

    pub(super) fn give_address(&mut self, address: DevicePtr, taken: u64) {
        if address <= u32::MAX.into() {
            self.narrow.give(address, taken);
        } else {
            self.wide.give(address, taken);
        }
    }

    /// Frees what a context owns: not what came from pools.
    pub(super) fn free_blocks_of(&mut self, context: Handle) {
        let owned = |block: &Block| {
            let kind = matches!(
                block.origin,
                Origin::Linear | Origin::Managed { .. } | Origin::Ipc { .. } | Origin::External
            );
            kind && block.context == context
        };
        let gone: Vec<DevicePtr> = self
            .blocks
            .iter()
            .filter(|(_, b)| owned(b))
            .map(|(&a, _)| a)
            .collect();
        for address in gone {
            self.remove_block(address);
        }
    }

    /// The block that an address lies in.
    pub(super) fn block_around(&self, address: DevicePtr) -> Option<(DevicePtr, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address - start < block.length).then_some((start, block))
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
