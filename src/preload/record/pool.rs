//! Memory pools: which exist and where. Their figures are read when one is destroyed and at the end of the process.

use super::{Call, Recipe};
use crate::preload::devices::{self, pools};
use crate::preload::hooks::abi::{Code, LOCATION_DEVICE, Pool, PoolProperties, SUCCESS};
use crate::preload::raw::NO_DEVICE;

/// `cuMemPoolCreate`.
pub struct CreatePool {
    pool: *mut Pool,
    device: u8,
}

impl CreatePool {
    /// The pool is written to `pool`.
    pub fn new(pool: *mut Pool, properties: *const PoolProperties) -> CreatePool {
        let device = if properties.is_null() {
            NO_DEVICE
        } else {
            // SAFETY: not NULL, and the driver is about to read the same structure.
            let location = unsafe { (*properties).location };
            match location.kind {
                LOCATION_DEVICE => u8::try_from(location.id).unwrap_or(NO_DEVICE),
                _ => NO_DEVICE,
            }
        };
        CreatePool { pool, device }
    }
}

impl Recipe for CreatePool {
    fn always(&mut self, code: Code) {
        if code == SUCCESS && !self.pool.is_null() {
            // SAFETY: the driver has just written the pool, successfully.
            pools::remember(unsafe { self.pool.read() } as u64, self.device);
        }
    }
}

/// `cuMemPoolDestroy`.
pub struct DestroyPool {
    pool: u64,
}

impl DestroyPool {
    /// This pool.
    pub fn new(pool: Pool) -> DestroyPool {
        DestroyPool { pool: pool as u64 }
    }
}

impl Recipe for DestroyPool {
    fn before(&mut self, call: &Call) {
        devices::pools::send_state(call, self.pool);
    }

    fn always(&mut self, code: Code) {
        if code == SUCCESS {
            pools::forget(self.pool);
        }
    }
}
