//! Texture and surface objects and green contexts: handles that are counted, and have no memory.

use super::{Driver, Thread};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code, require};

/// What a texture or a surface looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Array(Handle),
    Mipmap(Handle),
    Memory(DevicePtr),
}

#[derive(Debug)]
pub(super) struct Object {
    context: Handle,
    surface: bool,
}

impl Driver {
    /// `cuTexObjectCreate`, `cuSurfObjectCreate`; a surface looks at an array only.
    pub fn create_object(
        &mut self,
        thread: Thread,
        resource: Resource,
        surface: bool,
    ) -> Answer<u64> {
        let context = self.current(thread)?;
        match resource {
            Resource::Array(array) => self.known_array(array, false)?,
            _ if surface => return Err(Code::INVALID_VALUE),
            Resource::Mipmap(mipmap) => self.known_array(mipmap, true)?,
            Resource::Memory(address) => require(self.place(address).is_some())?,
        }
        let handle = self.new_handle() as u64;
        self.objects.insert(handle, Object { context, surface });
        Ok(handle)
    }

    pub fn destroy_object(&mut self, handle: u64, surface: bool) -> Answer<()> {
        let object = self.objects.get(&handle);
        require(object.is_some_and(|object| object.surface == surface))?;
        self.objects.remove(&handle);
        Ok(())
    }

    pub(super) fn drop_objects_of(&mut self, context: Handle) {
        self.objects.retain(|_, object| object.context != context);
    }

    /// `cuDevResourceGenerateDesc`.
    pub fn create_resource_desc(&mut self) -> Handle {
        let handle = self.new_handle();
        self.resource_descs.insert(handle);
        handle
    }

    /// `cuGreenCtxCreate`: holds the primary context of the device, whose memory it shares.
    pub fn create_green(&mut self, desc: Handle, device: i32, flags: u32) -> Answer<Handle> {
        require(flags == 1 && self.resource_descs.contains(&desc))?;
        self.retain_primary(device)?;
        let handle = self.new_handle();
        self.greens.insert(handle, device);
        Ok(handle)
    }

    fn green(&self, handle: Handle) -> Answer<i32> {
        let device = self.greens.get(&handle).copied();
        device.ok_or(Code::INVALID_CONTEXT)
    }

    pub fn destroy_green(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        let device = self.green(handle)?;
        self.release_primary(thread, device)?;
        self.greens.remove(&handle);
        Ok(())
    }

    /// `cuCtxFromGreenCtx`: here the primary context itself.
    pub fn context_of_green(&self, handle: Handle) -> Answer<Handle> {
        let device = self.device(self.green(handle)?)?;
        Ok(self.devices[device].primary)
    }

    /// `cuGreenCtxStreamCreate`.
    pub fn create_green_stream(
        &mut self,
        handle: Handle,
        flags: u32,
        priority: i32,
    ) -> Answer<Handle> {
        let context = self.context_of_green(handle)?;
        self.create_stream_in(context, flags, priority)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;
    use super::*;
    use crate::abi::array::Deep;

    #[test]
    fn textures_look_at_what_is_there_and_end_with_the_context() {
        let (mut driver, thread) = ready("2x16GiB");
        let shape = Deep {
            width: 4,
            height: 4,
            depth: 0,
            format: 0x20,
            channels: 1,
            flags: 0,
        };
        let array = driver.create_array(thread, shape).unwrap();
        let linear = driver.alloc(thread, 4096).unwrap();
        let code = |answer: Answer<u64>| crate::codes::number(&answer);
        let mut create = |resource, surface| driver.create_object(thread, resource, surface);
        let texture = create(Resource::Array(array), false).unwrap();
        let surface = create(Resource::Array(array), true).unwrap();
        assert_eq!(code(create(Resource::Memory(linear), false)), 0);
        assert_eq!(code(create(Resource::Memory(linear), true)), 1);
        assert_eq!(code(create(Resource::Memory(7), false)), 1);
        assert_eq!(code(create(Resource::Mipmap(array), false)), 400);
        assert_eq!(driver.destroy_object(texture, true).unwrap_err().0, 1);
        driver.destroy_object(texture, false).unwrap();
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(driver.destroy_object(surface, true).unwrap_err().0, 1);
    }

    #[test]
    fn a_green_context_keeps_the_primary_one() {
        let (mut driver, thread) = ready("2x16GiB");
        let desc = driver.create_resource_desc();
        assert_eq!(driver.create_green(desc, 1, 0).unwrap_err().0, 1);
        assert_eq!(
            driver.create_green(thread.0 as usize, 1, 1).unwrap_err().0,
            1
        );
        let green = driver.create_green(desc, 1, 1).unwrap();
        assert_eq!(driver.primary_state(1), Ok((0, true)));
        let context = driver.context_of_green(green).unwrap();
        driver.push_current(thread, context).unwrap();
        driver.alloc(thread, 4096).unwrap();
        let stream = driver.create_green_stream(green, 1, 0).unwrap();
        driver.destroy_stream(stream).unwrap();
        driver.destroy_green(thread, green).unwrap();
        assert_eq!(driver.primary_state(1), Ok((0, false)));
        assert_eq!(driver.free_memory(1), 16 << 30);
        assert_eq!(driver.destroy_green(thread, green).unwrap_err().0, 201);
    }
}
