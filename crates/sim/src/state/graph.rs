//! Graphs: their nodes, and the addresses that their nodes allocate.

use super::memory::Origin;
use super::{Driver, Stream, Thread};
use crate::abi::graph::{NODE_ALLOC, NODE_EMPTY, NODE_FREE};
use crate::abi::{ALLOCATION_PINNED, DevicePtr, Handle, LOCATION_DEVICE, PoolProps};
use crate::codes::{Answer, Code, require};

/// What a node does, as far as memory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Alloc {
        address: DevicePtr,
        device: usize,
        taken: u64,
    },
    Free {
        address: DevicePtr,
    },
    /// Anything else, by the number of its type.
    Other(i32),
}

impl Node {
    pub(super) fn is_memory(&self) -> bool {
        !matches!(self, Node::Other(_))
    }

    /// `CUgraphNodeType`.
    pub fn kind(&self) -> i32 {
        match self {
            Node::Alloc { .. } => NODE_ALLOC,
            Node::Free { .. } => NODE_FREE,
            Node::Other(kind) => *kind,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    /// In the order in which they were added, which no dependency runs against.
    pub(super) nodes: Vec<(Handle, Node)>,
    /// The capture that adds to it.
    pub(super) capture: Option<u64>,
    /// The executable graph made of it last.
    pub(super) exec: Option<Handle>,
}

/// The address of an alloc node: fixed for ever, and with memory from a launch until a free.
#[derive(Debug)]
pub(super) struct GraphBlock {
    pub(super) graph: Handle,
    /// Graphs and executable graphs that have the node.
    pub(super) holders: u32,
    /// Graphs that free it.
    freed_by: Vec<Handle>,
    /// The executable graph that allocated it, while it is allocated.
    pub(super) live: Option<Handle>,
}

impl Driver {
    pub fn create_graph(&mut self) -> Handle {
        let handle = self.new_handle();
        self.graphs.insert(handle, Graph::default());
        handle
    }

    pub(super) fn graph(&mut self, handle: Handle) -> Answer<&mut Graph> {
        self.graphs.get_mut(&handle).ok_or(Code::INVALID_VALUE)
    }

    pub fn destroy_graph(&mut self, handle: Handle) -> Answer<()> {
        require(self.graph(handle)?.capture.is_none())?;
        self.drop_graph(handle);
        Ok(())
    }

    pub(super) fn drop_graph(&mut self, handle: Handle) {
        for (_, node) in self.graphs.remove(&handle).unwrap_or_default().nodes {
            self.let_go(node);
        }
    }

    /// One graph less has a node; an address that nothing holds and that is free may come again.
    pub(super) fn let_go(&mut self, node: Node) {
        if let Node::Alloc { address, .. } = node {
            if let Some(block) = self.graph_block(address) {
                block.holders -= 1;
            }
            self.drop_graph_block_if_unused(address);
        }
    }

    pub(super) fn graph_block(&mut self, address: DevicePtr) -> Option<&mut GraphBlock> {
        match &mut self.blocks.get_mut(&address)?.origin {
            Origin::Graph(block) => Some(block),
            _ => None,
        }
    }

    pub(super) fn drop_graph_block_if_unused(&mut self, address: DevicePtr) {
        let unused = |block: &mut GraphBlock| block.holders == 0 && block.live.is_none();
        if self.graph_block(address).is_some_and(unused)
            && let Some(block) = self.blocks.remove(&address)
        {
            self.give_address(address, block.taken);
        }
    }

    /// Adds a node behind others of the same graph.
    pub(super) fn add_node(
        &mut self,
        handle: Handle,
        after: &[Handle],
        node: Node,
    ) -> Answer<Handle> {
        let made = self.new_handle();
        let graph = self.graph(handle)?;
        let known = |node: &Handle| graph.nodes.iter().any(|(handle, _)| handle == node);
        require(after.iter().all(known))?;
        graph.nodes.push((made, node));
        Ok(made)
    }

    /// A node that neither allocates nor frees.
    pub fn add_other_node(&mut self, graph: Handle, after: &[Handle], kind: i32) -> Answer<Handle> {
        require((0..=NODE_EMPTY).contains(&kind))?;
        self.add_node(graph, after, Node::Other(kind))
    }

    /// `cuGraphAddMemAllocNode`: the node and its address. Memory that is shared has no place in it.
    pub fn add_alloc_node(
        &mut self,
        graph: Handle,
        after: &[Handle],
        pool: PoolProps,
        bytes: u64,
    ) -> Answer<(Handle, DevicePtr)> {
        require(pool.kind == ALLOCATION_PINNED && pool.handle_types == 0)?;
        require(pool.location.kind == LOCATION_DEVICE)?;
        let device = self.device(pool.location.id)?;
        self.allocate_in_graph(graph, after, device, 0, bytes)
    }

    pub(super) fn allocate_in_graph(
        &mut self,
        graph: Handle,
        after: &[Handle],
        device: usize,
        context: Handle,
        bytes: u64,
    ) -> Answer<(Handle, DevicePtr)> {
        self.graph(graph)?;
        let (address, taken) = self.take_address(bytes)?;
        let node = Node::Alloc {
            address,
            device,
            taken,
        };
        match self.add_node(graph, after, node) {
            Ok(made) => {
                let origin = Origin::Graph(GraphBlock {
                    graph,
                    holders: 1,
                    freed_by: Vec::new(),
                    live: None,
                });
                self.add_block(address, bytes, device, context, origin);
                Ok((made, address))
            }
            Err(code) => {
                self.give_address(address, taken);
                Err(code)
            }
        }
    }

    /// `cuGraphAddMemFreeNode`: frees what an alloc node allocated. Its own graph frees it or
    /// others do, and each at most once.
    pub fn add_free_node(
        &mut self,
        graph: Handle,
        after: &[Handle],
        address: DevicePtr,
    ) -> Answer<Handle> {
        self.graph(graph)?;
        let block = self.graph_block(address).ok_or(Code::INVALID_VALUE)?;
        let own = block.graph;
        require(!block.freed_by.contains(&graph) && !block.freed_by.contains(&own))?;
        require(graph != own || block.freed_by.is_empty())?;
        let node = self.add_node(graph, after, Node::Free { address })?;
        if let Some(block) = self.graph_block(address) {
            block.freed_by.push(graph);
        }
        Ok(node)
    }

    /// `cuGraphClone`: not of a graph whose addresses can be only its own.
    pub fn clone_graph(&mut self, handle: Handle) -> Answer<Handle> {
        let nodes: Vec<Node> = self.graph(handle)?.nodes.iter().map(|n| n.1).collect();
        if nodes.iter().any(Node::is_memory) {
            return Err(Code::NOT_SUPPORTED);
        }
        let clone = self.create_graph();
        for node in nodes {
            self.add_node(clone, &[], node)?;
        }
        Ok(clone)
    }

    /// Nodes of a graph.
    pub fn graph_nodes(&mut self, graph: Handle) -> Answer<Vec<Handle>> {
        let nodes = self.graph(graph)?.nodes.iter();
        Ok(nodes.map(|(handle, _)| *handle).collect())
    }

    /// What a node does.
    pub fn node(&self, handle: Handle) -> Answer<Node> {
        let mut nodes = self.graphs.values().flat_map(|graph| &graph.nodes);
        let found = nodes.find(|(node, _)| *node == handle);
        found.map(|(_, node)| *node).ok_or(Code::INVALID_VALUE)
    }

    /// The bytes that an alloc node was asked for.
    pub fn node_bytes(&self, address: DevicePtr) -> u64 {
        self.blocks.get(&address).map_or(0, |block| block.length)
    }

    /// Puts work that allocates nothing into a stream; a capture makes a node of it.
    pub fn enqueue(&mut self, thread: Thread, stream: Stream, kind: i32) -> Answer<()> {
        let found = self.work(thread, stream)?;
        if let Some(capture) = found.capture {
            let graph = self.captures[&capture].graph;
            self.add_node(graph, &[], Node::Other(kind))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
