//! Executable graphs, and the device memory behind the allocations of their nodes.

use super::graph::Node;
use super::pool::STEP;
use super::{Driver, Stream, Thread};
use crate::abi::graph::NODE_EMPTY;
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};
use std::collections::BTreeMap;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_*`.
const AUTO_FREE_ON_LAUNCH: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
const ALL_FLAGS: u64 = 15;

/// Memory of a device that graphs use, or keep for use.
#[derive(Debug, Default)]
pub(super) struct GraphMemory {
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
}

/// `CUgraphMem_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphAttribute {
    Used,
    UsedHigh,
    Reserved,
    ReservedHigh,
}

impl GraphAttribute {
    pub fn from_number(number: i32) -> Answer<GraphAttribute> {
        Ok(match number {
            0 => GraphAttribute::Used,
            1 => GraphAttribute::UsedHigh,
            2 => GraphAttribute::Reserved,
            3 => GraphAttribute::ReservedHigh,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

#[derive(Debug)]
pub(super) struct Exec {
    nodes: Vec<Node>,
    auto_free: bool,
    /// Memory of each device, from the first launch or upload on.
    backing: Option<BTreeMap<usize, u64>>,
    /// It lives on while something that it allocated does.
    destroyed: bool,
    /// What it takes by itself, and in which context.
    pub(super) own: Option<(Handle, u64)>,
}

impl Exec {
    fn has_memory(&self) -> bool {
        self.nodes.iter().any(Node::is_memory)
    }

    /// Addresses that it allocates.
    fn allocations(&self) -> Vec<DevicePtr> {
        let address = |node: &Node| match node {
            Node::Alloc { address, .. } => Some(*address),
            _ => None,
        };
        self.nodes.iter().filter_map(address).collect()
    }

    /// The most that is allocated at a time on each device, in whole steps.
    fn needs(&self) -> BTreeMap<usize, u64> {
        let mut present: BTreeMap<DevicePtr, (usize, u64)> = BTreeMap::new();
        let mut most: BTreeMap<usize, u64> = BTreeMap::new();
        for node in &self.nodes {
            match *node {
                Node::Alloc {
                    address,
                    device,
                    taken,
                } => {
                    present.insert(address, (device, taken));
                    let here = present.values().filter(|(at, _)| *at == device);
                    let now: u64 = here.map(|(_, taken)| taken).sum();
                    let most = most.entry(device).or_default();
                    *most = now.max(*most);
                }
                Node::Free { address } => drop(present.remove(&address)),
                Node::Other(_) => {}
            }
        }
        for bytes in most.values_mut() {
            *bytes = bytes.next_multiple_of(STEP);
        }
        most
    }
}

impl Driver {
    /// `cuGraphInstantiate` in all its forms; `stream` is where an upload is ordered.
    pub fn instantiate(
        &mut self,
        thread: Thread,
        handle: Handle,
        flags: u64,
        stream: Option<Stream>,
    ) -> Answer<Handle> {
        require(flags <= ALL_FLAGS)?;
        let launch_from_device = flags & DEVICE_LAUNCH != 0;
        require(!launch_from_device || flags & AUTO_FREE_ON_LAUNCH == 0)?;
        let graph = self.graph(handle)?;
        require(graph.capture.is_none())?;
        let (nodes, before) = (graph.nodes.iter().map(|(_, node)| *node), graph.exec);
        let mut exec = Exec {
            nodes: nodes.collect(),
            auto_free: flags & AUTO_FREE_ON_LAUNCH != 0,
            backing: None,
            destroyed: false,
            own: None,
        };
        // Its addresses can only be in use once.
        let twice = before.is_some_and(|before| self.exec(before).is_ok());
        if exec.has_memory() && (twice || launch_from_device) {
            return Err(Code::NOT_SUPPORTED);
        }
        exec.own = self.pay_for_exec(thread)?;
        for address in exec.allocations() {
            if let Some(block) = self.graph_block(address) {
                block.holders += 1;
            }
        }
        let made = self.new_handle();
        self.execs.insert(made, exec);
        self.graph(handle)?.exec = Some(made);
        if flags & UPLOAD != 0
            && let Some(stream) = stream
            && let Err(code) = self.upload(thread, made, stream)
        {
            self.destroy_exec(made)?;
            return Err(code);
        }
        Ok(made)
    }

    fn exec(&self, handle: Handle) -> Answer<&Exec> {
        let exec = self.execs.get(&handle).filter(|exec| !exec.destroyed);
        exec.ok_or(Code::INVALID_VALUE)
    }

    /// Puts memory behind what an executable graph allocates: what is idle first, then more.
    fn back(&mut self, handle: Handle) -> Answer<()> {
        let exec = self.exec(handle)?;
        if exec.backing.is_some() {
            return Ok(());
        }
        let needs = exec.needs();
        let lacks = |driver: &Driver, device: usize, bytes: u64| {
            let memory = &driver.devices[device].graphs;
            (memory.used + bytes).saturating_sub(memory.reserved)
        };
        let full = needs
            .iter()
            .any(|(&device, &bytes)| lacks(self, device, bytes) > self.free_memory(device));
        if full {
            return Err(Code::OUT_OF_MEMORY);
        }
        for (&device, &bytes) in &needs {
            let more = lacks(self, device, bytes);
            self.take(device, more)?;
            let memory = &mut self.devices[device].graphs;
            memory.reserved += more;
            memory.reserved_high = memory.reserved_high.max(memory.reserved);
            memory.used += bytes;
            memory.used_high = memory.used_high.max(memory.used);
        }
        if let Some(exec) = self.execs.get_mut(&handle) {
            exec.backing = Some(needs);
        }
        Ok(())
    }

    /// `cuGraphUpload`.
    pub fn upload(&mut self, thread: Thread, handle: Handle, stream: Stream) -> Answer<()> {
        self.exec(handle)?;
        self.idle_work(thread, stream)?;
        self.back(handle)
    }

    /// `cuGraphLaunch`. In a capture it is a node of the other graph.
    pub fn launch_graph(&mut self, thread: Thread, handle: Handle, stream: Stream) -> Answer<()> {
        let exec = self.exec(handle)?;
        let (memory, auto_free) = (exec.has_memory(), exec.auto_free);
        let (own, nodes) = (exec.allocations(), exec.nodes.clone());
        let found = self.work(thread, stream)?;
        if found.capture.is_some() {
            if memory {
                return Err(Code::NOT_SUPPORTED);
            }
            return self.enqueue(thread, stream, NODE_EMPTY);
        }
        let live = |driver: &mut Driver, address: DevicePtr| {
            let block = driver.graph_block(address);
            block.is_some_and(|block| block.live.is_some())
        };
        let mut unfreed = own.iter().filter(|&&address| live(self, address));
        require(auto_free || unfreed.next().is_none())?;
        for node in &nodes {
            if let Node::Free { address } = *node {
                require(own.contains(&address) || live(self, address))?;
            }
        }
        self.back(handle)?;
        for &address in &own {
            self.end_graph_block(address);
        }
        for node in nodes {
            match node {
                Node::Alloc { address, .. } => {
                    if let Some(block) = self.graph_block(address) {
                        block.live = Some(handle);
                    }
                }
                Node::Free { address } => self.end_graph_block(address),
                Node::Other(_) => {}
            }
        }
        Ok(())
    }

    /// Frees the address of an alloc node; whether it was allocated.
    pub(super) fn free_graph_block(&mut self, address: DevicePtr) -> Answer<()> {
        let block = self.graph_block(address).ok_or(Code::INVALID_VALUE)?;
        require(block.live.is_some())?;
        self.end_graph_block(address);
        Ok(())
    }

    fn end_graph_block(&mut self, address: DevicePtr) {
        let live = self
            .graph_block(address)
            .and_then(|block| block.live.take());
        if let Some(exec) = live {
            self.drop_graph_block_if_unused(address);
            self.drop_exec_if_unused(exec);
        }
    }

    /// `cuGraphExecDestroy`. What it allocated and nothing freed stays.
    pub fn destroy_exec(&mut self, handle: Handle) -> Answer<()> {
        self.exec(handle)?;
        self.refund_exec(handle);
        if let Some(exec) = self.execs.get_mut(&handle) {
            exec.destroyed = true;
            for node in exec.nodes.clone() {
                self.let_go(node);
            }
        }
        self.drop_exec_if_unused(handle);
        Ok(())
    }

    /// The memory of a destroyed executable graph is idle once nothing lives in it.
    fn drop_exec_if_unused(&mut self, handle: Handle) {
        let Some(exec) = self.execs.get(&handle).filter(|exec| exec.destroyed) else {
            return;
        };
        let lives = exec.allocations().into_iter().any(|address| {
            let block = self.graph_block(address);
            block.is_some_and(|block| block.live == Some(handle))
        });
        if !lives && let Some(exec) = self.execs.remove(&handle) {
            for (device, bytes) in exec.backing.unwrap_or_default() {
                self.devices[device].graphs.used -= bytes;
            }
        }
    }

    /// `cuDeviceGraphMemTrim`: gives idle memory back.
    pub fn trim_graph_memory(&mut self, thread: Thread, device: i32) -> Answer<()> {
        let device = self.device(device)?;
        self.refuse_in_capture(thread)?;
        let memory = &mut self.devices[device].graphs;
        let back = memory.reserved - memory.used;
        memory.reserved = memory.used;
        self.give(device, back);
        Ok(())
    }

    pub fn graph_attribute(&self, device: i32, attribute: GraphAttribute) -> Answer<u64> {
        let memory = &self.devices[self.device(device)?].graphs;
        Ok(match attribute {
            GraphAttribute::Used => memory.used,
            GraphAttribute::UsedHigh => memory.used_high,
            GraphAttribute::Reserved => memory.reserved,
            GraphAttribute::ReservedHigh => memory.reserved_high,
        })
    }

    /// Only high marks can be set, and only to 0, which means: to what is now.
    pub fn reset_graph_attribute(
        &mut self,
        device: i32,
        attribute: GraphAttribute,
        value: u64,
    ) -> Answer<()> {
        let device = self.device(device)?;
        require(value == 0)?;
        let memory = &mut self.devices[device].graphs;
        match attribute {
            GraphAttribute::UsedHigh => memory.used_high = memory.used,
            GraphAttribute::ReservedHigh => memory.reserved_high = memory.reserved,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
