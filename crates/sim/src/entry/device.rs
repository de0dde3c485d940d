//! Initialisation, versions, devices and error texts.

use super::entries;
use crate::abi::Device;
use crate::codes::{self, Code, number, require};
use crate::gate;
use crate::pointer::{In, Out, Text, TextOut};
use std::ffi::{c_char, c_int, c_void};

/// `cuModuleGetLoadingMode`: lazy.
const LAZY: c_int = 2;

pub fn pci_name(bus: i32) -> String {
    format!("0000:{bus:02X}:00.0")
}

fn text_of(
    code: c_int,
    out: Out<*const c_char>,
    find: impl Fn(c_int) -> Option<&'static std::ffi::CStr>,
) -> c_int {
    let found = find(code);
    out.put(found.map_or(std::ptr::null(), |text| text.as_ptr()));
    let known = found.is_some() && out.is_set();
    if known {
        Code::SUCCESS.0
    } else {
        Code::INVALID_VALUE.0
    }
}

entries! {
    "cuInit" 2000 => fn cuInit(call, flags: u32) {
        number(&call.pass(|driver, _| {
            require(flags == 0)?;
            if driver.device_count() == 0 {
                return Err(Code::NO_DEVICE);
            }
            gate::initialise();
            Ok(())
        }))
    }
    "cuDriverGetVersion" 2020 => fn cuDriverGetVersion(call, out: Out<c_int>) {
        let answer = call.pass(|driver, _| require(out.is_set()).map(|()| driver.version));
        out.store(answer);
        number(&answer)
    }
    "cuDeviceGetCount" 2000 => fn cuDeviceGetCount(call, out: Out<c_int>) {
        call.give(out, |driver, _| Ok(driver.device_count() as c_int))
    }
    "cuDeviceGet" 2000 => fn cuDeviceGet(call, out: Out<Device>, ordinal: c_int) {
        call.give(out, |driver, _| driver.device(ordinal).map(|_| ordinal))
    }
    "cuDeviceGetName" 2000 => fn cuDeviceGetName(call, name: TextOut, length: c_int, device: Device) {
        call.act(|driver, _| {
            require(name.is_set() && length > 0)?;
            let device = driver.device(device)?;
            name.put(&driver.model(device).name, length as usize);
            Ok(())
        })
    }
    "cuDeviceGetUuid" 9020 => fn cuDeviceGetUuid(call, out: Out<[u8; 16]>, device: Device) {
        call.give(out, |driver, _| Ok(driver.model(driver.device(device)?).uuid))
    }
    "cuDeviceGetUuid" 11040 => fn cuDeviceGetUuid_v2(call, out: Out<[u8; 16]>, device: Device) {
        call.give(out, |driver, _| Ok(driver.model(driver.device(device)?).uuid))
    }
    "cuDeviceTotalMem" 2000 => fn cuDeviceTotalMem(call, out: Out<u32>, device: Device) {
        call.give(out, |driver, _| {
            let total = driver.total(driver.device(device)?);
            Ok(total.min(u32::MAX.into()) as u32)
        })
    }
    "cuDeviceTotalMem" 3020 => fn cuDeviceTotalMem_v2(call, out: Out<usize>, device: Device) {
        call.give(out, |driver, _| Ok(driver.total(driver.device(device)?) as usize))
    }
    "cuDeviceGetAttribute" 2000 => fn cuDeviceGetAttribute(call, out: Out<c_int>, attribute: c_int, device: Device) {
        call.give(out, |driver, _| driver.attribute(driver.device(device)?, attribute))
    }
    "cuDeviceComputeCapability" 2000 => fn cuDeviceComputeCapability(call, major: Out<c_int>, minor: Out<c_int>, device: Device) {
        call.act(|driver, _| {
            driver.device(device)?;
            major.put(9);
            minor.put(0);
            Ok(())
        })
    }
    "cuDeviceGetPCIBusId" 4010 => fn cuDeviceGetPCIBusId(call, name: TextOut, length: c_int, device: Device) {
        call.act(|driver, _| {
            require(name.is_set() && length > 0)?;
            let device = driver.device(device)?;
            name.put(&pci_name(driver.model(device).bus), length as usize);
            Ok(())
        })
    }
    "cuDeviceGetByPCIBusId" 4010 => fn cuDeviceGetByPCIBusId(call, out: Out<Device>, name: Text) {
        call.give(out, |driver, _| {
            let name = name.get().ok_or(Code::INVALID_VALUE)?.to_string_lossy();
            let same = |&device: &usize| pci_name(driver.model(device).bus).eq_ignore_ascii_case(&name);
            let device = (0..driver.device_count()).find(same).ok_or(Code::INVALID_DEVICE)?;
            Ok(device as Device)
        })
    }
    "cuModuleGetLoadingMode" 11070 => fn cuModuleGetLoadingMode(call, out: Out<c_int>) {
        call.give(out, |_, _| Ok(LAZY))
    }
    "cuGetErrorName" 6000 => fn cuGetErrorName(_call, code: c_int, out: Out<*const c_char>) {
        text_of(code, out, codes::name)
    }
    "cuGetErrorString" 6000 => fn cuGetErrorString(_call, code: c_int, out: Out<*const c_char>) {
        text_of(code, out, codes::text)
    }
    "cuGetExportTable" 3000 => fn cuGetExportTable(call, _table: Out<*const c_void>, _uuid: In<[u8; 16]>) {
        number(&call.pass(|_, _| Err::<(), _>(Code::INVALID_VALUE)))
    }
}
