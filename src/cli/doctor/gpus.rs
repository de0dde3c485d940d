//! Asks NVML about the GPUs. Each answer may be missing; then the reason stands in its place.

use super::who::{self, Kind, User};
use super::words;
use nvml_wrapper::enum_wrappers::device::ComputeMode;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use oomhook_report::clean;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// A driver in trouble may never answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Less than this without an owner is the driver's own.
const NOTICEABLE: u64 = 64 << 20;

/// What NVML has said.
#[derive(Debug)]
pub struct Answers {
    /// Of the driver.
    pub driver: Option<String>,
    /// The newest CUDA that it supports, as 1000 x major + 10 x minor.
    pub cuda: Option<i32>,
    /// Of NVML itself.
    pub nvml: Option<String>,
    /// The GPUs, or why they cannot be counted.
    pub gpus: Result<Vec<Gpu>, String>,
}

/// How asking ended.
#[derive(Debug)]
pub enum Outcome {
    /// It answered.
    Asked(Answers),
    /// There is no NVML.
    Missing,
    /// It did not begin; whether CUDA cannot either, and why.
    Failed { fatal: bool, reason: String },
}

/// A GPU.
#[derive(Debug, Default, Serialize)]
pub struct Gpu {
    /// In NVML's order, that of the PCI bus.
    pub index: u32,
    pub name: Option<String>,
    pub uuid: Option<String>,
    pub pci_bus_id: Option<String>,
    pub total_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Of the driver and the firmware, apart from what is used.
    pub reserved_bytes: Option<u64>,
    pub mig: Option<&'static str>,
    pub compute_mode: Option<&'static str>,
    /// Who uses it, the largest first.
    pub processes: Option<Vec<User>>,
    /// Used, and by none of these processes.
    pub unlisted_bytes: Option<u64>,
    /// Keys without a value, and why.
    pub unknown: BTreeMap<&'static str, String>,
}

/// Asks.
pub fn ask() -> Outcome {
    let (to, from) = mpsc::channel();
    // It ends with this process, also where NVML never comes back.
    let asking = std::thread::Builder::new().spawn(move || to.send(answers()));
    let answer = asking.ok().and_then(|_| from.recv_timeout(PATIENCE).ok());
    answer.unwrap_or_else(|| Outcome::Failed {
        fatal: true,
        reason: words::NVML_SILENT.to_owned(),
    })
}

fn answers() -> Outcome {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_)) => return Outcome::Missing,
        Err(error) => {
            return Outcome::Failed {
                fatal: matches!(
                    error,
                    NvmlError::DriverNotLoaded | NvmlError::LibRmVersionMismatch
                ),
                reason: words::reason(&error),
            };
        }
    };
    let text = |answer: Result<String, _>| answer.ok().map(|text| clean::text(&text));
    let count = nvml.device_count().map_err(|error| words::reason(&error));
    Outcome::Asked(Answers {
        driver: text(nvml.sys_driver_version()),
        cuda: nvml.sys_cuda_driver_version().ok(),
        nvml: text(nvml.sys_nvml_version()),
        gpus: count.map(|count| (0..count).map(|index| gpu(&nvml, index)).collect()),
    })
}

fn gpu(nvml: &Nvml, index: u32) -> Gpu {
    let mut gpu = Gpu {
        index,
        ..Gpu::default()
    };
    match nvml.device_by_index(index) {
        Ok(device) => gpu.fill(nvml, &device),
        Err(error) => drop(gpu.unknown.insert("gpu", words::reason(&error))),
    }
    gpu
}

impl Gpu {
    /// Keeps an answer, or why there is none.
    fn note<T>(&mut self, key: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                self.unknown.insert(key, words::reason(&error));
                None
            }
        }
    }

    fn fill(&mut self, nvml: &Nvml, device: &Device<'_>) {
        let text = |text: String| clean::text(&text);
        self.name = self.note("name", device.name()).map(text);
        self.uuid = self.note("uuid", device.uuid()).map(text);
        let pci = self.note("pci_bus_id", device.pci_info());
        self.pci_bus_id = pci.map(|pci| text(pci.bus_id));
        if let Some(memory) = self.note("memory", device.memory_info()) {
            match memory.used <= memory.total && memory.free <= memory.total {
                true => {
                    self.total_bytes = Some(memory.total);
                    self.used_bytes = Some(memory.used);
                    self.free_bytes = Some(memory.free);
                    self.reserved_bytes =
                        Some(memory.reserved).filter(|most| *most <= memory.total);
                }
                false => drop(self.unknown.insert("memory", words::NONSENSE.to_owned())),
            }
        }
        self.mig = match device.mig_mode() {
            Ok(mode) => Some(if mode.current == 0 { "off" } else { "on" }),
            // Most GPUs have no such thing.
            Err(NvmlError::NotSupported) => Some("unsupported"),
            Err(error) => self.note("mig", Err(error)),
        };
        let mode = self.note("compute_mode", device.compute_mode());
        self.compute_mode = mode.map(|mode| match mode {
            ComputeMode::Default => "default",
            ComputeMode::ExclusiveThread | ComputeMode::ExclusiveProcess => "exclusive",
            ComputeMode::Prohibited => "prohibited",
        });
        let computing = processes(|| device.running_compute_processes());
        let drawing = processes(|| device.running_graphics_processes());
        let computing = self.note("processes", computing);
        // Many GPUs cannot draw at all; nobody misses that list.
        let drawing = drawing.unwrap_or_default();
        self.processes = computing.map(|computing| self.users(nvml, &computing, &drawing));
        self.unlisted_bytes = self.unlisted();
    }

    fn users(&self, nvml: &Nvml, computing: &[ProcessInfo], drawing: &[ProcessInfo]) -> Vec<User> {
        let mut known: BTreeMap<u32, User> = BTreeMap::new();
        let listed = computing.iter().map(|one| (one, Kind::Compute));
        for (one, kind) in listed.chain(drawing.iter().map(|one| (one, Kind::Graphics))) {
            let bytes = match one.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            // More than there is means that it is not known.
            let bytes = bytes.filter(|bytes| self.total_bytes.is_none_or(|total| *bytes <= total));
            if let Some(user) = known.get_mut(&one.pid) {
                // In both lists it has the same bytes; instances of a sliced GPU have each their own.
                if user.kind == kind {
                    user.bytes = user.bytes.zip(bytes).map(|(a, b)| a.saturating_add(b));
                } else {
                    user.kind = Kind::Both;
                }
                continue;
            }
            let name = || nvml.sys_process_name(one.pid, 256).ok();
            known.insert(one.pid, who::user(one.pid, bytes, kind, name));
        }
        let mut users: Vec<User> = known.into_values().collect();
        users.sort_by_key(|user| (std::cmp::Reverse(user.bytes), user.pid));
        users
    }

    fn unlisted(&self) -> Option<u64> {
        let users = self.processes.as_ref()?;
        let listed = users.iter().map(|user| user.bytes).sum::<Option<u64>>()?;
        let rest = self.used_bytes?.saturating_sub(listed);
        Some(rest).filter(|rest| *rest >= NOTICEABLE)
    }

    /// Why no program can compute on it.
    pub fn unusable(&self) -> Option<String> {
        match self.unknown.get("gpu") {
            Some(reason) => Some(words::gpu_unreachable(self.index, reason)),
            None if self.compute_mode == Some("prohibited") => Some(words::prohibited(self.index)),
            None => None,
        }
    }
}

/// Processes may come while they are counted.
fn processes(
    ask: impl Fn() -> Result<Vec<ProcessInfo>, NvmlError>,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    for _ in 0..3 {
        match ask() {
            Err(NvmlError::InsufficientSize(_)) => {}
            answer => return answer,
        }
    }
    ask()
}
