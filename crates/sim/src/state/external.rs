//! Memory that another interface made: it takes nothing of the device here.

use super::memory::Origin;
use super::shape::Shape;
use super::{Driver, Thread};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};
use crate::os::File;
use std::ffi::c_int;

#[derive(Debug)]
pub(super) struct External {
    context: Handle,
    size: u64,
    /// The descriptor that was handed over.
    _file: Option<File>,
}

impl Driver {
    /// `cuImportExternalMemory`.
    pub fn import_external(
        &mut self,
        thread: Thread,
        size: u64,
        file: Option<c_int>,
    ) -> Answer<Handle> {
        let context = self.current(thread)?;
        require(size > 0)?;
        // The descriptor is the program's until this succeeds.
        let file = match file {
            Some(file) => Some(File::own(file).ok_or(Code::INVALID_VALUE)?),
            None => None,
        };
        let handle = self.new_handle();
        let external = External {
            context,
            size,
            _file: file,
        };
        self.externals.insert(handle, external);
        Ok(handle)
    }

    fn external(&self, handle: Handle) -> Answer<&External> {
        self.externals.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    /// `cuExternalMemoryGetMappedBuffer`: an address that is freed like any other.
    pub fn map_external(
        &mut self,
        thread: Thread,
        handle: Handle,
        offset: u64,
        size: u64,
    ) -> Answer<DevicePtr> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        let end = offset.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        require(size > 0 && end <= self.external(handle)?.size)?;
        let (address, _) = self.take_address(size)?;
        let device = self.device_of(context);
        self.add_block(address, size, device, context, Origin::External);
        Ok(address)
    }

    /// `cuExternalMemoryGetMappedMipmappedArray`.
    pub fn map_external_mipmap(
        &mut self,
        thread: Thread,
        handle: Handle,
        offset: u64,
        shape: Shape,
        levels: u32,
    ) -> Answer<Handle> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        shape.check()?;
        let levels = shape.levels(levels);
        let bytes = shape.mipmap_bytes(levels);
        let end = offset.checked_add(bytes).ok_or(Code::INVALID_VALUE)?;
        require(end <= self.external(handle)?.size)?;
        Ok(self.foreign_mipmap(context, shape, levels))
    }

    /// `cuDestroyExternalMemory`: what was mapped stays mapped.
    pub fn destroy_external(&mut self, handle: Handle) -> Answer<()> {
        self.external(handle)?;
        self.externals.remove(&handle);
        Ok(())
    }

    pub(super) fn drop_externals_of(&mut self, context: Handle) {
        self.externals
            .retain(|_, external| external.context != context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn mapped_buffers_take_no_memory_and_are_freed_one_by_one() {
        let (mut driver, thread) = ready("2x16GiB");
        let external = driver.import_external(thread, 4 * MIB, None).unwrap();
        let p = driver.map_external(thread, external, 0, MIB).unwrap();
        let q = driver.map_external(thread, external, 0, 4 * MIB).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        assert_eq!(
            driver
                .map_external(thread, external, MIB, 4 * MIB)
                .unwrap_err()
                .0,
            1
        );
        driver.destroy_external(external).unwrap();
        assert_eq!(driver.destroy_external(external).unwrap_err().0, 400);
        driver.free(thread, p).unwrap();
        assert_eq!(driver.free(thread, p).unwrap_err().0, 1);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(driver.free(thread, q).unwrap_err().0, 1);
    }

    #[test]
    fn a_mipmapped_array_lies_in_it() {
        let (mut driver, thread) = ready("2x16GiB");
        let external = driver.import_external(thread, 349_524, None).unwrap();
        let shape = Shape {
            width: 256,
            height: 256,
            depth: 0,
            format: 0x20,
            channels: 1,
            flags: 0,
        };
        let mipmap = driver.map_external_mipmap(thread, external, 0, shape, 9);
        let mipmap = mipmap.unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        let beyond = driver.map_external_mipmap(thread, external, 4, shape, 9);
        assert_eq!(beyond.unwrap_err().0, 1);
        assert!(driver.mipmap_level(mipmap, 8).is_ok());
        driver.destroy_array(thread, mipmap, true).unwrap();
    }
}
