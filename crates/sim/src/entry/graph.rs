//! Graphs: nodes, executable graphs, and the memory that they keep.

use super::entries;
use crate::abi::graph::{
    AllocParams, InstantiateParams, NODE_ALLOC, NODE_EMPTY, NODE_FREE, NodeParams,
};
use crate::abi::{Device, DevicePtr, Handle};
use crate::codes::{Answer, Code, number, require};
use crate::gate::Call;
use crate::pointer::{In, Out, TextOut};
use crate::state::{GraphAttribute, Node};
use std::ffi::{c_int, c_void};

/// Edge data, which are not looked into.
type Ignored = *const c_void;

/// The nodes that a new one comes after.
fn list(nodes: In<Handle>, count: usize) -> Answer<Vec<Handle>> {
    let nodes: Option<Vec<_>> = (0..count).map(|index| nodes.nth(index)).collect();
    nodes.ok_or(Code::INVALID_VALUE)
}

/// A node as one of the three functions describes it that take any kind.
fn add(
    call: Call,
    out: Out<Handle>,
    graph: Handle,
    after: (In<Handle>, usize),
    params: Out<NodeParams>,
) -> c_int {
    call.give(out, |driver, _| {
        let mut asked = params.get().ok_or(Code::INVALID_VALUE)?;
        let after = list(after.0, after.1)?;
        match asked.kind {
            NODE_ALLOC => {
                let AllocParams { pool, bytes, .. } = asked.alloc;
                let made = driver.add_alloc_node(graph, &after, pool, bytes as u64)?;
                asked.alloc.address = made.1;
                params.put(asked);
                Ok(made.0)
            }
            NODE_FREE => driver.add_free_node(graph, &after, asked.freed()),
            kind => driver.add_other_node(graph, &after, kind),
        }
    })
}

fn instantiate(call: Call, out: Out<Handle>, graph: Handle, flags: u64) -> c_int {
    call.give(out, |driver, thread| {
        driver.instantiate(thread, graph, flags, None)
    })
}

/// The older form, which tells of errors in a text.
fn instantiate_with_log(
    call: Call,
    out: Out<Handle>,
    graph: Handle,
    node: Out<Handle>,
    log: (TextOut, usize),
) -> c_int {
    node.put(0);
    log.0.put("", log.1);
    instantiate(call, out, graph, 0)
}

entries! {
    "cuGraphCreate" 10000 => fn cuGraphCreate(call, out: Out<Handle>, flags: u32) {
        call.give(out, |driver, _| {
            require(flags == 0)?;
            Ok(driver.create_graph())
        })
    }
    "cuGraphDestroy" 10000 => fn cuGraphDestroy(call, graph: Handle) {
        call.act(|driver, _| driver.destroy_graph(graph))
    }
    "cuGraphAddEmptyNode" 10000 => fn cuGraphAddEmptyNode(call, out: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        call.give(out, |driver, _| driver.add_other_node(graph, &list(after, count)?, NODE_EMPTY))
    }
    "cuGraphAddMemAllocNode" 11040 => fn cuGraphAddMemAllocNode(call, out: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, params: Out<AllocParams>) {
        call.give(out, |driver, _| {
            let mut asked = params.get().ok_or(Code::INVALID_VALUE)?;
            let made = driver.add_alloc_node(graph, &list(after, count)?, asked.pool, asked.bytes as u64)?;
            asked.address = made.1;
            params.put(asked);
            Ok(made.0)
        })
    }
    "cuGraphAddMemFreeNode" 11040 => fn cuGraphAddMemFreeNode(call, out: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, address: DevicePtr) {
        call.give(out, |driver, _| driver.add_free_node(graph, &list(after, count)?, address))
    }
    "cuGraphAddNode" 12020 => fn cuGraphAddNode(call, out: Out<Handle>, graph: Handle, after: In<Handle>, count: usize, params: Out<NodeParams>) {
        add(call, out, graph, (after, count), params)
    }
    "cuGraphAddNode" 12030 => fn cuGraphAddNode_v2(call, out: Out<Handle>, graph: Handle, after: In<Handle>, _edges: Ignored, count: usize, params: Out<NodeParams>) {
        add(call, out, graph, (after, count), params)
    }
    "cuGraphAddNode" 13040 => fn cuGraphAddNode_v3(call, out: Out<Handle>, graph: Handle, after: In<Handle>, _edges: Ignored, count: usize, params: Out<NodeParams>) {
        add(call, out, graph, (after, count), params)
    }
    "cuGraphClone" 10000 => fn cuGraphClone(call, out: Out<Handle>, graph: Handle) {
        call.give(out, |driver, _| driver.clone_graph(graph))
    }
    "cuGraphGetNodes" 10000 => fn cuGraphGetNodes(call, graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        call.act(|driver, _| {
            let all = driver.graph_nodes(graph)?;
            let room = count.get().ok_or(Code::INVALID_VALUE)?;
            if nodes.is_set() {
                // What is left over of the place is zeroed.
                for index in 0..room {
                    nodes.nth(index).put(all.get(index).copied().unwrap_or(0));
                }
                count.put(room.min(all.len()));
            } else {
                count.put(all.len());
            }
            Ok(())
        })
    }
    "cuGraphNodeGetType" 10000 => fn cuGraphNodeGetType(call, node: Handle, out: Out<c_int>) {
        call.give(out, |driver, _| Ok(driver.node(node)?.kind()))
    }
    "cuGraphMemAllocNodeGetParams" 11040 => fn cuGraphMemAllocNodeGetParams(call, node: Handle, out: Out<AllocParams>) {
        call.give(out, |driver, _| match driver.node(node)? {
            Node::Alloc { address, device, .. } => Ok(AllocParams::new(device, driver.node_bytes(address), address)),
            _ => Err(Code::INVALID_VALUE),
        })
    }
    "cuGraphMemFreeNodeGetParams" 11040 => fn cuGraphMemFreeNodeGetParams(call, node: Handle, out: Out<DevicePtr>) {
        call.give(out, |driver, _| match driver.node(node)? {
            Node::Free { address } => Ok(address),
            _ => Err(Code::INVALID_VALUE),
        })
    }
    "cuGraphInstantiate" 10000 => fn cuGraphInstantiate(call, out: Out<Handle>, graph: Handle, node: Out<Handle>, log: TextOut, length: usize) {
        instantiate_with_log(call, out, graph, node, (log, length))
    }
    "cuGraphInstantiate" 11000 => fn cuGraphInstantiate_v2(call, out: Out<Handle>, graph: Handle, node: Out<Handle>, log: TextOut, length: usize) {
        instantiate_with_log(call, out, graph, node, (log, length))
    }
    "cuGraphInstantiateWithFlags" 11040 => fn cuGraphInstantiateWithFlags(call, out: Out<Handle>, graph: Handle, flags: u64) {
        instantiate(call, out, graph, flags)
    }
    "cuGraphInstantiateWithParams" 12000 / cuGraphInstantiateWithParams_ptsz 12000 => fn cuGraphInstantiateWithParams(call, out: Out<Handle>, graph: Handle, params: Out<InstantiateParams>) {
        let answer = call.run(|driver, thread| {
            require(out.is_set())?;
            let asked = params.get().ok_or(Code::INVALID_VALUE)?;
            driver.instantiate(thread, graph, asked.flags, Some(call.stream(asked.upload_stream)))
        });
        if let Some(asked) = params.get() {
            let result = match answer {
                Ok(_) => 0,
                Err(Code::NOT_SUPPORTED) => 3,
                Err(_) => 1,
            };
            params.put(InstantiateParams { error_node: 0, result, ..asked });
        }
        out.store(answer);
        number(&answer)
    }
    "cuGraphExecDestroy" 10000 => fn cuGraphExecDestroy(call, exec: Handle) {
        call.act(|driver, _| driver.destroy_exec(exec))
    }
    "cuGraphUpload" 11010 / cuGraphUpload_ptsz 11010 => fn cuGraphUpload(call, exec: Handle, stream: Handle) {
        call.act(|driver, thread| driver.upload(thread, exec, call.stream(stream)))
    }
    "cuGraphLaunch" 10000 / cuGraphLaunch_ptsz 10000 => fn cuGraphLaunch(call, exec: Handle, stream: Handle) {
        call.act(|driver, thread| driver.launch_graph(thread, exec, call.stream(stream)))
    }
    "cuDeviceGraphMemTrim" 11040 => fn cuDeviceGraphMemTrim(call, device: Device) {
        call.act(|driver, thread| driver.trim_graph_memory(thread, device))
    }
    "cuDeviceGetGraphMemAttribute" 11040 => fn cuDeviceGetGraphMemAttribute(call, device: Device, attribute: c_int, out: Out<c_void>) {
        call.give(out.typed::<u64>(), |driver, _| driver.graph_attribute(device, GraphAttribute::from_number(attribute)?))
    }
    "cuDeviceSetGraphMemAttribute" 11040 => fn cuDeviceSetGraphMemAttribute(call, device: Device, attribute: c_int, value: Out<c_void>) {
        call.act(|driver, _| {
            let value = value.typed::<u64>().get().ok_or(Code::INVALID_VALUE)?;
            driver.reset_graph_attribute(device, GraphAttribute::from_number(attribute)?, value)
        })
    }
}
