//! Which pool a place has: devices, the host, its nodes, and managed memory.

use super::Driver;
use super::pool::Pool;
use crate::abi::{
    ALLOCATION_MANAGED, ALLOCATION_PINNED, Handle, LOCATION_DEVICE, LOCATION_HOST,
    LOCATION_HOST_NUMA, LOCATION_NONE, Location,
};
use crate::codes::{Answer, Code, require};
use crate::ticket::Ticket;

/// The pools of a place that is no device's pinned memory.
#[derive(Debug)]
pub(super) struct Pools {
    pub(super) default: Handle,
    pub(super) current: Handle,
}

impl Driver {
    /// A place as it is kept: the host is one, whatever number is given.
    fn placed(&self, kind: i32, location: Location) -> Answer<(i32, i32, i32)> {
        let managed = kind == ALLOCATION_MANAGED;
        require(managed || kind == ALLOCATION_PINNED)?;
        let id = match location.kind {
            LOCATION_DEVICE => self.device(location.id)? as i32,
            LOCATION_HOST => 0,
            LOCATION_HOST_NUMA => location.id,
            LOCATION_NONE if managed => 0,
            _ => return Err(Code::INVALID_VALUE),
        };
        Ok((kind, location.kind, id))
    }

    fn pools_of(&mut self, kind: i32, location: Location) -> Answer<&mut Pools> {
        let key = self.placed(kind, location)?;
        if !self.places.contains_key(&key) {
            let default = self.new_handle();
            let place = Location {
                kind: key.1,
                id: key.2,
            };
            let mut pool = Pool::new(None, place);
            pool.managed = kind == ALLOCATION_MANAGED;
            self.pools.insert(default, pool);
            let current = default;
            self.places.insert(key, Pools { default, current });
        }
        self.places.get_mut(&key).ok_or(Code::INVALID_VALUE)
    }

    /// `cuMemGetDefaultMemPool`.
    pub fn default_pool_of(&mut self, location: Location, kind: i32) -> Answer<Handle> {
        if (kind, location.kind) == (ALLOCATION_PINNED, LOCATION_DEVICE) {
            return self.default_pool(location.id);
        }
        Ok(self.pools_of(kind, location)?.default)
    }

    /// `cuMemGetMemPool`.
    pub fn pool_of(&mut self, location: Location, kind: i32) -> Answer<Handle> {
        if (kind, location.kind) == (ALLOCATION_PINNED, LOCATION_DEVICE) {
            return self.device_pool(location.id);
        }
        Ok(self.pools_of(kind, location)?.current)
    }

    /// `cuMemSetMemPool`: a pool of the same place and kind.
    pub fn set_pool_of(&mut self, location: Location, kind: i32, handle: Handle) -> Answer<()> {
        if (kind, location.kind) == (ALLOCATION_PINNED, LOCATION_DEVICE) {
            return self.set_device_pool(location.id, handle);
        }
        let key = self.placed(kind, location)?;
        let pool = self.pool(handle)?;
        let (managed, place) = (pool.managed, pool.location);
        require(managed == (kind == ALLOCATION_MANAGED) && pool.foreign.is_none())?;
        require(self.placed(kind, place)? == key)?;
        self.pools_of(kind, location)?.current = handle;
        Ok(())
    }

    /// The pool that a ticket of another process describes.
    pub(super) fn add_foreign_pool(&mut self, ticket: Ticket) -> Answer<Handle> {
        let device = match ticket.location.kind {
            LOCATION_DEVICE => Some(self.device(ticket.location.id)?),
            _ => None,
        };
        let handle = self.new_handle();
        let mut pool = Pool::new(device, ticket.location);
        pool.foreign = Some((ticket.process, ticket.object));
        self.pools.insert(handle, pool);
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stream, ready};
    use super::*;
    use crate::abi::PoolProps;

    const MIB: u64 = 1 << 20;
    const HOST: Location = Location {
        kind: LOCATION_HOST,
        id: 0,
    };

    #[test]
    fn the_pool_of_a_device_is_the_same_by_both_names() {
        let (mut driver, _) = ready("2x16GiB");
        let place = Location::device(1);
        let default = driver.default_pool(1).unwrap();
        assert_eq!(
            driver.default_pool_of(place, ALLOCATION_PINNED),
            Ok(default)
        );
        let pool = driver.create_pool(PoolProps::new(place)).unwrap();
        driver.set_pool_of(place, ALLOCATION_PINNED, pool).unwrap();
        assert_eq!(driver.device_pool(1), Ok(pool));
        assert_eq!(driver.pool_of(place, ALLOCATION_PINNED), Ok(pool));
    }

    #[test]
    fn pools_of_the_host_and_of_managed_memory_take_nothing_of_a_device() {
        let (mut driver, thread) = ready("2x16GiB");
        for (place, kind, managed) in [
            (HOST, ALLOCATION_PINNED, false),
            (Location::default(), ALLOCATION_MANAGED, true),
            (Location::device(0), ALLOCATION_MANAGED, true),
        ] {
            let pool = driver.default_pool_of(place, kind).unwrap();
            assert_eq!(driver.default_pool_of(place, kind), Ok(pool));
            assert_eq!(driver.destroy_pool(pool).unwrap_err().0, 1);
            let block = driver
                .alloc_async(thread, MIB, Some(pool), Stream::LEGACY)
                .unwrap();
            let known = driver.place(block).unwrap();
            assert_eq!((known.managed, known.host), (managed, !managed));
            assert_eq!(driver.free_memory(0), 16 << 30);
            driver.free(thread, block).unwrap();
        }
        let nowhere = driver.pool_of(Location::default(), ALLOCATION_PINNED);
        assert_eq!(nowhere.unwrap_err().0, 1);
    }

    #[test]
    fn a_pool_serves_its_own_place_until_it_is_destroyed() {
        let (mut driver, _) = ready("2x16GiB");
        let default = driver.pool_of(HOST, ALLOCATION_PINNED).unwrap();
        let pool = driver.create_pool(PoolProps::new(HOST)).unwrap();
        let mut set = |place, kind| {
            let answer = driver.set_pool_of(place, kind, pool);
            crate::codes::number(&answer)
        };
        assert_eq!(set(HOST, ALLOCATION_MANAGED), 1);
        assert_eq!(set(Location::device(0), ALLOCATION_PINNED), 1);
        assert_eq!(set(HOST, ALLOCATION_PINNED), 0);
        assert_eq!(driver.pool_of(HOST, ALLOCATION_PINNED), Ok(pool));
        driver.destroy_pool(pool).unwrap();
        assert_eq!(driver.pool_of(HOST, ALLOCATION_PINNED), Ok(default));
    }
}
