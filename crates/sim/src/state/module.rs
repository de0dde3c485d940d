//! Modules, libraries and kernels, as far as their memory and their handles go.

use super::{Driver, Thread};
use crate::abi::Handle;
use crate::codes::{Answer, Code};

/// Device memory of a loaded module.
const COST: u64 = 2 << 20;

#[derive(Debug)]
pub(super) struct Module {
    device: usize,
    context: Handle,
    functions: Vec<Handle>,
}

/// Whether an image is one that the driver would take, by its first bytes.
pub fn is_image(start: [u8; 4]) -> bool {
    let known: [&[u8]; 5] = [b"\x7fELF", b"\x50\xed\x55\xba", b".ver", b"//", b"\n"];
    known.iter().any(|magic| start.starts_with(magic))
}

impl Driver {
    pub fn load_module(&mut self, thread: Thread, start: [u8; 4]) -> Answer<Handle> {
        let context = self.current(thread)?;
        self.refuse_in_capture(thread)?;
        if !is_image(start) {
            return Err(Code::INVALID_IMAGE);
        }
        let device = self.device_of(context);
        self.take(device, COST)?;
        let handle = self.new_handle();
        let functions = Vec::new();
        self.modules.insert(
            handle,
            Module {
                device,
                context,
                functions,
            },
        );
        Ok(handle)
    }

    pub fn unload_module(&mut self, handle: Handle) -> Answer<()> {
        let module = self.modules.remove(&handle).ok_or(Code::INVALID_HANDLE)?;
        self.give(module.device, COST);
        Ok(())
    }

    /// A kernel of a module: every name is one.
    pub fn module_function(&mut self, handle: Handle) -> Answer<Handle> {
        let function = self.new_handle();
        let module = self.modules.get_mut(&handle).ok_or(Code::INVALID_HANDLE)?;
        module.functions.push(function);
        Ok(function)
    }

    pub fn known_module(&self, handle: Handle) -> Answer<()> {
        let known = self.modules.contains_key(&handle);
        known.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    /// Whether a kernel may be launched.
    pub fn known_function(&self, function: Handle) -> Answer<()> {
        let known = self
            .modules
            .values()
            .any(|module| module.functions.contains(&function));
        known.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    pub(super) fn unload_modules_of(&mut self, context: Handle) {
        let of = |module: &Module| module.context == context;
        let gone: Vec<Handle> = self
            .modules
            .iter()
            .filter(|(_, m)| of(m))
            .map(|(&h, _)| h)
            .collect();
        for handle in gone {
            let unloaded = self.unload_module(handle);
            debug_assert!(unloaded.is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ready;

    #[test]
    fn modules_take_memory_and_junk_is_no_image() {
        let (mut driver, thread) = ready("2x16GiB");
        assert_eq!(driver.load_module(thread, *b"junk").unwrap_err().0, 200);
        let modules: Vec<_> = (0..100)
            .map(|_| driver.load_module(thread, *b"\x7fELF").unwrap())
            .collect();
        assert_eq!((16 << 30) - driver.free_memory(0), 209_715_200);
        let kernel = driver.module_function(modules[0]).unwrap();
        assert!(driver.known_function(kernel).is_ok());
        driver.unload_module(modules[0]).unwrap();
        assert_eq!(driver.known_function(kernel).unwrap_err().0, 400);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(driver.free_memory(0), 16 << 30);
    }
}
