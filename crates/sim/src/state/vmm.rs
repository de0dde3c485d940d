//! Virtual memory management: physical handles, reserved ranges, and mappings between them.

use super::Driver;
use super::multicast::Multicast;
use crate::abi::{
    ALLOCATION_PINNED, AccessDesc, AllocationProp, DevicePtr, LOCATION_DEVICE, LOCATION_HOST,
    LOCATION_HOST_NUMA_CURRENT, Location,
};
use crate::codes::{Answer, Code, require};

/// Sizes and addresses are multiples of this.
pub const GRANULARITY: u64 = 2 << 20;

/// A physical handle lives while it is referenced or mapped.
#[derive(Debug)]
pub(super) struct Physical {
    pub(super) prop: AllocationProp,
    pub(super) size: u64,
    pub(super) references: u32,
    mappings: u32,
    pub(super) source: Source,
}

/// Whose memory a handle means.
#[derive(Debug)]
pub(super) enum Source {
    Own,
    /// Of another process, and charged to it.
    Foreign,
    /// That of other handles.
    Multicast(Multicast),
}

#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) handle: u64,
    access: Vec<(Location, i32)>,
}

impl Driver {
    /// Checks the properties and gives the device, or `None` for the host.
    pub fn physical_home(&self, prop: &AllocationProp) -> Answer<Option<usize>> {
        require(prop.kind == ALLOCATION_PINNED)?;
        match prop.location.kind {
            LOCATION_DEVICE => self.device(prop.location.id).map(Some),
            LOCATION_HOST..=LOCATION_HOST_NUMA_CURRENT => Ok(None),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    pub fn create_physical(&mut self, prop: AllocationProp, size: u64, flags: u64) -> Answer<u64> {
        let home = self.physical_home(&prop)?;
        require(size > 0 && size.is_multiple_of(GRANULARITY) && flags == 0)?;
        match home {
            Some(device) => self.take(device, size)?,
            None if size >= 1 << 40 => return Err(Code::OUT_OF_MEMORY),
            None => {}
        }
        Ok(self.add_physical(prop, size, Source::Own))
    }

    pub(super) fn add_physical(&mut self, prop: AllocationProp, size: u64, source: Source) -> u64 {
        let handle = self.new_handle() as u64;
        let physical = Physical {
            prop,
            size,
            references: 1,
            mappings: 0,
            source,
        };
        self.physical.insert(handle, physical);
        handle
    }

    pub(super) fn referenced(&mut self, handle: u64) -> Answer<&mut Physical> {
        let physical = self
            .physical
            .get_mut(&handle)
            .filter(|physical| physical.references > 0);
        physical.ok_or(Code::INVALID_VALUE)
    }

    pub fn release_physical(&mut self, handle: u64) -> Answer<()> {
        self.referenced(handle)?.references -= 1;
        self.drop_physical_if_unused(handle);
        Ok(())
    }

    fn drop_physical_if_unused(&mut self, handle: u64) {
        let unused = |physical: &Physical| physical.references == 0 && physical.mappings == 0;
        if !self.physical.get(&handle).is_some_and(unused) {
            return;
        }
        let Some(physical) = self.physical.remove(&handle) else {
            return;
        };
        match physical.source {
            Source::Own if physical.prop.location.kind == LOCATION_DEVICE => {
                self.give(physical.prop.location.id as usize, physical.size);
            }
            Source::Own | Source::Foreign => {}
            Source::Multicast(object) => {
                for bound in object.bound {
                    self.unmap_physical(bound.memory);
                }
            }
        }
    }

    /// One more reference to the handle that is mapped at an address.
    pub fn retain_physical(&mut self, address: DevicePtr) -> Answer<u64> {
        let (_, mapping) = self.mapping_around(address).ok_or(Code::INVALID_VALUE)?;
        let handle = mapping.handle;
        let physical = self.physical.get_mut(&handle).ok_or(Code::INVALID_VALUE)?;
        physical.references += 1;
        Ok(handle)
    }

    pub fn physical_prop(&mut self, handle: u64) -> Answer<AllocationProp> {
        Ok(self.referenced(handle)?.prop)
    }

    pub fn reserve(&mut self, size: u64, alignment: u64, hint: DevicePtr) -> Answer<DevicePtr> {
        require(size > 0 && size.is_multiple_of(GRANULARITY))?;
        require(alignment == 0 || alignment.is_power_of_two())?;
        let alignment = alignment.max(GRANULARITY);
        let start =
            if hint != 0 && hint.is_multiple_of(alignment) && self.ranges.take_at(hint, size) {
                hint
            } else {
                self.ranges
                    .take(size, alignment)
                    .ok_or(Code::OUT_OF_MEMORY)?
            };
        self.reservations.insert(start, size);
        Ok(start)
    }

    pub fn free_reservation(&mut self, start: DevicePtr, size: u64) -> Answer<()> {
        require(self.reservations.get(&start) == Some(&size))?;
        require(self.mappings.range(start..start + size).next().is_none())?;
        self.reservations.remove(&start);
        self.ranges.give(start, size);
        Ok(())
    }

    pub fn map(&mut self, start: DevicePtr, size: u64, offset: u64, handle: u64) -> Answer<()> {
        require(size > 0 && size.is_multiple_of(GRANULARITY))?;
        require(start.is_multiple_of(GRANULARITY) && offset.is_multiple_of(GRANULARITY))?;
        let end = start.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        let (&base, &reserved) = self
            .reservations
            .range(..=start)
            .next_back()
            .ok_or(Code::INVALID_VALUE)?;
        require(end <= base + reserved)?;
        let before = self.mappings.range(..end).next_back();
        require(before.is_none_or(|(&at, mapping)| at + mapping.size <= start))?;
        self.map_physical(handle, offset, size)?;
        let access = Vec::new();
        self.mappings.insert(
            start,
            Mapping {
                size,
                offset,
                handle,
                access,
            },
        );
        Ok(())
    }

    /// One more mapping of a part of a handle.
    pub(super) fn map_physical(&mut self, handle: u64, offset: u64, size: u64) -> Answer<()> {
        let physical = self.referenced(handle)?;
        if let Source::Multicast(object) = &physical.source
            && !object.is_complete()
        {
            return Err(Code::ILLEGAL_STATE);
        }
        let end = offset.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        require(end <= physical.size)?;
        physical.mappings += 1;
        Ok(())
    }

    /// One mapping of a handle less.
    pub(super) fn unmap_physical(&mut self, handle: u64) {
        if let Some(physical) = self.physical.get_mut(&handle) {
            physical.mappings -= 1;
        }
        self.drop_physical_if_unused(handle);
    }

    /// The starts of the mappings that tile a range exactly.
    fn tiles(&self, start: DevicePtr, size: u64) -> Answer<Vec<DevicePtr>> {
        let end = start.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        require(size > 0)?;
        let mut at = start;
        let mut tiles = Vec::new();
        while at < end {
            tiles.push(at);
            at += self.mappings.get(&at).ok_or(Code::INVALID_VALUE)?.size;
            require(at <= end)?;
        }
        Ok(tiles)
    }

    /// Unmaps whole mappings, as many as lie in the range.
    pub fn unmap(&mut self, start: DevicePtr, size: u64) -> Answer<()> {
        for tile in self.tiles(start, size)? {
            if let Some(mapping) = self.mappings.remove(&tile) {
                self.unmap_physical(mapping.handle);
            }
        }
        Ok(())
    }

    pub fn set_access(&mut self, start: DevicePtr, size: u64, access: &[AccessDesc]) -> Answer<()> {
        require(!access.is_empty())?;
        for desc in access {
            if desc.location.kind == LOCATION_DEVICE {
                self.device(desc.location.id)?;
            }
            require(matches!(desc.flags, 0 | 1 | 3))?;
        }
        for tile in self.tiles(start, size)? {
            if let Some(mapping) = self.mappings.get_mut(&tile) {
                for desc in access {
                    mapping
                        .access
                        .retain(|(location, _)| *location != desc.location);
                    mapping.access.push((desc.location, desc.flags));
                }
            }
        }
        Ok(())
    }

    pub fn access(&self, location: Location, address: DevicePtr) -> Answer<u64> {
        let (_, mapping) = self.mapping_around(address).ok_or(Code::INVALID_VALUE)?;
        let found = mapping.access.iter().find(|(at, _)| *at == location);
        Ok(found.map_or(0, |(_, flags)| *flags as u64))
    }

    /// The mapping that an address lies in.
    pub(super) fn mapping_around(&self, address: DevicePtr) -> Option<(DevicePtr, &Mapping)> {
        let (&start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.size).then_some((start, mapping))
    }

    /// The device of a mapping; `None` for the host.
    pub(super) fn mapping_home(&self, mapping: &Mapping) -> Option<usize> {
        let location = self.physical.get(&mapping.handle)?.prop.location;
        (location.kind == LOCATION_DEVICE).then_some(location.id as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn prop(kind: i32, id: i32) -> AllocationProp {
        AllocationProp {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location: Location { kind, id },
            win32: 0,
            flags: 0,
        }
    }

    #[test]
    fn memory_lives_until_the_last_mapping_and_the_last_reference() {
        let (mut driver, _) = ready("2x16GiB");
        let handle = driver.create_physical(prop(1, 0), 2 * MIB, 0).unwrap();
        let base = driver.reserve(4 * MIB, 0, 0).unwrap();
        driver.map(base, 2 * MIB, 0, handle).unwrap();
        driver.map(base + 2 * MIB, 2 * MIB, 0, handle).unwrap();
        driver.release_physical(handle).unwrap();
        assert_eq!(driver.release_physical(handle).unwrap_err().0, 1);
        assert_eq!(driver.free_reservation(base, 4 * MIB).unwrap_err().0, 1);
        assert_eq!(driver.retain_physical(base + 3 * MIB), Ok(handle));
        driver.release_physical(handle).unwrap();
        driver.unmap(base, 2 * MIB).unwrap();
        assert_eq!(driver.free_memory(0), (16 << 30) - 2 * MIB);
        driver.unmap(base + 2 * MIB, 2 * MIB).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        driver.free_reservation(base, 4 * MIB).unwrap();
    }

    #[test]
    fn one_unmap_takes_several_whole_mappings_and_no_part_of_one() {
        let (mut driver, _) = ready("2x16GiB");
        let handle = driver.create_physical(prop(1, 0), 4 * MIB, 0).unwrap();
        let base = driver.reserve(8 * MIB, 0, 0).unwrap();
        driver.map(base, 4 * MIB, 0, handle).unwrap();
        driver.map(base + 4 * MIB, 4 * MIB, 0, handle).unwrap();
        assert_eq!(driver.map(base, 2 * MIB, 0, handle).unwrap_err().0, 1);
        assert_eq!(driver.unmap(base, 2 * MIB).unwrap_err().0, 1);
        assert_eq!(driver.unmap(base, 6 * MIB).unwrap_err().0, 1);
        driver.unmap(base, 8 * MIB).unwrap();
        assert_eq!(driver.unmap(base, 8 * MIB).unwrap_err().0, 1);
        driver.release_physical(handle).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn sizes_are_checked_before_capacity() {
        let (mut driver, _) = ready("2x16GiB");
        assert_eq!(
            driver
                .create_physical(prop(1, 0), 3 * MIB, 0)
                .unwrap_err()
                .0,
            1
        );
        assert_eq!(
            driver
                .create_physical(prop(1, 0), 1 << 46, 0)
                .unwrap_err()
                .0,
            2
        );
        assert_eq!(
            driver
                .create_physical(prop(1, 7), 2 * MIB, 0)
                .unwrap_err()
                .0,
            101
        );
        driver.create_physical(prop(2, 0), 2 * MIB, 0).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn access_needs_mappings() {
        let (mut driver, _) = ready("2x16GiB");
        let location = Location {
            kind: LOCATION_DEVICE,
            id: 0,
        };
        let desc = [AccessDesc { location, flags: 3 }];
        let handle = driver.create_physical(prop(1, 0), 2 * MIB, 0).unwrap();
        let base = driver.reserve(4 * MIB, 0, 0).unwrap();
        assert_eq!(driver.set_access(base, 2 * MIB, &desc).unwrap_err().0, 1);
        driver.map(base, 2 * MIB, 0, handle).unwrap();
        assert_eq!(driver.access(location, base), Ok(0));
        driver.set_access(base, 2 * MIB, &desc).unwrap();
        assert_eq!(driver.access(location, base), Ok(3));
        assert_eq!(driver.set_access(base, 4 * MIB, &desc).unwrap_err().0, 1);
    }
}
