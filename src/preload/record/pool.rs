//! Memory pools: which exist, where, and of what kind. Their figures are read when one is destroyed and at the end of the
//! process.

use super::object::{Create, Destroy};
use super::{Call, Recipe};
use crate::preload::devices::pools;
use crate::preload::hooks::abi::{Code, Location, Pool, PoolProperties, SUCCESS};
use oomhook_trace::record::Object;

/// `cuMemPoolCreate`.
pub struct CreatePool {
    pool: *mut Pool,
    kind: i32,
    location: Location,
    object: Create,
}

impl CreatePool {
    /// The pool is written to `pool`.
    pub fn new(pool: *mut Pool, properties: *const PoolProperties) -> CreatePool {
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let (kind, location) = unsafe { properties.as_ref() }
            .map_or((0, Location { kind: 0, id: 0 }), |properties| {
                (properties.kind, properties.location)
            });
        CreatePool {
            pool,
            kind,
            location,
            object: Create::new(Object::Pool, pool),
        }
    }
}

impl Recipe for CreatePool {
    fn after(&mut self, call: &Call, code: Code) {
        self.object.after(call, code);
    }

    fn always(&mut self, code: Code) {
        if code == SUCCESS && !self.pool.is_null() {
            // SAFETY: the driver has just written the pool, successfully.
            pools::remember(unsafe { self.pool.read() } as u64, self.kind, self.location);
        }
    }
}

/// `cuMemGetDefaultMemPool`, `cuMemGetMemPool`: a pool of a place that may be the host.
pub struct GetPool {
    pool: *mut Pool,
    location: *const Location,
    kind: i32,
}

impl GetPool {
    /// The pool is written to `pool`.
    pub fn new(pool: *mut Pool, location: *const Location, kind: i32) -> GetPool {
        GetPool {
            pool,
            location,
            kind,
        }
    }
}

impl Recipe for GetPool {
    fn records(&self) -> bool {
        false
    }

    fn always(&mut self, code: Code) {
        if code != SUCCESS || self.pool.is_null() {
            return;
        }
        // SAFETY: the driver has just read the location and written the pool, successfully.
        if let Some(location) = unsafe { self.location.as_ref() } {
            // SAFETY: as above.
            pools::remember(unsafe { self.pool.read() } as u64, self.kind, *location);
        }
    }
}

/// `cuMemPoolDestroy`.
pub struct DestroyPool {
    pool: u64,
    object: Destroy,
}

impl DestroyPool {
    /// This pool.
    pub fn new(pool: Pool) -> DestroyPool {
        DestroyPool {
            pool: pool as u64,
            object: Destroy::new(Object::Pool, pool as u64),
        }
    }
}

impl Recipe for DestroyPool {
    fn before(&mut self, call: &Call) {
        pools::send_state(call, self.pool);
    }

    fn after(&mut self, call: &Call, code: Code) {
        self.object.after(call, code);
    }

    fn always(&mut self, code: Code) {
        if code == SUCCESS {
            pools::forget(self.pool);
        }
    }
}
