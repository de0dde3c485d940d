//! Multicast objects: one address for memory of several devices. They have no memory themselves.

use super::Driver;
use super::vmm::{GRANULARITY, Source};
use crate::abi::share::MulticastProp;
use crate::abi::{ALLOCATION_PINNED, AllocationProp, Location, Physical};
use crate::codes::{Answer, Code, require};

#[derive(Debug, Default)]
pub(super) struct Multicast {
    wanted: usize,
    devices: Vec<usize>,
    pub(super) bound: Vec<Bound>,
}

impl Multicast {
    pub(super) fn is_complete(&self) -> bool {
        self.devices.len() == self.wanted
    }
}

/// Memory that is bound to a part of a multicast object.
#[derive(Debug)]
pub(super) struct Bound {
    device: usize,
    offset: u64,
    size: u64,
    pub(super) memory: Physical,
}

impl Driver {
    /// The granularity of an object, or why there can be none.
    pub fn multicast_granularity(&self, prop: &MulticastProp) -> Answer<u64> {
        let devices = prop.devices as usize;
        require(devices > 0 && devices <= self.devices.len())?;
        require(prop.size > 0 && prop.flags == 0)?;
        Ok(GRANULARITY)
    }

    /// `cuMulticastCreate`.
    pub fn create_multicast(&mut self, prop: MulticastProp) -> Answer<Physical> {
        let step = self.multicast_granularity(&prop)?;
        let size = prop.size as u64;
        require(size.is_multiple_of(step))?;
        let same = AllocationProp {
            kind: ALLOCATION_PINNED,
            handle_types: prop.handle_types as i32,
            location: Location::device(0),
            win32: 0,
            flags: 0,
        };
        let object = Multicast {
            wanted: prop.devices as usize,
            ..Multicast::default()
        };
        Ok(self.add_physical(same, size, Source::Multicast(object)))
    }

    /// The object of another process: whose devices it has is known there, so all of them may join.
    pub(super) fn foreign_multicast(&self) -> Source {
        let devices: Vec<usize> = (0..self.devices.len()).collect();
        Source::Multicast(Multicast {
            wanted: devices.len(),
            devices,
            bound: Vec::new(),
        })
    }

    fn multicast(&mut self, handle: Physical) -> Answer<&mut Multicast> {
        match &mut self.referenced(handle)?.source {
            Source::Multicast(object) => Ok(object),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// `cuMulticastAddDevice`.
    pub fn add_multicast_device(&mut self, handle: Physical, device: i32) -> Answer<()> {
        let device = self.device(device)?;
        let object = self.multicast(handle)?;
        require(!object.devices.contains(&device) && !object.is_complete())?;
        object.devices.push(device);
        Ok(())
    }

    /// `cuMulticastBindMem`: memory of a device of the team, once the team is complete.
    pub fn bind_multicast(
        &mut self,
        handle: Physical,
        device: Option<i32>,
        offset: u64,
        (memory, memory_offset): (Physical, u64),
        size: u64,
    ) -> Answer<()> {
        require(
            [offset, memory_offset, size]
                .iter()
                .all(|n| n % GRANULARITY == 0)
                && size > 0,
        )?;
        let whole = self.referenced(handle)?.size;
        let end = offset.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        require(end <= whole)?;
        let part = self.referenced(memory)?;
        require(!matches!(part.source, Source::Multicast(_)))?;
        let prop = part.prop;
        let home = self.physical_home(&prop)?.ok_or(Code::INVALID_VALUE)?;
        if let Some(device) = device {
            require(self.device(device)? == home)?;
        }
        let object = self.multicast(handle)?;
        if !object.is_complete() {
            return Err(Code::ILLEGAL_STATE);
        }
        require(object.devices.contains(&home))?;
        let apart = |b: &Bound| b.device != home || b.offset >= end || b.offset + b.size <= offset;
        require(object.bound.iter().all(apart))?;
        self.map_physical(memory, memory_offset, size)?;
        self.multicast(handle)?.bound.push(Bound {
            device: home,
            offset,
            size,
            memory,
        });
        Ok(())
    }

    /// `cuMulticastBindAddr`: the same for memory that is mapped at an address.
    pub fn bind_multicast_address(
        &mut self,
        handle: Physical,
        device: Option<i32>,
        offset: u64,
        address: u64,
        size: u64,
    ) -> Answer<()> {
        let (start, mapping) = self.mapping_around(address).ok_or(Code::INVALID_VALUE)?;
        let inside = address - start;
        require(
            inside
                .checked_add(size)
                .is_some_and(|end| end <= mapping.size),
        )?;
        let memory = (mapping.handle, mapping.offset + inside);
        self.bind_multicast(handle, device, offset, memory, size)
    }

    /// `cuMulticastUnbind`: exactly what was bound.
    pub fn unbind_multicast(
        &mut self,
        handle: Physical,
        device: i32,
        offset: u64,
        size: u64,
    ) -> Answer<()> {
        let device = self.device(device)?;
        let object = self.multicast(handle)?;
        let same = |b: &Bound| (b.device, b.offset, b.size) == (device, offset, size);
        let index = object.bound.iter().position(same);
        let bound = object.bound.remove(index.ok_or(Code::INVALID_VALUE)?);
        self.unmap_physical(bound.memory);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn prop(devices: u32, size: u64) -> MulticastProp {
        MulticastProp {
            devices,
            size: size as usize,
            handle_types: 0,
            flags: 0,
        }
    }

    fn memory(driver: &mut Driver, device: usize) -> Physical {
        let prop = AllocationProp {
            kind: ALLOCATION_PINNED,
            handle_types: 0,
            location: Location::device(device),
            win32: 0,
            flags: 0,
        };
        driver.create_physical(prop, 2 * MIB, 0).unwrap()
    }

    #[test]
    fn an_object_takes_no_memory_and_holds_what_is_bound_to_it() {
        let (mut driver, _) = ready("2x16GiB");
        let object = driver.create_multicast(prop(2, 4 * MIB)).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        let part = memory(&mut driver, 1);
        driver.add_multicast_device(object, 0).unwrap();
        let bind = |driver: &mut Driver, offset| {
            let answer = driver.bind_multicast(object, None, offset, (part, 0), 2 * MIB);
            crate::codes::number(&answer)
        };
        assert_eq!(bind(&mut driver, 0), 401);
        driver.add_multicast_device(object, 1).unwrap();
        assert_eq!(driver.add_multicast_device(object, 1).unwrap_err().0, 1);
        assert_eq!(bind(&mut driver, 0), 0);
        assert_eq!(bind(&mut driver, 0), 1);
        assert_eq!(bind(&mut driver, 2 * MIB), 0);
        assert_eq!(bind(&mut driver, 4 * MIB), 1);
        driver.release_physical(part).unwrap();
        driver.unbind_multicast(object, 1, 0, 2 * MIB).unwrap();
        assert_eq!(
            driver
                .unbind_multicast(object, 1, 0, 2 * MIB)
                .unwrap_err()
                .0,
            1
        );
        assert_eq!(driver.free_memory(1), (16 << 30) - 2 * MIB);
        driver.release_physical(object).unwrap();
        assert_eq!(driver.free_memory(1), 16 << 30);
    }

    #[test]
    fn an_object_is_mapped_like_memory_and_bound_by_address() {
        let (mut driver, _) = ready("2x16GiB");
        let object = driver.create_multicast(prop(1, 2 * MIB)).unwrap();
        let range = driver.reserve(4 * MIB, 0, 0).unwrap();
        assert_eq!(driver.map(range, 2 * MIB, 0, object).unwrap_err().0, 401);
        driver.add_multicast_device(object, 0).unwrap();
        let part = memory(&mut driver, 0);
        driver.map(range, 2 * MIB, 0, part).unwrap();
        driver
            .bind_multicast_address(object, Some(0), 0, range, 2 * MIB)
            .unwrap();
        driver.map(range + 2 * MIB, 2 * MIB, 0, object).unwrap();
        driver.release_physical(part).unwrap();
        driver.release_physical(object).unwrap();
        driver.unmap(range, 4 * MIB).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn impossible_objects_are_refused() {
        let (mut driver, _) = ready("2x16GiB");
        for bad in [prop(0, 2 * MIB), prop(3, 2 * MIB), prop(1, MIB), prop(1, 0)] {
            assert_eq!(driver.create_multicast(bad).unwrap_err().0, 1);
        }
        let plain = memory(&mut driver, 0);
        assert_eq!(driver.add_multicast_device(plain, 0).unwrap_err().0, 1);
    }
}
