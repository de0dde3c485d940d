//! NVML's exported functions. They see the same devices as the driver's, and need no context.

mod abi;

use crate::codes::{Answer, number};
use crate::entry::pci_name;
use crate::gate;
use crate::pointer::{Out, Text, TextOut};
use crate::state::{DeviceMemory, Driver, User};
use abi::{Device, Memory, MemoryV2, PciInfo, ProcessInfo, Utilization};
use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

/// The version of the driver, which only NVML knows.
const DRIVER: &str = "580.95.05";
const NVML: &str = "13.580.95.05";
/// Handles of devices: this, and the number of the device.
const FIRST: Device = 0x6E76_6D6C_0000;

/// Initialisations that are not taken back yet.
static INITIALISED: AtomicU32 = AtomicU32::new(0);

/// One call of an exported function.
#[derive(Clone, Copy)]
struct Call {
    symbol: &'static str,
}

impl Call {
    /// Does the work of a function that needs `nvmlInit` first.
    fn run<T>(self, work: impl FnOnce(&mut Driver) -> Answer<T>) -> Answer<T> {
        self.pass(|driver| match INITIALISED.load(Ordering::SeqCst) {
            0 => Err(abi::UNINITIALIZED),
            _ => work(driver),
        })
    }

    fn pass<T>(self, work: impl FnOnce(&mut Driver) -> Answer<T>) -> Answer<T> {
        gate::ask(self.symbol, work).unwrap_or(Err(abi::UNKNOWN))
    }

    /// [`Call::run`] for a function with one result, whose place may not be NULL.
    fn give<T: Copy>(self, out: Out<T>, work: impl FnOnce(&mut Driver) -> Answer<T>) -> c_int {
        let answer = self.run(|driver| {
            require(out.is_set())?;
            work(driver)
        });
        out.store(answer);
        number(&answer)
    }

    /// [`Call::run`] for a function whose result is a text that has to fit.
    fn tell(
        self,
        out: TextOut,
        length: u32,
        work: impl FnOnce(&mut Driver) -> Answer<String>,
    ) -> c_int {
        number(&self.run(|driver| {
            require(out.is_set())?;
            let text = work(driver)?;
            if text.len() >= length as usize {
                return Err(abi::INSUFFICIENT_SIZE);
            }
            out.put(&text, length as usize);
            Ok(())
        }))
    }

    /// Processes, by the protocol of two calls: too small a count is answered by the right one.
    fn list(
        self,
        device: Device,
        count: Out<u32>,
        out: Out<ProcessInfo>,
        users: impl FnOnce(&Driver, usize) -> Vec<User>,
    ) -> c_int {
        number(&self.run(|driver| {
            let room = count.get().ok_or(abi::INVALID_ARGUMENT)?;
            let users = users(driver, index(driver, device)?);
            let needed = users.len() as u32;
            if room < needed {
                count.put(needed);
                return Err(abi::INSUFFICIENT_SIZE);
            }
            require(needed == 0 || out.is_set())?;
            count.put(needed);
            for (at, user) in users.iter().enumerate() {
                out.nth(at).put(ProcessInfo {
                    pid: user.pid,
                    used: user.bytes.unwrap_or(abi::NOT_AVAILABLE),
                    gpu_instance: abi::NO_INSTANCE,
                    compute_instance: abi::NO_INSTANCE,
                });
            }
            Ok(())
        }))
    }
}

fn require(condition: bool) -> Answer<()> {
    condition.then_some(()).ok_or(abi::INVALID_ARGUMENT)
}

/// The number of the device that a handle means.
fn index(driver: &Driver, device: Device) -> Answer<usize> {
    let index = device.checked_sub(FIRST);
    let known = index.filter(|&index| index < driver.device_count());
    known.ok_or(abi::INVALID_ARGUMENT)
}

/// The handle of the first device of which something holds.
fn find(driver: &Driver, holds: impl Fn(usize) -> bool) -> Answer<Device> {
    let found = (0..driver.device_count()).find(|&device| holds(device));
    found.map(|device| FIRST + device).ok_or(abi::NOT_FOUND)
}

/// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, of the bytes that `cuDeviceGetUuid` gives.
fn uuid_text(bytes: &[u8; 16]) -> String {
    let mut text = "GPU-".to_owned();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn memory(call: Call, device: Device, out: Out<Memory>) -> c_int {
    call.give(out, |driver| {
        let device = index(driver, device)?;
        let DeviceMemory { total, free, .. } = driver.census_memory(device);
        let used = total - free;
        Ok(Memory { total, free, used })
    })
}

fn memory_v2(call: Call, device: Device, out: Out<MemoryV2>) -> c_int {
    number(&call.run(|driver| {
        let version = out.get().ok_or(abi::INVALID_ARGUMENT)?.version;
        if version != abi::MEMORY_V2 {
            return Err(abi::VERSION_MISMATCH);
        }
        let memory = driver.census_memory(index(driver, device)?);
        out.put(MemoryV2 {
            version,
            total: memory.total,
            reserved: memory.reserved,
            free: memory.free,
            used: memory.used,
        });
        Ok(())
    }))
}

fn name_of(driver: &Driver, pid: u32) -> Answer<String> {
    if let Some(name) = driver.neighbour_name(pid) {
        return Ok(name.to_owned());
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| abi::NOT_FOUND)?;
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(first).into_owned())
}

/// Exports functions of the form `fn symbol(call, arguments) { code }`.
macro_rules! functions {
    ($(fn $symbol:ident($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block)*) => { $(
        #[allow(non_snake_case)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $symbol($($argument: $type),*) -> c_int {
            let $call = Call { symbol: stringify!($symbol) };
            $body
        }
    )*

        #[cfg(test)]
        const FUNCTIONS: &[(&str, *const ())] = &[$((stringify!($symbol), $symbol as *const ())),*];
    };
}

functions! {
    fn nvmlInit_v2(call) {
        number(&call.pass(|_| {
            INITIALISED.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
    }
    fn nvmlShutdown(call) {
        number(&call.run(|_| {
            INITIALISED.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }))
    }
    fn nvmlSystemGetDriverVersion(call, out: TextOut, length: u32) {
        call.tell(out, length, |_| Ok(DRIVER.to_owned()))
    }
    fn nvmlSystemGetNVMLVersion(call, out: TextOut, length: u32) {
        call.tell(out, length, |_| Ok(NVML.to_owned()))
    }
    fn nvmlSystemGetCudaDriverVersion(call, out: Out<c_int>) {
        call.give(out, |driver| Ok(driver.version))
    }
    fn nvmlSystemGetCudaDriverVersion_v2(call, out: Out<c_int>) {
        call.give(out, |driver| Ok(driver.version))
    }
    fn nvmlSystemGetProcessName(call, pid: u32, out: TextOut, length: u32) {
        number(&call.run(|driver| {
            require(out.is_set() && length > 0)?;
            // What is too long is cut.
            out.put(&name_of(driver, pid)?, length as usize);
            Ok(())
        }))
    }
    fn nvmlDeviceGetCount_v2(call, out: Out<u32>) {
        call.give(out, |driver| Ok(driver.device_count() as u32))
    }
    fn nvmlDeviceGetHandleByIndex_v2(call, number: u32, out: Out<Device>) {
        call.give(out, |driver| {
            let handle = FIRST + number as usize;
            index(driver, handle).map(|_| handle)
        })
    }
    fn nvmlDeviceGetHandleByUUID(call, uuid: Text, out: Out<Device>) {
        call.give(out, |driver| {
            let uuid = uuid.get().ok_or(abi::INVALID_ARGUMENT)?.to_string_lossy();
            find(driver, |device| uuid_text(&driver.model(device).uuid) == uuid)
        })
    }
    fn nvmlDeviceGetHandleByPciBusId_v2(call, id: Text, out: Out<Device>) {
        call.give(out, |driver| {
            let id = id.get().ok_or(abi::INVALID_ARGUMENT)?.to_string_lossy();
            // The domain has four digits or eight.
            find(driver, |device| {
                let name = pci_name(driver.model(device).bus);
                [name.clone(), format!("0000{name}")].iter().any(|name| name.eq_ignore_ascii_case(&id))
            })
        })
    }
    fn nvmlDeviceGetUUID(call, device: Device, out: TextOut, length: u32) {
        call.tell(out, length, |driver| {
            Ok(uuid_text(&driver.model(index(driver, device)?).uuid))
        })
    }
    fn nvmlDeviceGetName(call, device: Device, out: TextOut, length: u32) {
        call.tell(out, length, |driver| {
            Ok(driver.model(index(driver, device)?).name.clone())
        })
    }
    fn nvmlDeviceGetPciInfo_v3(call, device: Device, out: Out<PciInfo>) {
        call.give(out, |driver| {
            let bus = driver.model(index(driver, device)?).bus;
            Ok(PciInfo {
                legacy: abi::field(&pci_name(bus)),
                domain: 0,
                bus: bus as u32,
                device: 0,
                id: 0x2335_10DE,
                subsystem: 0x18BE_10DE,
                bus_id: abi::field(&format!("0000{}", pci_name(bus))),
            })
        })
    }
    fn nvmlDeviceGetMemoryInfo(call, device: Device, out: Out<Memory>) {
        memory(call, device, out)
    }
    fn nvmlDeviceGetMemoryInfo_v2(call, device: Device, out: Out<MemoryV2>) {
        memory_v2(call, device, out)
    }
    fn nvmlDeviceGetComputeRunningProcesses_v3(call, device: Device, count: Out<u32>, out: Out<ProcessInfo>) {
        call.list(device, count, out, |driver, device| driver.computing(device, gate::process()))
    }
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(call, device: Device, count: Out<u32>, out: Out<ProcessInfo>) {
        call.list(device, count, out, Driver::drawing)
    }
    fn nvmlDeviceGetMigMode(call, device: Device, current: Out<u32>, pending: Out<u32>) {
        number(&call.run(|driver| {
            require(current.is_set() && pending.is_set())?;
            index(driver, device)?;
            current.put(driver.mig.into());
            pending.put(driver.mig.into());
            Ok(())
        }))
    }
    fn nvmlDeviceGetComputeMode(call, device: Device, out: Out<u32>) {
        call.give(out, |driver| index(driver, device).map(|_| driver.compute_mode))
    }
    fn nvmlDeviceGetUtilizationRates(call, device: Device, out: Out<Utilization>) {
        // Nothing is ever computed here.
        call.give(out, |driver| index(driver, device).map(|_| Utilization { gpu: 0, memory: 0 }))
    }
    fn nvmlDeviceGetDriverModel(call, _device: Device, _current: Out<u32>, _pending: Out<u32>) {
        // Only Windows has such models.
        number(&call.run(|_| Err::<(), _>(abi::NOT_SUPPORTED)))
    }
}

#[allow(non_snake_case)]
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    abi::text(code).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_drivers_resolver_knows_none_of_these() {
        let addresses: BTreeSet<_> = FUNCTIONS.iter().map(|(_, address)| *address).collect();
        assert!(crate::entry::rows().all(|row| !addresses.contains(&row.address)));
        for (name, _) in FUNCTIONS {
            assert!(name.starts_with("nvml"), "{name}");
        }
    }

    #[test]
    fn every_code_has_a_text() {
        // SAFETY: any number may be asked about.
        let text = unsafe { std::ffi::CStr::from_ptr(nvmlErrorString(3)) };
        assert_eq!(text, c"Not Supported");
    }

    #[test]
    fn a_uuid_is_written_as_nvml_writes_it() {
        assert_eq!(
            uuid_text(b"\x01oomhook-sim-gpu"),
            "GPU-016f6f6d-686f-6f6b-2d73-696d2d677075"
        );
    }
}
