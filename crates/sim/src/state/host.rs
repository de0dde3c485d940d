//! Host memory that the driver pins: its own, and memory of the program that is registered.

use super::{Driver, Thread};
use crate::abi::Handle;
use crate::codes::{Answer, Code, require};
use crate::os::Mapping;

/// How much the host can pin in all.
const PINNABLE: usize = 512 << 30;

#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) length: usize,
    pub(super) context: Handle,
    /// `None`: the memory is the program's, and only registered.
    memory: Option<Mapping>,
    flags: u32,
}

impl Driver {
    /// `cuMemHostAlloc`, `cuMemAllocHost`.
    pub fn alloc_host(&mut self, thread: Thread, length: usize, flags: u32) -> Answer<usize> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        require(length > 0 && flags < 8)?;
        let pinned: usize = self.host.values().map(|pinned| pinned.length).sum();
        if length > PINNABLE - pinned.min(PINNABLE) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let memory = Mapping::new(length).ok_or(Code::OUT_OF_MEMORY)?;
        let address = memory.address();
        let memory = Some(memory);
        self.host.insert(
            address,
            Pinned {
                length,
                context,
                memory,
                flags,
            },
        );
        Ok(address)
    }

    pub fn free_host(&mut self, thread: Thread, address: usize) -> Answer<()> {
        self.refuse_in_capture(thread)?;
        let pinned = self.host.get(&address);
        require(pinned.is_some_and(|pinned| pinned.memory.is_some()))?;
        self.host.remove(&address);
        Ok(())
    }

    pub fn register_host(
        &mut self,
        thread: Thread,
        address: usize,
        length: usize,
        flags: u32,
    ) -> Answer<()> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        require(address != 0 && length > 0 && flags < 16)?;
        let end = address.checked_add(length).ok_or(Code::INVALID_VALUE)?;
        let before = self.host.range(..end).next_back();
        if before.is_some_and(|(&start, pinned)| start + pinned.length > address) {
            return Err(Code::HOST_ALREADY_REGISTERED);
        }
        let memory = None;
        self.host.insert(
            address,
            Pinned {
                length,
                context,
                memory,
                flags,
            },
        );
        Ok(())
    }

    pub fn unregister_host(&mut self, thread: Thread, address: usize) -> Answer<()> {
        self.refuse_in_capture(thread)?;
        match self.host.get(&address) {
            Some(pinned) if pinned.memory.is_none() => {
                self.host.remove(&address);
                Ok(())
            }
            _ => Err(Code::HOST_NOT_REGISTERED),
        }
    }

    /// The device's address of pinned memory: the same.
    pub fn host_device_pointer(&self, address: usize) -> Answer<u64> {
        self.host_around(address).ok_or(Code::INVALID_VALUE)?;
        Ok(address as u64)
    }

    pub fn host_flags(&self, address: usize) -> Answer<u32> {
        let (_, pinned) = self.host_around(address).ok_or(Code::INVALID_VALUE)?;
        Ok(pinned.flags)
    }

    /// The pinned range that an address lies in.
    pub(super) fn host_around(&self, address: usize) -> Option<(usize, &Pinned)> {
        let (&start, pinned) = self.host.range(..=address).next_back()?;
        (address - start < pinned.length).then_some((start, pinned))
    }

    pub(super) fn free_host_of(&mut self, context: Handle) {
        self.host.retain(|_, pinned| pinned.context != context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Thread, ready};

    #[test]
    fn pinned_memory_has_a_bound_and_is_freed_once() {
        let (mut driver, thread) = ready("2x16GiB");
        assert_eq!(driver.alloc_host(thread, 1 << 45, 0).unwrap_err().0, 2);
        assert_eq!(driver.alloc_host(thread, 0, 0).unwrap_err().0, 1);
        assert_eq!(driver.alloc_host(Thread(9), 4096, 0).unwrap_err().0, 201);
        let p = driver.alloc_host(thread, 1 << 35, 0).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        assert_eq!(driver.free(thread, p as u64).unwrap_err().0, 1);
        driver.free_host(thread, p).unwrap();
        assert_eq!(driver.free_host(thread, p).unwrap_err().0, 1);
    }

    #[test]
    fn registering_twice_is_712_and_unregistering_twice_713() {
        let (mut driver, thread) = ready("2x16GiB");
        driver.register_host(thread, 0x10_0000, 4 << 20, 0).unwrap();
        assert_eq!(
            driver
                .register_host(thread, 0x10_0000, 4 << 20, 0)
                .unwrap_err()
                .0,
            712
        );
        assert_eq!(
            driver
                .register_host(thread, 0x20_0000, 16, 0)
                .unwrap_err()
                .0,
            712
        );
        assert_eq!(driver.free_host(thread, 0x10_0000).unwrap_err().0, 1);
        driver.unregister_host(thread, 0x10_0000).unwrap();
        assert_eq!(
            driver.unregister_host(thread, 0x10_0000).unwrap_err().0,
            713
        );
    }

    #[test]
    fn a_reset_frees_what_the_context_pinned() {
        let (mut driver, thread) = ready("2x16GiB");
        let p = driver.alloc_host(thread, 2 << 20, 0).unwrap();
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(driver.free_host(thread, p).unwrap_err().0, 1);
    }
}
