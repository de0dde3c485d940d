//! Memory pools: which exist, where, of what kind, and what is done with them. Their figures are read when one is trimmed or
//! destroyed, and at the end of the process.

use super::object::Create;
use super::{Call, Recipe};
use crate::preload::devices::pools;
use crate::preload::hooks::abi::{Code, DeviceOrdinal, Location, Pool, PoolProperties, SUCCESS};
use crate::preload::raw::{Kind, NO_DEVICE, Raw};
use oomhook_trace::record::{DeedKind, Object};
use std::ffi::{c_int, c_void};

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
            object: Create::new(Object::Pool, pool).on(pools::device_at(location)),
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

/// `cuMemPoolImportFromShareableHandle`: a pool of another process.
pub struct ImportPool {
    pool: *mut Pool,
    object: Create,
}

impl ImportPool {
    /// The pool is written to `pool`.
    pub fn new(pool: *mut Pool) -> ImportPool {
        ImportPool {
            pool,
            object: Create::new(Object::Pool, pool),
        }
    }
}

impl Recipe for ImportPool {
    fn after(&mut self, call: &Call, code: Code) {
        self.object.after(call, code);
        if code == SUCCESS && !self.pool.is_null() {
            // SAFETY: the driver has just written the pool, successfully.
            let pool = unsafe { self.pool.read() } as u64;
            call.send(pools::deed(DeedKind::ImportedPool, pool, NO_DEVICE));
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
        pools::send_new_state(call, self.pool);
    }

    /// With the stack: blocks may be left of it.
    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS {
            call.send_here(Raw {
                a: self.pool,
                space: Object::Pool as u8,
                ..Raw::new(Kind::Destroyed)
            });
        }
    }

    fn always(&mut self, code: Code) {
        if code == SUCCESS {
            pools::forget(self.pool);
        }
    }
}

/// `cuMemPoolTrimTo`: the pool's reserve is looked at on both sides, so that what went back is known.
pub struct TrimPool {
    pool: u64,
    keep: u64,
    before: Option<u64>,
}

impl TrimPool {
    /// This pool is to keep so much.
    pub fn new(pool: Pool, keep: usize) -> TrimPool {
        TrimPool {
            pool: pool as u64,
            keep: keep as u64,
            before: None,
        }
    }
}

impl Recipe for TrimPool {
    fn before(&mut self, _call: &Call) {
        self.before = pools::reserved(self.pool);
    }

    fn after(&mut self, call: &Call, code: Code) {
        if code != SUCCESS {
            return;
        }
        let after = pools::reserved(self.pool);
        let back = self.before.zip(after);
        let back = back.map(|(before, after)| before.saturating_sub(after));
        let device = pools::device_of(self.pool);
        call.send_here(Raw {
            b: self.keep,
            c: back.map_or(0, |back| back + 1),
            ..pools::deed(DeedKind::Trim, self.pool, device)
        });
        pools::send_new_state(call, self.pool);
    }
}

/// `cuMemPoolSetAttribute`: only the release threshold is of interest.
pub struct SetPoolAttribute {
    pool: u64,
    attribute: c_int,
    value: *const c_void,
}

impl SetPoolAttribute {
    /// The value is read from `value`.
    pub fn new(pool: Pool, attribute: c_int, value: *const c_void) -> SetPoolAttribute {
        SetPoolAttribute {
            pool: pool as u64,
            attribute,
            value,
        }
    }
}

impl Recipe for SetPoolAttribute {
    fn after(&mut self, call: &Call, code: Code) {
        /// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`.
        const RELEASE_THRESHOLD: c_int = 4;
        if code == SUCCESS && self.attribute == RELEASE_THRESHOLD && !self.value.is_null() {
            // SAFETY: the driver has just read 8 bytes there, successfully.
            let threshold = unsafe { self.value.cast::<u64>().read_unaligned() };
            let device = pools::device_of(self.pool);
            call.send_here(Raw {
                b: threshold,
                ..pools::deed(DeedKind::Threshold, self.pool, device)
            });
        }
    }
}

/// `cuDeviceSetMemPool`, `cuMemSetMemPool`: where memory comes from when no pool is named.
pub struct SetPool {
    pool: u64,
    device: u8,
}

impl SetPool {
    /// Of a device.
    pub fn of_device(device: DeviceOrdinal, pool: Pool) -> SetPool {
        SetPool {
            pool: pool as u64,
            device: u8::try_from(device).unwrap_or(NO_DEVICE),
        }
    }

    /// Of a place; only a device's ordinary memory is allocated without naming a pool.
    pub fn of_place(location: *const Location, kind: i32, pool: Pool) -> SetPool {
        /// `CU_MEM_ALLOCATION_TYPE_PINNED`.
        const PINNED: i32 = 1;
        // SAFETY: the driver is about to read the same structure, if it is not NULL.
        let location = unsafe { location.as_ref() }.filter(|_| kind == PINNED);
        SetPool {
            pool: pool as u64,
            device: location.map_or(NO_DEVICE, |location| pools::device_at(*location)),
        }
    }
}

impl Recipe for SetPool {
    fn after(&mut self, call: &Call, code: Code) {
        if code == SUCCESS && self.device != NO_DEVICE {
            pools::introduce(call, self.device);
            call.send(pools::deed(DeedKind::CurrentPool, self.pool, self.device));
        }
    }
}
