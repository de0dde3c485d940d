//! Graphs: nodes that allocate and free, and what the driver keeps for them.

use super::{Call, Recipe, failure};
use crate::preload::captures::{self, graphs};
use crate::preload::costs;
use crate::preload::devices;
use crate::preload::hooks::abi::{Code, DeviceOrdinal, OUT_OF_MEMORY, SUCCESS};
use crate::preload::pretend::Ask;
use crate::preload::raw::{Kind, NO_DEVICE, Raw};
use oomhook_trace::record::CostKind;
use std::ffi::c_void;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, 120 bytes; the last two fields are what matters.
#[repr(C)]
pub struct AllocParameters {
    pool: [u8; 88],
    access: *const c_void,
    access_count: usize,
    bytes: usize,
    pointer: u64,
}

/// `CUgraphNodeParams`, 256 bytes: a kind, and a union from byte 16 on.
#[repr(C)]
pub struct NodeParameters {
    kind: i32,
    reserved: [i32; 3],
    union: [u64; 29],
    reserved2: i64,
}

const _: () = assert!(size_of::<AllocParameters>() == 120 && size_of::<NodeParameters>() == 256);

/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC` and `…_MEM_FREE`.
const ALLOC_NODE: i32 = 10;
const FREE_NODE: i32 = 11;

/// Sends a node that allocates.
pub fn send_alloc(call: &Call, address: u64, bytes: u64, captured: bool) {
    graphs::has_memory_nodes();
    let device = devices::current(call).device;
    let raw = Raw {
        a: address,
        b: bytes,
        c: u64::from(captured),
        ..Raw::new(Kind::GraphAlloc)
    };
    call.send_here(Raw { device, ..raw });
}

/// Sends a node that frees.
pub fn send_free(call: &Call, address: u64, captured: bool) {
    call.send_here(Raw {
        a: address,
        c: u64::from(captured),
        ..Raw::new(Kind::GraphFree)
    });
}

/// `cuGraphAddMemAllocNode`.
pub struct AddAllocNode {
    parameters: *const AllocParameters,
}

impl AddAllocNode {
    /// The address is written into `parameters`.
    pub fn new(parameters: *const AllocParameters) -> AddAllocNode {
        AddAllocNode { parameters }
    }
}

impl Recipe for AddAllocNode {
    fn starts(&self) -> bool {
        true
    }

    /// The memory comes when the graph is launched.
    fn asks(&self) -> Option<Ask> {
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let parameters = unsafe { self.parameters.as_ref() }?;
        (parameters.bytes != 0).then(Ask::unlimited)
    }

    fn after(&mut self, call: &Call, code: Code) {
        // SAFETY: the driver has just read and written the same structure, if it is not NULL.
        let Some(parameters) = (unsafe { self.parameters.as_ref() }) else {
            return;
        };
        match code {
            SUCCESS => send_alloc(call, parameters.pointer, parameters.bytes as u64, false),
            OUT_OF_MEMORY => failure::record(call, None, Some(parameters.bytes as u64), code),
            _ => {}
        }
    }
}

/// `cuGraphAddMemFreeNode`.
pub struct AddFreeNode {
    pointer: u64,
}

impl AddFreeNode {
    /// What the node will free.
    pub fn new(pointer: u64) -> AddFreeNode {
        AddFreeNode { pointer }
    }
}

impl Recipe for AddFreeNode {
    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            send_free(call, self.pointer, false);
        }
    }
}

/// `cuGraphAddNode`: any kind of node.
pub struct AddNode {
    parameters: *const NodeParameters,
}

impl AddNode {
    /// The node's description; for an allocation the address is written into it.
    pub fn new(parameters: *const NodeParameters) -> AddNode {
        AddNode { parameters }
    }
}

impl Recipe for AddNode {
    /// As for `AddAllocNode`.
    fn asks(&self) -> Option<Ask> {
        // SAFETY: as there.
        let parameters = unsafe { self.parameters.as_ref() }?;
        (parameters.kind == ALLOC_NODE && parameters.union[13] != 0).then(Ask::unlimited)
    }

    fn after(&mut self, call: &Call, code: Code) {
        // SAFETY: as for `AddAllocNode`.
        let Some(parameters) = (unsafe { self.parameters.as_ref() }) else {
            return;
        };
        // Inside the union: the allocation's bytes at 120 - 16 and its address at 128 - 16, the free's address at 0.
        match (parameters.kind, code) {
            (ALLOC_NODE, SUCCESS) => {
                send_alloc(call, parameters.union[14], parameters.union[13], false)
            }
            (ALLOC_NODE, OUT_OF_MEMORY) => {
                failure::record(call, None, Some(parameters.union[13]), code)
            }
            (FREE_NODE, SUCCESS) => send_free(call, parameters.union[0], false),
            _ => {}
        }
    }
}

/// A call after which the driver may hold more or less memory for graphs: a launch, the end of an executable graph.
pub struct ChangesMemory {
    /// The device that the call names; otherwise the current one.
    device: Option<DeviceOrdinal>,
    /// The executable graph that is launched.
    exec: u64,
}

impl ChangesMemory {
    /// On the current device.
    pub fn here() -> ChangesMemory {
        ChangesMemory {
            device: None,
            exec: 0,
        }
    }

    /// `cuGraphLaunch`, `cuGraphUpload`: the first one brings what the executable graph needs.
    pub fn launching(exec: *mut c_void) -> ChangesMemory {
        ChangesMemory {
            device: None,
            exec: exec as u64,
        }
    }

    /// `cuDeviceGraphMemTrim`.
    pub fn on(device: DeviceOrdinal) -> ChangesMemory {
        ChangesMemory {
            device: Some(device),
            exec: 0,
        }
    }
}

impl Recipe for ChangesMemory {
    fn cost(&self) -> Option<CostKind> {
        (self.exec != 0 && !captures::any() && !costs::was_launched(self.exec))
            .then_some(CostKind::GraphExec)
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == OUT_OF_MEMORY {
            return failure::record(call, None, None, code);
        }
        if code == SUCCESS && self.exec != 0 && !captures::any() {
            costs::launched(self.exec);
        }
        let device = match self.device {
            Some(device) => u8::try_from(device).unwrap_or(NO_DEVICE),
            None if graphs::have_memory_nodes() => devices::current(call).device,
            None => return,
        };
        graphs::send_memory(call, device);
    }
}

/// `cuGraphLaunch`: counted, and its memory looked at.
pub struct LaunchGraph {
    memory: ChangesMemory,
}

impl LaunchGraph {
    /// This executable graph.
    pub fn new(exec: *mut c_void) -> LaunchGraph {
        LaunchGraph {
            memory: ChangesMemory::launching(exec),
        }
    }
}

impl Recipe for LaunchGraph {
    fn cost(&self) -> Option<CostKind> {
        self.memory.cost()
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            graphs::launched();
        }
        self.memory.after(call, code);
    }
}

/// `cuGraphExecDestroy`: an object that goes, and with it perhaps memory.
pub struct DestroyExec {
    object: super::object::Destroy,
    memory: ChangesMemory,
}

impl DestroyExec {
    /// This executable graph.
    pub fn new(handle: *mut c_void) -> DestroyExec {
        let object =
            super::object::Destroy::new(oomhook_trace::record::Object::GraphExec, handle as u64);
        DestroyExec {
            object,
            memory: ChangesMemory::here(),
        }
    }
}

impl Recipe for DestroyExec {
    fn cost(&self) -> Option<CostKind> {
        self.object.cost()
    }

    fn after(&mut self, call: &Call, code: Code) {
        self.object.after(call, code);
        if code == SUCCESS {
            // The handle may come again.
            costs::forget_launch(self.object.handle());
        }
        self.memory.after(call, code);
    }
}
