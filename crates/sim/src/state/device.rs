//! Devices: who they are, and how much of their memory is taken.

use super::Driver;
use super::exec::GraphMemory;
use crate::abi::Handle;
use crate::codes::{Answer, Code, require};
use crate::neighbours::Neighbour;
use crate::settings::Settings;

/// What identifies a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub name: String,
    pub uuid: [u8; 16],
    pub bus: i32,
}

#[derive(Debug)]
pub(super) struct Device {
    model: Model,
    pub(super) total: u64,
    /// Memory of other processes.
    pub(super) taken: u64,
    pub(super) used: u64,
    /// Memory beyond `total` that only NVML counts.
    pub(super) reserve: u64,
    /// Times that NVML was asked for the memory.
    pub(super) asked: u64,
    /// The primary context: its handle is the same for ever.
    pub(super) primary: Handle,
    pub(super) primary_references: u32,
    pub(super) primary_flags: u32,
    pub(super) default_pool: Handle,
    pub(super) pool: Handle,
    pub(super) graphs: GraphMemory,
}

impl Driver {
    pub(super) fn add_device(&mut self, ordinal: usize, settings: &Settings) {
        let mut uuid = *b"\x00oomhook-sim-gpu";
        uuid[0] = ordinal as u8;
        let pool = self.add_default_pool(ordinal);
        let here = |one: &&Neighbour| one.device == ordinal;
        let here = settings.neighbours.iter().filter(here);
        let bytes_of_neighbours: u64 = here.map(|one| one.bytes).sum();
        let device = Device {
            model: Model {
                name: settings.name_of(ordinal),
                uuid,
                bus: 0x10 + ordinal as i32,
            },
            total: settings.memory,
            taken: settings.taken + bytes_of_neighbours,
            used: 0,
            reserve: settings.reserve,
            asked: 0,
            primary: self.new_handle(),
            primary_references: 0,
            primary_flags: 0,
            default_pool: pool,
            pool,
            graphs: GraphMemory::default(),
        };
        self.devices.push(device);
    }

    pub fn device_count(&self) -> usize {
        self.devices.len()
    }

    /// The index of a device that the program names.
    pub fn device(&self, ordinal: i32) -> Answer<usize> {
        let index = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        let known = index < self.devices.len();
        known.then_some(index).ok_or(Code::INVALID_DEVICE)
    }

    pub fn model(&self, device: usize) -> &Model {
        &self.devices[device].model
    }

    pub fn total(&self, device: usize) -> u64 {
        self.devices[device].total
    }

    pub fn free_memory(&self, device: usize) -> u64 {
        let device = &self.devices[device];
        device.total - device.taken - device.used
    }

    pub(super) fn take(&mut self, device: usize, bytes: u64) -> Answer<()> {
        if bytes > self.free_memory(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.devices[device].used += bytes;
        Ok(())
    }

    pub(super) fn give(&mut self, device: usize, bytes: u64) {
        self.devices[device].used -= bytes;
    }

    /// `CUdevice_attribute`; those that nothing asks for are 0, as unknown ones are.
    pub fn attribute(&self, device: usize, attribute: i32) -> Answer<i32> {
        require(attribute > 0)?;
        Ok(match attribute {
            1..=3 => 1024,                        // threads of a block, in x, in y
            4 => 64,                              // in z
            5 => i32::MAX,                        // grid in x
            6 | 7 => 65535,                       // in y, in z
            8 => 49152,                           // shared memory of a block
            9 => 65536,                           // constant memory
            10 => 32,                             // warp
            11 => i32::MAX,                       // pitch
            12 | 82 => 65536,                     // registers of a block, of a multiprocessor
            13 => 1_980_000,                      // clock in kHz
            14 => 512,                            // texture alignment
            16 => 132,                            // multiprocessors
            19 | 31 | 40 | 41 => 1, // maps host memory, concurrent kernels, engines, unified addresses
            33 => self.devices[device].model.bus, // PCI bus
            36 => 2_619_000,        // memory clock in kHz
            37 => 5120,             // bus width
            38 => 32 << 20,         // L2 cache
            39 => 2048,             // threads of a multiprocessor
            51 => 32,               // texture pitch alignment
            75 => 9,                // compute capability
            78 | 83 | 88 | 89 => 1, // stream priorities, managed memory, pageable access, concurrent
            81 => 233_472,          // shared memory of a multiprocessor
            95 | 99 | 102 | 103 => 1, // cooperative launch, host registration, virtual memory, fd handles
            112 | 115 | 121 => 1,     // sparse arrays, pools, deferred mapping
            119 => 1,                 // fd handles of pools
            124 | 125 | 132 => 1,     // ranges as files, events of other processes, multicast
            142 | 144 => 1,           // pools on the nodes of the host, and on the host
            _ => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;

    #[test]
    fn devices_differ_and_unknown_ones_are_refused() {
        let (driver, _) = ready("2x16GiB,free=15.5GiB");
        assert_ne!(driver.model(0).uuid, driver.model(1).uuid);
        assert_ne!(driver.model(0).bus, driver.model(1).bus);
        assert_eq!(driver.total(0), 16 << 30);
        assert_eq!(driver.free_memory(1), (31 << 30) / 2);
        assert_eq!(driver.device(2).unwrap_err().0, 101);
        assert_eq!(driver.device(-1).unwrap_err().0, 101);
    }
}
