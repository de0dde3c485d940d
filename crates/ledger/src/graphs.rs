//! Graphs: the nodes that allocate, captures that failed, and the memory that the driver keeps for graphs. A captured
//! allocation is a node, not memory; the memory comes with a launch and stays until it is trimmed, so its bytes are the
//! driver's own figure (reserved) and never a sum of nodes.

use crate::blocks::{Block, State};
use crate::ledger::Ledger;
use oomhook_trace::record::CallId;
use oomhook_trace::{Event, Space, StackId, What};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A device's memory for graphs, as last seen.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct GraphMemory {
    /// Bytes in use.
    pub used: u64,
    /// Most bytes in use.
    pub used_high: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Most bytes reserved.
    pub reserved_high: u64,
    /// The reserve as a block of the call that changed it last.
    pub(crate) block: Block,
}

/// What is known of the process's graphs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Graphs {
    /// Nodes that allocate, ever added or captured.
    pub alloc_nodes: u64,
    /// Nodes that free, likewise.
    pub free_nodes: u64,
    /// Bytes that all allocating nodes ask for.
    pub requested_bytes: u64,
    /// Captures that gave a graph.
    pub captures: u64,
    /// Captures that did not.
    pub failed_captures: u64,
    /// Launches of executable graphs.
    pub launches: u64,
    /// Who added the nodes that allocate, in order of the first one.
    pub sites: Vec<NodeSite>,
    memory: BTreeMap<u8, GraphMemory>,
    /// What nodes will give. A launch may leave it to a stream-ordered free, which is then no free of a block.
    addresses: BTreeSet<u64>,
}

/// Nodes that allocate, from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSite {
    /// Who added them; of a captured call, the stack of the capture.
    pub stack: StackId,
    /// By which call.
    pub call: CallId,
    /// On which device.
    pub device: Option<u8>,
    /// How many.
    pub nodes: u64,
    /// Bytes that they ask for.
    pub bytes: u64,
}

/// Places of nodes kept; the list is searched, so it is short.
const MOST_SITES: usize = 256;

/// Addresses of nodes kept.
const MOST_ADDRESSES: usize = 65_536;

impl Graphs {
    pub(crate) fn alloc_node(&mut self, event: &Event) {
        let What::GraphAlloc { address, bytes, .. } = event.what else {
            return;
        };
        self.alloc_nodes += 1;
        let same = |site: &NodeSite| {
            (site.stack, site.call, site.device) == (event.stack, event.call, event.device)
        };
        match self.sites.iter().position(same) {
            Some(at) => {
                let site = &mut self.sites[at];
                site.nodes += 1;
                site.bytes = site.bytes.saturating_add(bytes);
            }
            None if self.sites.len() < MOST_SITES => self.sites.push(NodeSite {
                stack: event.stack,
                call: event.call,
                device: event.device,
                nodes: 1,
                bytes,
            }),
            None => {}
        }
        self.requested_bytes = self.requested_bytes.saturating_add(bytes);
        if self.addresses.len() < MOST_ADDRESSES {
            self.addresses.insert(address);
        }
    }

    /// True if a node of a graph gives this address.
    pub(crate) fn gives(&self, address: u64) -> bool {
        self.addresses.contains(&address)
    }

    /// A device's memory for graphs, if it was ever asked for.
    #[must_use]
    pub fn memory(&self, device: u8) -> Option<&GraphMemory> {
        self.memory.get(&device)
    }

    /// Most bytes that any one device reserved.
    #[must_use]
    pub fn reserved_high(&self) -> u64 {
        self.memory
            .values()
            .map(|memory| memory.reserved_high)
            .max()
            .unwrap_or(0)
    }

    /// Bytes in use over all devices.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.memory.values().map(|memory| memory.used).sum()
    }

    /// Most bytes that any one device used.
    #[must_use]
    pub fn used_high(&self) -> u64 {
        let high = self.memory.values().map(|memory| memory.used_high);
        high.max().unwrap_or(0)
    }

    /// Reserved bytes over all devices.
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.memory.values().map(|memory| memory.reserved).sum()
    }
}

impl Ledger {
    pub(crate) fn graph_memory(&mut self, event: &Event) {
        let What::GraphMemory {
            used,
            used_high,
            reserved,
            reserved_high,
        } = event.what
        else {
            return;
        };
        let Some(device) = event.device else { return };
        let known = self.graphs.memory.get(&device).copied();
        let mut block = match known {
            Some(known) => known.block,
            None => self.graph_block(event, 0),
        };
        if block.bytes != reserved {
            if block.bytes != 0 {
                self.discharge(&block);
            }
            block = self.graph_block(event, reserved);
            if reserved != 0 {
                self.charge(&block, event.time_ns);
            }
        }
        let memory = GraphMemory {
            used,
            used_high,
            reserved,
            reserved_high,
            block,
        };
        self.graphs.memory.insert(device, memory);
    }

    fn graph_block(&mut self, event: &Event, bytes: u64) -> Block {
        Block {
            address: 0,
            bytes,
            requested: bytes,
            stream: 0,
            time_ns: event.time_ns,
            number: 0,
            row: self.row_of(event, Space::Graph, self.phases.of_thread(event.thread)),
            context: self.contexts.intern(0, event),
            generation: 0,
            space: Space::Graph,
            state: State::Live,
        }
    }
}
