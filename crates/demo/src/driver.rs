//! A safe interface to the few driver functions that the demo needs.
//!
//! libcuda is loaded at run time, as every CUDA runtime does it, so the program links nothing of CUDA and starts on any
//! machine.

use libloading::Library;
use std::ffi::c_void;
use std::fmt;
use std::rc::Rc;

/// Why a call did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// libcuda could not be loaded, or lacks a function.
    NoDriver(libloading::Error),
    /// The driver's code (`CUresult`).
    Code(i32),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoDriver(error) => write!(f, "no CUDA driver: {error}"),
            Error::Code(2) => write!(f, "out of memory (CUDA error 2)"),
            Error::Code(code) => write!(f, "CUDA error {code}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// True if the device (or the host) has too little memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Error::Code(2))
    }
}

type Alloc = unsafe extern "C" fn(*mut u64, usize) -> i32;
type Free = unsafe extern "C" fn(u64) -> i32;
type MemoryInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> i32;

/// The driver with a current context on device 0.
pub struct Driver {
    alloc: Alloc,
    free: Free,
    memory_info: MemoryInfo,
    /// Keeps the functions above callable.
    _library: Library,
}

/// Looks a function up.
///
/// # Safety
/// `T` is the C type of the symbol.
unsafe fn function<T: Copy>(library: &Library, name: &str) -> Result<T, Error> {
    // SAFETY: by this function's contract; the caller keeps the library loaded as long as the function.
    unsafe { library.get::<T>(name) }
        .map(|symbol| *symbol)
        .map_err(Error::NoDriver)
}

fn check(code: i32) -> Result<(), Error> {
    if code == 0 {
        Ok(())
    } else {
        Err(Error::Code(code))
    }
}

impl Driver {
    /// Loads the driver and makes device 0's primary context current in this thread.
    ///
    /// # Errors
    /// When there is no driver or no device.
    pub fn open() -> Result<Driver, Error> {
        // SAFETY: libcuda's constructors are made to run in any process.
        let library = unsafe { Library::new("libcuda.so.1") }.map_err(Error::NoDriver)?;
        // SAFETY: the types are those of <cuda.h>.
        unsafe {
            let init: unsafe extern "C" fn(u32) -> i32 = function(&library, "cuInit")?;
            let retain: unsafe extern "C" fn(*mut *mut c_void, i32) -> i32 =
                function(&library, "cuDevicePrimaryCtxRetain")?;
            let set_current: unsafe extern "C" fn(*mut c_void) -> i32 =
                function(&library, "cuCtxSetCurrent")?;
            check(init(0))?;
            let mut context = std::ptr::null_mut();
            check(retain(&mut context, 0))?;
            check(set_current(context))?;
            Ok(Driver {
                alloc: function(&library, "cuMemAlloc_v2")?,
                free: function(&library, "cuMemFree_v2")?,
                memory_info: function(&library, "cuMemGetInfo_v2")?,
                _library: library,
            })
        }
    }

    /// Allocates device memory, freed when the block is dropped.
    ///
    /// # Errors
    /// The driver's code; 2 is out of memory.
    #[inline(never)]
    pub fn alloc(self: &Rc<Driver>, bytes: usize) -> Result<Block, Error> {
        let mut address = 0;
        // SAFETY: the out-parameter is valid for writes.
        check(unsafe { (self.alloc)(&mut address, bytes) })?;
        Ok(Block {
            driver: self.clone(),
            address,
        })
    }

    /// Free and total bytes of the device.
    ///
    /// # Errors
    /// The driver's code.
    pub fn memory_info(&self) -> Result<(usize, usize), Error> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both out-parameters are valid for writes.
        check(unsafe { (self.memory_info)(&mut free, &mut total) })?;
        Ok((free, total))
    }
}

/// A block of device memory.
pub struct Block {
    driver: Rc<Driver>,
    address: u64,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by this driver, freed once. The code is of no use here.
        unsafe { (self.driver.free)(self.address) };
    }
}
