//! Contexts: which is current in which thread, and what goes with one that ends.

use super::{Driver, Thread};
use crate::abi::Handle;
use crate::codes::{Answer, Code, require};

#[derive(Debug)]
pub(super) struct Context {
    pub(super) device: usize,
    primary: bool,
    flags: u32,
    cost: u64,
    /// Device memory for the stack that was asked for.
    stack: u64,
    /// Device memory of the first launch, and of streams.
    pub(super) hidden: u64,
    pub(super) launched: bool,
    /// Streams ever made.
    pub(super) streams: u64,
    limits: [usize; 7],
}

/// Stack, printf, heap, depth of synchronisation, pending launches, L2 fetch, L2 kept.
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0];
/// `CU_LIMIT_STACK_SIZE`.
const STACK: i32 = 0;

impl Driver {
    fn new_context(&mut self, device: usize, primary: bool, flags: u32) -> Answer<Context> {
        let cost = self.context_cost;
        self.take(device, cost)?;
        Ok(Context {
            device,
            primary,
            flags,
            cost,
            stack: 0,
            hidden: 0,
            launched: false,
            streams: 0,
            limits: LIMITS,
        })
    }

    pub fn create_context(&mut self, thread: Thread, device: i32, flags: u32) -> Answer<Handle> {
        let device = self.device(device)?;
        let context = self.new_context(device, false, flags)?;
        let handle = self.new_handle();
        self.contexts.insert(handle, context);
        self.thread(thread).contexts.push(handle);
        Ok(handle)
    }

    pub fn destroy_context(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        match self.contexts.get(&handle) {
            Some(context) if !context.primary => {}
            _ => return Err(Code::INVALID_CONTEXT),
        }
        self.refuse_in_capture(thread)?;
        self.end_context(handle);
        let contexts = &mut self.thread(thread).contexts;
        if contexts.last() == Some(&handle) {
            contexts.pop();
        }
        Ok(())
    }

    /// Frees what belongs to a context, and the context. Stream-ordered and physical memory stays.
    fn end_context(&mut self, handle: Handle) {
        let Some(context) = self.contexts.remove(&handle) else {
            return;
        };
        self.give(
            context.device,
            context.cost + context.stack + context.hidden,
        );
        self.free_blocks_of(handle);
        self.drop_objects_of(handle);
        self.drop_arrays_of(handle);
        self.drop_externals_of(handle);
        self.free_host_of(handle);
        self.end_streams_of(handle);
        self.end_execs_of(handle, context.device);
        self.unload_modules_of(handle);
    }

    pub fn retain_primary(&mut self, device: i32) -> Answer<Handle> {
        let index = self.device(device)?;
        let handle = self.devices[index].primary;
        if !self.contexts.contains_key(&handle) {
            let flags = self.devices[index].primary_flags;
            let context = self.new_context(index, true, flags)?;
            self.contexts.insert(handle, context);
        }
        self.devices[index].primary_references += 1;
        Ok(handle)
    }

    pub fn release_primary(&mut self, thread: Thread, device: i32) -> Answer<()> {
        let index = self.device(device)?;
        let references = self.devices[index].primary_references;
        if references == 0 {
            return Err(Code::INVALID_CONTEXT);
        }
        if references == 1 {
            self.reset_primary(thread, device)?;
        }
        self.devices[index].primary_references = references - 1;
        Ok(())
    }

    pub fn reset_primary(&mut self, thread: Thread, device: i32) -> Answer<()> {
        let index = self.device(device)?;
        self.refuse_in_capture(thread)?;
        self.end_context(self.devices[index].primary);
        Ok(())
    }

    /// Flags, and whether the primary context exists now.
    pub fn primary_state(&self, device: i32) -> Answer<(u32, bool)> {
        let device = &self.devices[self.device(device)?];
        let active = self.contexts.contains_key(&device.primary);
        Ok((device.primary_flags, active))
    }

    pub fn set_primary_flags(&mut self, device: i32, flags: u32) -> Answer<()> {
        let index = self.device(device)?;
        self.devices[index].primary_flags = flags;
        Ok(())
    }

    /// The context that is current in a thread, alive.
    pub fn current(&self, thread: Thread) -> Answer<Handle> {
        match self.current_handle(thread) {
            0 => Err(Code::INVALID_CONTEXT),
            handle if self.contexts.contains_key(&handle) => Ok(handle),
            _ => Err(Code::CONTEXT_IS_DESTROYED),
        }
    }

    /// The handle that is current in a thread, alive or not; 0 if there is none.
    pub fn current_handle(&self, thread: Thread) -> Handle {
        let state = self.threads.get(&thread);
        let last = state.and_then(|state| state.contexts.last());
        last.copied().unwrap_or(0)
    }

    /// The device of the current context.
    pub fn current_device(&self, thread: Thread) -> Answer<usize> {
        Ok(self.contexts[&self.current(thread)?].device)
    }

    /// The device of a living context.
    pub(super) fn device_of(&self, context: Handle) -> usize {
        self.contexts[&context].device
    }

    fn known_context(&self, handle: Handle) -> Answer<Handle> {
        let known = self.contexts.contains_key(&handle);
        known.then_some(handle).ok_or(Code::INVALID_CONTEXT)
    }

    /// Replaces the current context; 0 takes it away.
    pub fn set_current(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        if handle != 0 {
            self.known_context(handle)?;
        }
        let contexts = &mut self.thread(thread).contexts;
        contexts.pop();
        if handle != 0 {
            contexts.push(handle);
        }
        Ok(())
    }

    pub fn push_current(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        self.known_context(handle)?;
        self.thread(thread).contexts.push(handle);
        Ok(())
    }

    pub fn pop_current(&mut self, thread: Thread) -> Answer<Handle> {
        self.thread(thread)
            .contexts
            .pop()
            .ok_or(Code::INVALID_CONTEXT)
    }

    pub fn context_flags(&self, thread: Thread) -> Answer<u32> {
        Ok(self.contexts[&self.current(thread)?].flags)
    }

    /// Limits are kept. A stack beyond the usual takes device memory, if the setting says how much.
    pub fn set_limit(&mut self, thread: Thread, limit: i32, value: usize) -> Answer<()> {
        self.limit(thread, limit)?;
        let current = self.current(thread)?;
        let (device, before) = (self.device_of(current), self.contexts[&current].stack);
        let more = value.saturating_sub(LIMITS[STACK as usize]) as u64;
        let stack = match limit {
            STACK => more.checked_mul(self.stack_cost),
            _ => Some(before),
        };
        let stack = stack.ok_or(Code::OUT_OF_MEMORY)?;
        self.take(device, stack.saturating_sub(before))?;
        self.give(device, before.saturating_sub(stack));
        if let Some(context) = self.contexts.get_mut(&current) {
            context.stack = stack;
            context.limits[limit as usize] = value;
        }
        Ok(())
    }

    pub fn limit(&self, thread: Thread, limit: i32) -> Answer<usize> {
        let limits = &self.contexts[&self.current(thread)?].limits;
        let value = limits.get(limit as usize).copied();
        value.ok_or(Code::UNSUPPORTED_LIMIT)
    }

    /// The device of a context that is named, or of the current one where none is.
    pub fn named_context(&self, thread: Thread, handle: Handle) -> Answer<usize> {
        if handle == 0 {
            return self.current_device(thread);
        }
        Ok(self.device_of(self.known_context(handle)?))
    }

    /// Waits for everything in the current context.
    pub fn synchronise_context(&mut self, thread: Thread) -> Answer<()> {
        let device = self.current_device(thread)?;
        self.synchronise_device(thread, device)
    }

    /// Waits for everything in a context of a device.
    pub fn synchronise_device(&mut self, thread: Thread, device: usize) -> Answer<()> {
        self.refuse_in_capture(thread)?;
        self.trim_after_wait(device);
        Ok(())
    }

    /// `cuCtxAttach` and `cuCtxDetach` count; only a count of one is supported here.
    pub fn detach_context(&mut self, thread: Thread, handle: Handle) -> Answer<()> {
        require(self.current_handle(thread) == handle)?;
        self.destroy_context(thread, handle)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Driver, Thread, ready};
    use crate::settings::Settings;

    #[test]
    fn a_context_is_current_in_its_thread_only() {
        let (mut driver, thread) = ready("2x16GiB");
        assert_eq!(driver.current(Thread(2)).unwrap_err().0, 201);
        let second = driver.create_context(thread, 1, 0).unwrap();
        assert_eq!(driver.current_device(thread), Ok(1));
        assert_eq!(driver.pop_current(thread), Ok(second));
        assert_eq!(driver.current_device(thread), Ok(0));
        driver.push_current(Thread(2), second).unwrap();
        driver.destroy_context(thread, second).unwrap();
        assert_eq!(driver.current(Thread(2)).unwrap_err().0, 709);
        assert_eq!(driver.destroy_context(thread, second).unwrap_err().0, 201);
    }

    #[test]
    fn the_last_release_of_the_primary_context_resets_it() {
        let (mut driver, thread) = ready("2x16GiB");
        let again = driver.retain_primary(0).unwrap();
        driver.alloc(thread, 1 << 20).unwrap();
        driver.release_primary(thread, 0).unwrap();
        assert_eq!(driver.free_memory(0), (16 << 30) - (1 << 20));
        driver.release_primary(thread, 0).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        assert_eq!(driver.primary_state(0), Ok((0, false)));
        assert_eq!(driver.current(thread).unwrap_err().0, 709);
        assert_eq!(driver.release_primary(thread, 0).unwrap_err().0, 201);
        assert_eq!(driver.retain_primary(0), Ok(again));
    }

    #[test]
    fn limits_are_kept_and_a_stack_takes_what_the_setting_says() {
        let settings = Settings {
            stack: 270_336,
            ..Settings::default()
        };
        let mut driver = Driver::new(&settings);
        let thread = Thread(1);
        driver.create_context(thread, 0, 0).unwrap();
        driver.set_limit(thread, 2, 64 << 20).unwrap();
        assert_eq!(driver.limit(thread, 2), Ok(64 << 20));
        assert_eq!(driver.set_limit(thread, 7, 1).unwrap_err().0, 215);
        driver.set_limit(thread, 0, 8192).unwrap();
        assert_eq!((16 << 30) - driver.free_memory(0), 1848 << 20);
        assert_eq!(driver.set_limit(thread, 0, 1 << 20).unwrap_err().0, 2);
        assert_eq!(driver.limit(thread, 0), Ok(8192));
        driver.set_limit(thread, 0, 512).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
        driver.set_limit(thread, 0, 2048).unwrap();
        let context = driver.current(thread).unwrap();
        driver.destroy_context(thread, context).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
    }

    #[test]
    fn a_context_costs_what_the_setting_says() {
        let settings = Settings {
            context: 9 << 30,
            ..Settings::default()
        };
        let mut driver = Driver::new(&settings);
        driver.retain_primary(0).unwrap();
        assert_eq!(driver.free_memory(0), 7 << 30);
        assert_eq!(driver.create_context(Thread(1), 0, 0).unwrap_err().0, 2);
    }
}
