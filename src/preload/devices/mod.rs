//! What we ask the driver ourselves: the current context and its device, a device's description, free memory. Only
//! calls that are legal at any time, also while a stream is being captured; none that waits for the device.

pub mod pools;

use super::costs::contexts;
use super::doors;
use super::hooks::abi::{Code, Context, DeviceOrdinal, INVALID_DEVICE, NOT_INITIALIZED, SUCCESS};
use super::pretend;
use super::raw::NO_DEVICE;
use super::record::Call;
use oomhook_trace::record::Device;
use oomhook_trace::{Record, Space};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A driver function that we call ourselves, looked up once; past our own hooks.
pub fn driver_function(cache: &AtomicPtr<c_void>, name: &CStr) -> Option<*mut c_void> {
    let mut function = cache.load(Ordering::Acquire);
    if function.is_null() {
        function = doors::driver_symbol(name);
        cache.store(function, Ordering::Release);
    }
    (!function.is_null()).then_some(function)
}

/// `driver!("name" fn(types) => (arguments))`: calls a driver function; `None` if the driver does not have it.
macro_rules! driver {
    ($name:literal ($($type:ty),*) ($($argument:expr),*)) => {{
        static FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
        match driver_function(&FUNCTION, $name) {
            None => None,
            Some(function) => {
                let function: unsafe extern "C" fn($($type),*) -> Code = {
                    // SAFETY: libcuda's own symbol, whose ABI this is.
                    unsafe { std::mem::transmute::<*mut c_void, _>(function) }
                };
                // SAFETY: out-parameters are valid for writes, handles come from the driver.
                Some(unsafe { function($($argument),*) })
            }
        }
    }};
}
pub(crate) use driver;

/// The context and device of a call.
#[derive(Clone, Copy)]
pub struct Place {
    /// The current context; 0 if there is none.
    pub context: u64,
    /// Its device.
    pub device: u8,
}

const NOWHERE: Place = Place {
    context: 0,
    device: NO_DEVICE,
};

/// Known contexts: context << 8 | device, direct-mapped. (Addresses have 56 bits at most.)
static CONTEXTS: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn bucket(context: u64) -> &'static AtomicU64 {
    &CONTEXTS[((context >> 4) ^ (context >> 12)) as usize % CONTEXTS.len()]
}

/// The calling thread's context; 0 if it has none.
#[inline]
pub fn current_context() -> u64 {
    let mut context: Context = std::ptr::null_mut();
    let code = driver!(c"cuCtxGetCurrent" (*mut Context) (&mut context));
    if code == Some(SUCCESS) {
        context as u64
    } else {
        0
    }
}

/// Where the calling thread is.
#[inline]
pub fn current(_call: &Call) -> Place {
    let context = current_context();
    if context == 0 {
        return NOWHERE;
    }
    let known = bucket(context).load(Ordering::Acquire);
    if known >> 8 == context {
        return Place {
            context,
            device: known as u8,
        };
    }
    let device = current_device();
    remember_context(context, device);
    Place { context, device }
}

#[cold]
fn current_device() -> u8 {
    let mut device: DeviceOrdinal = -1;
    let code = driver!(c"cuCtxGetDevice" (*mut DeviceOrdinal) (&mut device));
    if code == Some(SUCCESS) {
        u8::try_from(device).unwrap_or(NO_DEVICE)
    } else {
        NO_DEVICE
    }
}

/// Notes a context's device. True if it was not known.
pub fn remember_context(context: u64, device: u8) -> bool {
    let entry = context << 8 | u64::from(device);
    bucket(context).swap(entry, Ordering::AcqRel) != entry
}

/// The context is gone; its address may come back on another device.
pub fn forget_context(context: u64) {
    let bucket = bucket(context);
    let known = bucket.load(Ordering::Acquire);
    if known >> 8 == context {
        let _ = bucket.compare_exchange(known, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// True if any context is known on the device.
pub fn has_context(device: u8) -> bool {
    CONTEXTS.iter().any(|bucket| {
        let known = bucket.load(Ordering::Acquire);
        known != 0 && known as u8 == device
    })
}

/// The device of a known context.
pub fn device_of(context: u64) -> Option<u8> {
    let known = bucket(context).load(Ordering::Acquire);
    (known != 0 && known >> 8 == context).then_some(known as u8)
}

/// The device's primary context is gone; those that the program made by itself stay. Which one it was; 0 if it was not known.
pub fn forget_primary(device: u8) -> u64 {
    let mut gone = 0;
    for bucket in &CONTEXTS {
        let known = bucket.load(Ordering::Acquire);
        if known != 0 && known as u8 == device && !contexts::is_explicit(known >> 8) {
            let _ = bucket.compare_exchange(known, 0, Ordering::AcqRel, Ordering::Relaxed);
            gone = known >> 8;
        }
    }
    gone
}

/// True if the device's primary context exists.
pub fn primary_is_active(device: DeviceOrdinal) -> bool {
    let (mut flags, mut active): (c_uint, c_int) = (0, 0);
    let code = driver!(c"cuDevicePrimaryCtxGetState" (DeviceOrdinal, *mut c_uint, *mut c_int) (device, &mut flags, &mut active));
    code == Some(SUCCESS) && active != 0
}

/// Free and total bytes as the program is told: those of the driver, unless a size is pretended.
#[cold]
pub fn memory_info(device: u8) -> Option<(u64, u64)> {
    if device == NO_DEVICE {
        return None;
    }
    pretend::shown(device, look(device))
}

/// Free and total bytes, if the device is the current one (the driver answers for that alone).
#[cold]
pub fn look(device: u8) -> Option<(u64, u64)> {
    if device == NO_DEVICE || current_device() != device {
        return None;
    }
    let (mut free, mut total) = (0usize, 0usize);
    let code = driver!(c"cuMemGetInfo_v2" (*mut usize, *mut usize) (&mut free, &mut total));
    (code == Some(SUCCESS)).then_some((free as u64, total as u64))
}

/// A limit of the current context.
#[cold]
pub fn limit(number: c_int) -> Option<u64> {
    let mut value = 0usize;
    let code = driver!(c"cuCtxGetLimit" (*mut usize, c_int) (&mut value, number));
    (code == Some(SUCCESS)).then_some(value as u64)
}

/// Total bytes of any device.
#[cold]
pub fn total(device: u8) -> Option<u64> {
    let mut total = 0usize;
    let code = driver!(c"cuDeviceTotalMem_v2" (*mut usize, DeviceOrdinal) (&mut total, DeviceOrdinal::from(device)));
    (code == Some(SUCCESS)).then_some(total as u64)
}

/// Where stream-ordered memory came from.
#[inline]
pub fn of_pool(pool: *mut c_void, address: u64) -> (Space, u8) {
    if pool.is_null() {
        return (Space::Async, current_ordinal());
    }
    pools::place(pool as u64).unwrap_or_else(|| (Space::Async, device_of_pointer(address)))
}

/// Bytes of the allocation that holds an address, as the driver knows it; 0 if it does not say.
pub fn range_size(address: u64) -> u64 {
    let (mut base, mut size) = (0u64, 0usize);
    let code = driver!(c"cuMemGetAddressRange_v2" (*mut u64, *mut usize, u64) (&mut base, &mut size, address));
    if code == Some(SUCCESS) {
        size as u64
    } else {
        0
    }
}

/// The current device.
pub fn current_ordinal() -> u8 {
    let mut context: Context = std::ptr::null_mut();
    let code = driver!(c"cuCtxGetCurrent" (*mut Context) (&mut context));
    let known = bucket(context as u64).load(Ordering::Acquire);
    if code == Some(SUCCESS) && known >> 8 == context as u64 && known != 0 {
        return known as u8;
    }
    current_device()
}

fn device_of_pointer(address: u64) -> u8 {
    /// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
    const DEVICE_ORDINAL: c_int = 9;
    let mut device: c_int = -1;
    let out: *mut c_void = (&raw mut device).cast();
    let code =
        driver!(c"cuPointerGetAttribute" (*mut c_void, c_int, u64) (out, DEVICE_ORDINAL, address));
    if code == Some(SUCCESS) {
        u8::try_from(device).unwrap_or(NO_DEVICE)
    } else {
        current_device()
    }
}

/// UUIDs of announced devices. Leaked: others read them.
static UUIDS: [AtomicPtr<[u8; 16]>; 64] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];

/// The UUID of an announced device.
pub fn uuid(device: u8) -> Option<[u8; 16]> {
    let known = UUIDS.get(usize::from(device))?.load(Ordering::Acquire);
    // SAFETY: leaked by `describe`, never freed.
    unsafe { known.as_ref() }.copied()
}

/// Devices described in the trace already, a bit each.
static ANNOUNCED: AtomicU64 = AtomicU64::new(0);

/// Describes a device at its first event.
#[inline]
pub fn announce(call: &Call, device: u8) {
    if device < 64 && ANNOUNCED.load(Ordering::Relaxed) & (1 << device) == 0 {
        describe(call, device);
    }
}

/// True if there is no such device, or nothing is known of any so far: the program has not called `cuInit`.
fn is_nowhere(device: DeviceOrdinal) -> bool {
    let mut found: DeviceOrdinal = -1;
    let code = driver!(c"cuDeviceGet" (*mut DeviceOrdinal, c_int) (&mut found, device));
    matches!(code, Some(NOT_INITIALIZED | INVALID_DEVICE))
}

#[cold]
fn describe(call: &Call, ordinal: u8) {
    if ANNOUNCED.fetch_or(1 << ordinal, Ordering::AcqRel) & (1 << ordinal) != 0 {
        return;
    }
    let device = DeviceOrdinal::from(ordinal);
    if is_nowhere(device) {
        ANNOUNCED.fetch_and(!(1 << ordinal), Ordering::AcqRel);
        return;
    }
    let mut name = [0u8; 256];
    let mut pci = [0u8; 64];
    let mut uuid = [0u8; 16];
    let text = |code: Option<Code>, bytes: &[u8]| match (code, CStr::from_bytes_until_nul(bytes)) {
        (Some(SUCCESS), Ok(text)) => text.to_string_lossy().into_owned(),
        _ => String::new(),
    };
    let code = driver!(c"cuDeviceGetName" (*mut c_char, c_int, DeviceOrdinal) (name.as_mut_ptr().cast(), name.len() as c_int - 1, device));
    let name = text(code, &name);
    let code = driver!(c"cuDeviceGetPCIBusId" (*mut c_char, c_int, DeviceOrdinal) (pci.as_mut_ptr().cast(), pci.len() as c_int - 1, device));
    let pci_bus_id = text(code, &pci);
    // The second version tells MIG slices apart; drivers before 11.4 lack it.
    let code = driver!(c"cuDeviceGetUuid_v2" (*mut [u8; 16], DeviceOrdinal) (&mut uuid, device))
        .or_else(|| driver!(c"cuDeviceGetUuid" (*mut [u8; 16], DeviceOrdinal) (&mut uuid, device)));
    let uuid = if code == Some(SUCCESS) {
        UUIDS[usize::from(ordinal)].store(Box::into_raw(Box::new(uuid)), Ordering::Release);
        uuid.to_vec()
    } else {
        Vec::new()
    };
    call.announce(Record::Device(Device {
        ordinal: u32::from(ordinal),
        uuid,
        name,
        pci_bus_id,
        // What it has, not what it is pretended to have: whoever reads the trace wants both.
        total_bytes: total(ordinal).unwrap_or(0),
    }));
}

/// Ordinals of the devices seen so far.
pub fn announced() -> impl Iterator<Item = u8> {
    let seen = ANNOUNCED.load(Ordering::Acquire);
    (0..64).filter(move |device| seen & (1 << device) != 0)
}
