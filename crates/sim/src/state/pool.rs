//! Memory pools: what is in use, what is kept in reserve, and when the reserve goes back.

use super::{Driver, Thread};
use crate::abi::{
    ACCESS_READ_WRITE, ALLOCATION_MANAGED, ALLOCATION_PINNED, Handle, LOCATION_DEVICE,
    LOCATION_HOST, LOCATION_HOST_NUMA_CURRENT, LOCATION_NONE, Location, PoolProps,
};
use crate::codes::{Answer, Code, require};
use std::collections::BTreeMap;

/// A pool grows and shrinks by this; so does the memory of graphs.
pub(super) const STEP: u64 = 32 << 20;

/// `CUmemPool_attribute`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// 1 to 3: reuse policies, a 32-bit flag each.
    Reuse(usize),
    Threshold,
    Reserved,
    ReservedHigh,
    Used,
    UsedHigh,
}

impl Attribute {
    pub fn from_number(number: i32) -> Answer<Attribute> {
        Ok(match number {
            1..=3 => Attribute::Reuse(number as usize - 1),
            4 => Attribute::Threshold,
            5 => Attribute::Reserved,
            6 => Attribute::ReservedHigh,
            7 => Attribute::Used,
            8 => Attribute::UsedHigh,
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

#[derive(Debug)]
pub(super) struct Pool {
    /// `None`: on the host, or managed.
    pub(super) device: Option<usize>,
    pub(super) managed: bool,
    pub(super) location: Location,
    /// 0: no bound.
    pub(super) max: u64,
    /// Types of handles by which other processes may import it.
    pub(super) handle_types: u32,
    /// Whose it is, if it was imported: process and pool.
    pub(super) foreign: Option<(u32, u64)>,
    threshold: u64,
    reserved: u64,
    reserved_high: u64,
    used: u64,
    used_high: u64,
    reuse: [u64; 3],
    access: BTreeMap<(i32, i32), i32>,
    destroyed: bool,
}

impl Pool {
    pub(super) fn new(device: Option<usize>, location: Location) -> Pool {
        Pool {
            device,
            managed: false,
            location,
            max: 0,
            handle_types: 0,
            foreign: None,
            threshold: 0,
            reserved: 0,
            reserved_high: 0,
            used: 0,
            used_high: 0,
            reuse: [1; 3],
            access: BTreeMap::new(),
            destroyed: false,
        }
    }

    /// Cuts the reserve to what is needed or `keep`, and says how much goes back.
    fn trim(&mut self, keep: u64) -> u64 {
        let needed = self.used.next_multiple_of(STEP);
        let kept = self.reserved.min(keep / STEP * STEP).max(needed);
        let back = self.reserved - kept;
        self.reserved = kept;
        back
    }
}

impl Driver {
    pub(super) fn add_default_pool(&mut self, device: usize) -> Handle {
        let handle = self.new_handle();
        let pool = Pool::new(Some(device), Location::device(device));
        self.pools.insert(handle, pool);
        handle
    }

    pub(super) fn pool(&mut self, handle: Handle) -> Answer<&mut Pool> {
        let pool = self.pools.get_mut(&handle).filter(|pool| !pool.destroyed);
        pool.ok_or(Code::INVALID_VALUE)
    }

    /// The device whose memory a pool gives; `None` for the host's.
    pub(super) fn pool_home(&mut self, handle: Handle) -> Answer<Option<usize>> {
        Ok(self.pool(handle)?.device)
    }

    pub fn create_pool(&mut self, props: PoolProps) -> Answer<Handle> {
        let managed = props.kind == ALLOCATION_MANAGED;
        require(managed || props.kind == ALLOCATION_PINNED)?;
        let device = match props.location.kind {
            LOCATION_DEVICE => Some(self.device(props.location.id)?),
            LOCATION_HOST..=LOCATION_HOST_NUMA_CURRENT => None,
            LOCATION_NONE if managed => None,
            _ => return Err(Code::INVALID_VALUE),
        };
        let handle = self.new_handle();
        let pool = Pool {
            managed,
            max: props.max_size as u64,
            handle_types: props.handle_types as u32,
            ..Pool::new(device.filter(|_| !managed), props.location)
        };
        self.pools.insert(handle, pool);
        Ok(handle)
    }

    /// The pool goes with its last block; the device's default pool stays.
    pub fn destroy_pool(&mut self, handle: Handle) -> Answer<()> {
        let mut devices = self.devices.iter();
        require(devices.all(|device| device.default_pool != handle))?;
        require(self.places.values().all(|place| place.default != handle))?;
        self.pool(handle)?.destroyed = true;
        for place in self.places.values_mut() {
            if place.current == handle {
                place.current = place.default;
            }
        }
        for device in &mut self.devices {
            if device.pool == handle {
                device.pool = device.default_pool;
            }
        }
        self.drop_pool_if_empty(handle);
        Ok(())
    }

    fn drop_pool_if_empty(&mut self, handle: Handle) {
        let empty = |pool: &Pool| pool.destroyed && pool.used == 0;
        if self.pools.get(&handle).is_some_and(empty)
            && let Some(pool) = self.pools.remove(&handle)
            && let Some(device) = pool.device
        {
            self.give(device, pool.reserved);
        }
    }

    pub(super) fn grow_pool(&mut self, handle: Handle, bytes: u64) -> Answer<()> {
        let pool = self.pool(handle)?;
        require(pool.foreign.is_none())?;
        let used = pool.used.checked_add(bytes).ok_or(Code::OUT_OF_MEMORY)?;
        let reserved = used
            .checked_next_multiple_of(STEP)
            .ok_or(Code::OUT_OF_MEMORY)?;
        if pool.max > 0 && used > pool.max {
            return Err(Code::OUT_OF_MEMORY);
        }
        let (device, more) = (pool.device, reserved.saturating_sub(pool.reserved));
        if let Some(device) = device {
            self.take(device, more)?;
        }
        let pool = self.pool(handle)?;
        pool.used = used;
        pool.used_high = pool.used_high.max(used);
        pool.reserved += more;
        pool.reserved_high = pool.reserved_high.max(pool.reserved);
        Ok(())
    }

    pub(super) fn shrink_pool(&mut self, handle: Handle, bytes: u64) {
        if let Some(pool) = self.pools.get_mut(&handle) {
            pool.used -= bytes;
        }
        self.drop_pool_if_empty(handle);
    }

    /// After a wait for a stream, event or context: reserve above the threshold goes back.
    pub(super) fn trim_after_wait(&mut self, device: usize) {
        let mut back = 0;
        for pool in self.pools.values_mut() {
            if pool.device == Some(device) {
                back += pool.trim(pool.threshold);
            }
        }
        self.give(device, back);
    }

    pub fn trim_pool(&mut self, thread: Thread, handle: Handle, keep: u64) -> Answer<()> {
        self.pool(handle)?;
        self.refuse_in_capture(thread)?;
        let pool = self.pool(handle)?;
        let (device, back) = (pool.device, pool.trim(keep));
        if let Some(device) = device {
            self.give(device, back);
        }
        Ok(())
    }

    pub fn pool_attribute(
        &mut self,
        thread: Thread,
        handle: Handle,
        attribute: Attribute,
    ) -> Answer<u64> {
        self.pool(handle)?;
        self.refuse_in_capture(thread)?;
        let pool = self.pool(handle)?;
        Ok(match attribute {
            Attribute::Reuse(which) => pool.reuse[which],
            Attribute::Threshold => pool.threshold,
            Attribute::Reserved => pool.reserved,
            Attribute::ReservedHigh => pool.reserved_high,
            Attribute::Used => pool.used,
            Attribute::UsedHigh => pool.used_high,
        })
    }

    pub fn set_pool_attribute(
        &mut self,
        thread: Thread,
        handle: Handle,
        attribute: Attribute,
        value: u64,
    ) -> Answer<()> {
        self.pool(handle)?;
        self.refuse_in_capture(thread)?;
        let pool = self.pool(handle)?;
        match attribute {
            Attribute::Reuse(which) => pool.reuse[which] = value,
            Attribute::Threshold => pool.threshold = value,
            Attribute::ReservedHigh if value == 0 => pool.reserved_high = pool.reserved,
            Attribute::UsedHigh if value == 0 => pool.used_high = pool.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    pub fn set_pool_access(
        &mut self,
        handle: Handle,
        location: Location,
        flags: i32,
    ) -> Answer<()> {
        if location.kind == LOCATION_DEVICE {
            self.device(location.id)?;
        }
        let pool = self.pool(handle)?;
        require(matches!(flags, 0 | 1 | 3))?;
        // Its own place cannot lose access.
        require(pool.location != location || flags == ACCESS_READ_WRITE)?;
        pool.access.insert((location.kind, location.id), flags);
        Ok(())
    }

    pub fn pool_access(&mut self, handle: Handle, location: Location) -> Answer<i32> {
        let pool = self.pool(handle)?;
        if pool.location == location {
            return Ok(ACCESS_READ_WRITE);
        }
        let flags = pool.access.get(&(location.kind, location.id));
        Ok(flags.copied().unwrap_or(0))
    }

    pub fn default_pool(&self, device: i32) -> Answer<Handle> {
        Ok(self.devices[self.device(device)?].default_pool)
    }

    pub fn device_pool(&self, device: i32) -> Answer<Handle> {
        Ok(self.devices[self.device(device)?].pool)
    }

    pub fn set_device_pool(&mut self, device: i32, handle: Handle) -> Answer<()> {
        let device = self.device(device)?;
        let pool = self.pool(handle)?;
        require(pool.device == Some(device) && pool.foreign.is_none())?;
        self.devices[device].pool = handle;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Driver, Stream, Thread, ready};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read(driver: &mut Driver, thread: Thread, pool: Handle, attribute: Attribute) -> u64 {
        driver.pool_attribute(thread, pool, attribute).unwrap()
    }

    fn three_blocks_freed(driver: &mut Driver, thread: Thread, pool: Handle) {
        let mut alloc = || {
            driver
                .alloc_async(thread, 10 * MIB, Some(pool), Stream::LEGACY)
                .unwrap()
        };
        let blocks = [alloc(), alloc(), alloc()];
        for block in blocks {
            driver.free_async(thread, block, Stream::LEGACY).unwrap();
        }
    }

    #[test]
    fn without_a_threshold_the_reserve_goes_back_at_the_next_wait() {
        let (mut driver, thread) = ready("2x16GiB");
        let pool = driver.default_pool(0).unwrap();
        three_blocks_freed(&mut driver, thread, pool);
        assert_eq!(
            read(&mut driver, thread, pool, Attribute::UsedHigh),
            31_457_280
        );
        assert_eq!(read(&mut driver, thread, pool, Attribute::Used), 0);
        assert_eq!(
            read(&mut driver, thread, pool, Attribute::Reserved),
            33_554_432
        );
        assert_eq!(driver.free_memory(0), (16 << 30) - 33_554_432);
        driver.synchronise_stream(thread, Stream::LEGACY).unwrap();
        assert_eq!(read(&mut driver, thread, pool, Attribute::Reserved), 0);
        assert_eq!(
            read(&mut driver, thread, pool, Attribute::ReservedHigh),
            33_554_432
        );
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn a_threshold_keeps_the_reserve_until_it_is_trimmed() {
        let (mut driver, thread) = ready("2x16GiB");
        let pool = driver.default_pool(0).unwrap();
        driver
            .set_pool_attribute(thread, pool, Attribute::Threshold, u64::MAX)
            .unwrap();
        three_blocks_freed(&mut driver, thread, pool);
        driver.synchronise_context(thread).unwrap();
        assert_eq!(
            read(&mut driver, thread, pool, Attribute::Reserved),
            33_554_432
        );
        driver.trim_pool(thread, pool, 0).unwrap();
        assert_eq!(read(&mut driver, thread, pool, Attribute::Reserved), 0);
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn high_marks_can_only_be_reset() {
        let (mut driver, thread) = ready("2x16GiB");
        let pool = driver.default_pool(0).unwrap();
        three_blocks_freed(&mut driver, thread, pool);
        let set = |driver: &mut Driver, value| {
            driver.set_pool_attribute(thread, pool, Attribute::UsedHigh, value)
        };
        assert_eq!(set(&mut driver, 5).unwrap_err().0, 1);
        set(&mut driver, 0).unwrap();
        assert_eq!(read(&mut driver, thread, pool, Attribute::UsedHigh), 0);
    }

    #[test]
    fn a_destroyed_pool_lives_until_its_last_block_is_freed() {
        let (mut driver, thread) = ready("2x16GiB");
        let location = Location {
            kind: LOCATION_DEVICE,
            id: 0,
        };
        let pool = driver.create_pool(PoolProps::new(location)).unwrap();
        driver.set_device_pool(0, pool).unwrap();
        let block = driver
            .alloc_async(thread, MIB, None, Stream::LEGACY)
            .unwrap();
        driver.destroy_pool(pool).unwrap();
        assert_eq!(driver.device_pool(0), driver.default_pool(0));
        assert_eq!(driver.destroy_pool(pool).unwrap_err().0, 1);
        assert_eq!(driver.free_memory(0), (16 << 30) - 32 * MIB);
        driver.free(thread, block).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        let default = driver.default_pool(0).unwrap();
        assert_eq!(driver.destroy_pool(default).unwrap_err().0, 1);
    }

    #[test]
    fn a_pool_that_cannot_grow_is_out_of_memory() {
        let (mut driver, thread) = ready("2x16GiB");
        driver.alloc(thread, (16 << 30) - 16 * MIB).unwrap();
        let answer = driver.alloc_async(thread, MIB, None, Stream::LEGACY);
        assert_eq!(answer.unwrap_err().0, 2);
    }
}
