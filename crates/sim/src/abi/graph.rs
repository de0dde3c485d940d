//! Structs of graphs.

use super::{DevicePtr, Handle, Location, PoolProps};
use std::ffi::c_int;

/// `CU_GRAPH_NODE_TYPE_KERNEL`.
pub const NODE_KERNEL: c_int = 0;
/// `CU_GRAPH_NODE_TYPE_MEMCPY`.
pub const NODE_COPY: c_int = 1;
/// `CU_GRAPH_NODE_TYPE_MEMSET`.
pub const NODE_FILL: c_int = 2;
/// `CU_GRAPH_NODE_TYPE_EMPTY`.
pub const NODE_EMPTY: c_int = 5;
/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
pub const NODE_ALLOC: c_int = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`.
pub const NODE_FREE: c_int = 11;

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocParams {
    pub pool: PoolProps,
    pub accesses: usize,
    pub access_count: usize,
    pub bytes: usize,
    /// Out.
    pub address: DevicePtr,
}

/// `CUgraphNodeParams`, as far as it is read: the union begins at byte 16.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParams {
    pub kind: c_int,
    pub reserved: [c_int; 3],
    pub alloc: AllocParams,
    pub rest: [u64; 15],
}

impl AllocParams {
    /// What a node of a device was made with.
    pub fn new(device: usize, bytes: u64, address: DevicePtr) -> AllocParams {
        AllocParams {
            pool: PoolProps::new(Location::device(device)),
            accesses: 0,
            access_count: 0,
            bytes: bytes as usize,
            address,
        }
    }
}

impl NodeParams {
    /// The address that a free node frees: it lies where an alloc node has its pool.
    pub fn freed(&self) -> DevicePtr {
        u64::from(self.alloc.pool.kind as u32) | (self.alloc.pool.handle_types as u64) << 32
    }
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstantiateParams {
    pub flags: u64,
    pub upload_stream: Handle,
    /// Out.
    pub error_node: Handle,
    /// Out: 0 for success, 1 for an error, 3 for a node that is not supported.
    pub result: c_int,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structs_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<AllocParams>(), 120);
        assert_eq!(offset_of!(AllocParams, accesses), 88);
        assert_eq!(offset_of!(AllocParams, bytes), 104);
        assert_eq!(size_of::<NodeParams>(), 256);
        assert_eq!(offset_of!(NodeParams, alloc), 16);
        assert_eq!(size_of::<InstantiateParams>(), 32);
        assert_eq!(offset_of!(InstantiateParams, result), 24);
    }
}
