//! Modules, libraries and kernels, as far as their memory and their handles go.

use super::memory::Origin;
use super::{Driver, Thread};
use crate::abi::{DevicePtr, Handle};
use crate::codes::{Answer, Code};
use crate::os::Mapping;
use crate::ptx::{self, Global};
use std::collections::{BTreeMap, BTreeSet};

/// A module, which has one context and goes with it, or a library, which is loaded into any.
#[derive(Debug)]
pub(super) struct Module {
    library: bool,
    globals: Vec<Global>,
    functions: BTreeMap<String, Handle>,
    /// By context.
    loaded: BTreeMap<Handle, Loaded>,
}

/// A module in a context.
#[derive(Debug)]
struct Loaded {
    /// The handle as a module.
    handle: Handle,
    device: usize,
    taken: u64,
    /// Functions that have been launched there.
    launched: BTreeSet<Handle>,
    /// In the order of the globals.
    addresses: Vec<DevicePtr>,
}

impl Driver {
    /// `cuModuleLoad` and its relatives.
    pub fn load_module(&mut self, thread: Thread, image: &[u8]) -> Answer<Handle> {
        self.current(thread)?;
        self.load(thread, image, false)
    }

    /// `cuLibraryLoadData` and its relative. It needs no context, and takes memory in one only.
    pub fn load_library(&mut self, thread: Thread, image: &[u8]) -> Answer<Handle> {
        self.load(thread, image, true)
    }

    fn load(&mut self, thread: Thread, image: &[u8], library: bool) -> Answer<Handle> {
        self.refuse_in_capture(thread)?;
        let kind = ptx::kind(|magic| image.starts_with(magic)).ok_or(Code::INVALID_IMAGE)?;
        let globals = match kind {
            ptx::Kind::Text => ptx::globals(&String::from_utf8_lossy(image)),
            ptx::Kind::Binary => Vec::new(),
        };
        let handle = self.new_handle();
        let module = Module {
            library,
            globals,
            functions: BTreeMap::new(),
            loaded: BTreeMap::new(),
        };
        self.modules.insert(handle, module);
        if let Ok(context) = self.current(thread)
            && let Err(code) = self.load_into(handle, context)
        {
            self.modules.remove(&handle);
            return Err(code);
        }
        Ok(handle)
    }

    /// Takes the memory of a module in a context, unless it is there.
    fn load_into(&mut self, handle: Handle, context: Handle) -> Answer<()> {
        let module = self.modules.get(&handle).ok_or(Code::INVALID_HANDLE)?;
        if module.loaded.contains_key(&context) {
            return Ok(());
        }
        let (library, globals) = (module.library, module.globals.clone());
        let device = self.device_of(context);
        let taken = self.module_cost;
        self.take(device, taken)?;
        let mut addresses = Vec::new();
        for global in &globals {
            match self.add_global(global, device, context) {
                Ok(address) => addresses.push(address),
                Err(code) => {
                    addresses.into_iter().for_each(|at| self.remove_block(at));
                    self.give(device, taken);
                    return Err(code);
                }
            }
        }
        let loaded = Loaded {
            handle: if library { self.new_handle() } else { handle },
            device,
            taken,
            launched: BTreeSet::new(),
            addresses,
        };
        if let Some(module) = self.modules.get_mut(&handle) {
            module.loaded.insert(context, loaded);
        }
        Ok(())
    }

    /// Memory for a variable: the device's, or real if it is managed.
    fn add_global(&mut self, global: &Global, device: usize, context: Handle) -> Answer<DevicePtr> {
        let (address, memory) = if global.managed {
            let memory = Mapping::new(global.bytes as usize).ok_or(Code::OUT_OF_MEMORY)?;
            (memory.address() as u64, Some(memory))
        } else {
            let (address, taken) = self.take_address(global.bytes)?;
            if let Err(code) = self.take(device, taken) {
                self.give_address(address, taken);
                return Err(code);
            }
            (address, None)
        };
        let origin = Origin::Global { memory };
        self.add_block(address, global.bytes, device, context, origin);
        Ok(address)
    }

    fn unload(&mut self, loaded: Loaded) {
        self.give(loaded.device, loaded.taken);
        for address in loaded.addresses {
            self.remove_block(address);
        }
    }

    fn known(&self, handle: Handle, library: bool) -> Answer<()> {
        let module = self.modules.get(&handle);
        let same = module.is_some_and(|module| module.library == library);
        same.then_some(()).ok_or(Code::INVALID_HANDLE)
    }

    /// `cuModuleUnload`, `cuLibraryUnload`.
    pub fn unload_module(&mut self, handle: Handle, library: bool) -> Answer<()> {
        self.known(handle, library)?;
        if let Some(module) = self.modules.remove(&handle) {
            for loaded in module.loaded.into_values() {
                self.unload(loaded);
            }
        }
        Ok(())
    }

    /// The entry and the context that a module handle means; a library's module is one too.
    fn find_module(&self, handle: Handle) -> Answer<(Handle, Handle)> {
        let mut all = self.modules.iter().flat_map(|(&key, module)| {
            let loaded = module.loaded.iter();
            loaded.map(move |(&context, loaded)| (key, context, loaded.handle))
        });
        let found = all.find(|(_, _, module)| *module == handle);
        let (key, context, _) = found.ok_or(Code::INVALID_HANDLE)?;
        Ok((key, context))
    }

    fn function(&mut self, key: Handle, name: &str) -> Answer<Handle> {
        let fresh = self.new_handle();
        let module = self.modules.get_mut(&key).ok_or(Code::INVALID_HANDLE)?;
        Ok(*module.functions.entry(name.to_owned()).or_insert(fresh))
    }

    /// `cuModuleGetFunction`: every name is one, and the same name the same.
    pub fn module_function(&mut self, module: Handle, name: &str) -> Answer<Handle> {
        let (key, _) = self.find_module(module)?;
        self.function(key, name)
    }

    /// `cuLibraryGetKernel`.
    pub fn library_kernel(&mut self, library: Handle, name: &str) -> Answer<Handle> {
        self.known(library, true)?;
        self.function(library, name)
    }

    /// `cuKernelGetFunction`: loads the library into the current context.
    pub fn kernel_function(&mut self, thread: Thread, kernel: Handle) -> Answer<Handle> {
        let key = self.module_of_function(kernel)?;
        let context = self.current(thread)?;
        self.load_into(key, context)?;
        Ok(kernel)
    }

    /// `cuLibraryGetModule`, and so its part in the current context.
    pub fn library_module(&mut self, thread: Thread, library: Handle) -> Answer<Handle> {
        self.known(library, true)?;
        let context = self.current(thread)?;
        self.load_into(library, context)?;
        let module = &self.modules[&library];
        Ok(module.loaded[&context].handle)
    }

    /// `cuModuleGetGlobal`, with the size. `managed`: only if it is, or only if it is not.
    pub fn module_global(
        &self,
        module: Handle,
        name: &str,
        managed: Option<bool>,
    ) -> Answer<(DevicePtr, u64)> {
        let (key, context) = self.find_module(module)?;
        let module = &self.modules[&key];
        let fits = |global: &Global| {
            global.name == name && managed.is_none_or(|managed| managed == global.managed)
        };
        let index = module.globals.iter().position(fits);
        let index = index.ok_or(Code::NOT_FOUND)?;
        let address = module.loaded[&context].addresses[index];
        Ok((address, module.globals[index].bytes))
    }

    /// `cuLibraryGetGlobal`, `cuLibraryGetManaged`.
    pub fn library_global(
        &mut self,
        thread: Thread,
        library: Handle,
        name: &str,
        managed: bool,
    ) -> Answer<(DevicePtr, u64)> {
        let module = self.library_module(thread, library)?;
        self.module_global(module, name, Some(managed))
    }

    fn module_of_function(&self, function: Handle) -> Answer<Handle> {
        let has = |module: &Module| module.functions.values().any(|&known| known == function);
        let found = self.modules.iter().find(|(_, module)| has(module));
        found.map(|(&key, _)| key).ok_or(Code::INVALID_HANDLE)
    }

    /// Whether a kernel may be launched.
    pub fn known_function(&self, function: Handle) -> Answer<()> {
        self.module_of_function(function).map(|_| ())
    }

    /// Loads a kernel's library into a context where it is to be launched, and pays for the first launch of the function.
    pub(super) fn pay_for_function(&mut self, function: Handle, context: Handle) -> Answer<()> {
        let key = self.module_of_function(function)?;
        if self.modules.get(&key).is_some_and(|module| module.library) {
            self.load_into(key, context)?;
        }
        let (device, cost) = (self.device_of(context), self.hidden.function);
        let known = |loaded: &Loaded| loaded.launched.contains(&function);
        let here = self.modules.get(&key);
        let here = here.and_then(|module| module.loaded.get(&context));
        if here.is_none_or(known) {
            return Ok(());
        }
        self.take(device, cost)?;
        let module = self.modules.get_mut(&key);
        if let Some(loaded) = module.and_then(|module| module.loaded.get_mut(&context)) {
            loaded.launched.insert(function);
            loaded.taken += cost;
        }
        Ok(())
    }

    /// Modules of a context go with it; libraries stay, without memory there.
    pub(super) fn unload_modules_of(&mut self, context: Handle) {
        let mut gone = Vec::new();
        self.modules.retain(|_, module| {
            let loaded = module.loaded.remove(&context);
            let stays = module.library || loaded.is_none();
            gone.extend(loaded);
            stays
        });
        for loaded in gone {
            self.unload(loaded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Driver, Thread, ready};
    use crate::settings::Settings;

    const MIB: u64 = 1 << 20;
    const PTX: &[u8] = b".version 8.0\n.global .b8 table[1048576];\n\
        .global .attribute(.managed) .u32 shared;";

    /// A driver whose modules take 2 MiB each.
    fn scene() -> (Driver, Thread) {
        let settings = Settings {
            module: 2 * MIB,
            ..Settings::default()
        };
        let mut driver = Driver::new(&settings);
        let context = driver.retain_primary(0).unwrap();
        driver.set_current(Thread(1), context).unwrap();
        (driver, Thread(1))
    }

    fn used(driver: &Driver) -> u64 {
        driver.total(0) - driver.free_memory(0)
    }

    #[test]
    fn modules_take_memory_and_junk_is_no_image() {
        let (mut driver, thread) = scene();
        assert_eq!(driver.load_module(thread, b"junk").unwrap_err().0, 200);
        let modules: Vec<_> = (0..100)
            .map(|_| driver.load_module(thread, b"\x7fELF").unwrap())
            .collect();
        assert_eq!(used(&driver), 209_715_200);
        let kernel = driver.module_function(modules[0], "kernel").unwrap();
        assert_eq!(driver.module_function(modules[0], "kernel"), Ok(kernel));
        assert!(driver.known_function(kernel).is_ok());
        driver.unload_module(modules[0], false).unwrap();
        assert_eq!(driver.known_function(kernel).unwrap_err().0, 400);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(used(&driver), 0);
        assert_eq!(driver.unload_module(modules[1], false).unwrap_err().0, 400);
    }

    #[test]
    fn without_a_setting_a_module_takes_nothing() {
        let (mut driver, thread) = ready("2x16GiB");
        driver.load_module(thread, b"\x7fELF").unwrap();
        assert_eq!(used(&driver), 0);
        let library = driver.load_library(Thread(9), b"\x7fELF").unwrap();
        assert_eq!(driver.unload_module(library, false).unwrap_err().0, 400);
        assert_eq!(
            driver.load_module(Thread(9), b"\x7fELF").unwrap_err().0,
            201
        );
    }

    #[test]
    fn variables_are_memory_that_the_program_cannot_free() {
        let (mut driver, thread) = scene();
        let module = driver.load_module(thread, PTX).unwrap();
        assert_eq!(used(&driver), 3 * MIB);
        let (table, bytes) = driver.module_global(module, "table", None).unwrap();
        assert_eq!(bytes, MIB);
        assert_eq!(driver.free(thread, table).unwrap_err().0, 1);
        let (shared, _) = driver.module_global(module, "shared", None).unwrap();
        assert!(driver.place(shared).unwrap().managed);
        assert_eq!(driver.module_global(module, "no", None).unwrap_err().0, 500);
        driver.unload_module(module, false).unwrap();
        assert_eq!(used(&driver), 0);
        assert!(driver.place(table).is_none());
    }

    #[test]
    fn a_library_takes_memory_in_each_context_and_outlives_them() {
        let (mut driver, thread) = scene();
        let library = driver.load_library(Thread(9), PTX).unwrap();
        assert_eq!(used(&driver), 0);
        let kernel = driver.library_kernel(library, "kernel").unwrap();
        assert_eq!(
            driver.kernel_function(Thread(9), kernel).unwrap_err().0,
            201
        );
        assert_eq!(driver.kernel_function(thread, kernel), Ok(kernel));
        let module = driver.library_module(thread, library).unwrap();
        assert_eq!(driver.module_function(module, "kernel"), Ok(kernel));
        assert_eq!(driver.unload_module(module, false).unwrap_err().0, 400);
        assert_eq!(used(&driver), 3 * MIB);
        driver.create_context(thread, 0, 0).unwrap();
        let managed = driver.library_global(thread, library, "shared", true);
        assert_eq!(managed.unwrap().1, 4);
        let device = driver.library_global(thread, library, "shared", false);
        assert_eq!(device.unwrap_err().0, 500);
        assert_eq!(used(&driver), 6 * MIB);
        driver.reset_primary(thread, 0).unwrap();
        assert_eq!(used(&driver), 3 * MIB);
        driver.unload_module(library, true).unwrap();
        assert_eq!(used(&driver), 0);
    }

    #[test]
    fn a_module_that_does_not_fit_leaves_nothing() {
        let (mut driver, thread) = scene();
        driver.alloc(thread, (16 << 30) - 2 * MIB).unwrap();
        assert_eq!(driver.load_module(thread, PTX).unwrap_err().0, 2);
        assert_eq!(driver.free_memory(0), 2 * MIB);
        driver.load_module(thread, b"\x7fELF").unwrap();
    }
}
