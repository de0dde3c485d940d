//! What the driver knows of an address.

use super::memory::Origin;
use super::{Driver, Thread};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub start: DevicePtr,
    pub length: u64,
    pub context: Handle,
    pub device: usize,
    /// Memory of the host: pinned, registered, or of a pool there.
    pub host: bool,
    pub managed: bool,
    pub pool: Handle,
}

/// One side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Device memory, which holds nothing.
    Device,
    /// Memory that can be touched.
    Real,
}

impl Driver {
    /// Finds what an address belongs to, if the driver knows it.
    pub fn place(&self, address: DevicePtr) -> Option<Place> {
        if let Some((start, block)) = self.block_around(address) {
            let (pool, memory) = match &block.origin {
                Origin::Pool { pool, memory } => (*pool, memory.is_some()),
                Origin::Foreign { pool } => (*pool, false),
                _ => (0, false),
            };
            let managed = match &block.origin {
                Origin::Managed { .. } | Origin::Global { memory: Some(_) } => true,
                _ => self.pools.get(&pool).is_some_and(|pool| pool.managed),
            };
            return Some(Place {
                start,
                length: block.length,
                context: if pool == 0 { block.context } else { 0 },
                device: block.device,
                host: memory && !managed,
                managed,
                pool,
            });
        }
        if let Some((start, mapping)) = self.mapping_around(address) {
            let home = self.mapping_home(mapping);
            return Some(Place {
                start,
                length: mapping.size,
                context: 0,
                device: home.unwrap_or(0),
                host: home.is_none(),
                managed: false,
                pool: 0,
            });
        }
        let (start, pinned) = self.host_around(address as usize)?;
        Some(Place {
            start: start as u64,
            length: pinned.length as u64,
            context: pinned.context,
            device: self
                .contexts
                .get(&pinned.context)
                .map_or(0, |context| context.device),
            host: true,
            managed: false,
            pool: 0,
        })
    }

    /// `cuMemGetAddressRange`.
    pub fn address_range(&self, thread: Thread, address: DevicePtr) -> Answer<(DevicePtr, u64)> {
        self.current(thread)?;
        let place = self.place(address).ok_or(Code::NOT_FOUND)?;
        Ok((place.start, place.length))
    }

    /// One side of a copy or fill. `device`: the call says that it is device memory.
    pub fn side(&self, address: DevicePtr, length: u64, device: bool) -> Answer<Side> {
        let Some(place) = self.place(address) else {
            let ours = self.wide.covers(address) || self.ranges.covers(address);
            require(!device && !ours && (address != 0 || length == 0))?;
            return Ok(Side::Real);
        };
        let mapped = self.mappings.contains_key(&place.start);
        // A copy may run over neighbouring mappings; only whole blocks are bounded here.
        require(mapped || address - place.start + length <= place.length)?;
        let real = (place.host && !mapped) || place.managed;
        Ok(if real { Side::Real } else { Side::Device })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let (mut driver, thread) = ready("2x16GiB");
        let linear = driver.alloc(thread, 1000).unwrap();
        let host = driver.alloc_host(thread, 4096, 0).unwrap() as u64;
        assert_eq!(
            driver.address_range(thread, linear + 999),
            Ok((linear, 1000))
        );
        assert!(driver.address_range(thread, linear + 1000).is_err());
        assert!(driver.place(host + 1).unwrap().host);
        assert_eq!(driver.side(linear, 1000, true), Ok(Side::Device));
        assert_eq!(driver.side(linear, 1001, true).unwrap_err().0, 1);
        assert_eq!(driver.side(linear + (1 << 20), 1, false).unwrap_err().0, 1);
        assert_eq!(driver.side(host, 4096, true), Ok(Side::Real));
        assert_eq!(driver.side(0x1000, 8, false), Ok(Side::Real));
        assert_eq!(driver.side(0x1000, 8, true).unwrap_err().0, 1);
    }
}
