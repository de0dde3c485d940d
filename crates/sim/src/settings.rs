//! Settings from the environment: devices, overhead, version, and what NVML says besides.

use crate::neighbours::{self, Neighbour};
use std::ffi::c_int;
use std::time::Duration;

/// What the simulated machine looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub devices: usize,
    /// Memory of each device.
    pub memory: u64,
    /// How much of it another process has taken.
    pub taken: u64,
    /// What each context costs.
    pub context: u64,
    /// What each load of a module costs.
    pub module: u64,
    /// What each byte of stack beyond the first 1024 costs.
    pub stack: u64,
    /// What the first launch in a context costs.
    pub launch: u64,
    /// What the first launch of each function costs.
    pub function: u64,
    /// What each fourth stream of a context costs.
    pub stream: u64,
    /// What each executable graph costs.
    pub graph_exec: u64,
    pub version: c_int,
    /// Names of the devices, with `|` between; the last is that of all further ones.
    pub name: String,
    /// Memory that NVML counts and the driver does not.
    pub reserve: u64,
    pub neighbours: Vec<Neighbour>,
    /// What the first neighbour of a device takes more at each later question for the device's memory.
    pub growth: u64,
    /// Whether NVML tells how much each process has.
    pub tells_processes: bool,
    /// The number by which NVML lists this process, where it is not its own.
    pub process: Option<u32>,
    /// Whether the devices are cut into slices.
    pub mig: bool,
    /// `nvmlComputeMode_t`.
    pub compute_mode: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            devices: 2,
            memory: 16 << 30,
            taken: 0,
            context: 0,
            module: 0,
            stack: 0,
            launch: 0,
            function: 0,
            stream: 0,
            graph_exec: 0,
            version: 13000,
            name: "oomhook simulated GPU".to_owned(),
            reserve: 0,
            neighbours: Vec::new(),
            growth: 0,
            tells_processes: true,
            process: None,
            mig: false,
            compute_mode: 0,
        }
    }
}

impl Settings {
    /// In place of its number: NVML does not list this process.
    pub const UNLISTED: u32 = 0;

    /// Reads all settings; `complain` gets one sentence for each that is malformed.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        mut complain: impl FnMut(String),
    ) -> Settings {
        let mut settings = Settings::default();
        if let Some(text) = variable("OOMHOOK_SIM") {
            match devices(&text) {
                Some((count, memory, free)) => {
                    settings.devices = count;
                    settings.memory = memory;
                    settings.taken = memory - free;
                }
                None => complain(bad("OOMHOOK_SIM", &text, "2x16GiB or 2x16GiB,free=15.5GiB")),
            }
        }
        for (name, place) in [
            ("OOMHOOK_SIM_CONTEXT", &mut settings.context),
            ("OOMHOOK_SIM_MODULE", &mut settings.module),
            ("OOMHOOK_SIM_STACK", &mut settings.stack),
            ("OOMHOOK_SIM_LAUNCH", &mut settings.launch),
            ("OOMHOOK_SIM_FUNCTION", &mut settings.function),
            ("OOMHOOK_SIM_STREAM", &mut settings.stream),
            ("OOMHOOK_SIM_GRAPH_EXEC", &mut settings.graph_exec),
            ("OOMHOOK_SIM_RESERVE", &mut settings.reserve),
            ("OOMHOOK_SIM_NEIGHBOUR_GROWS", &mut settings.growth),
        ] {
            if let Some(text) = variable(name) {
                match size(&text) {
                    Some(bytes) => *place = bytes,
                    None => complain(bad(name, &text, "a size such as 2MiB")),
                }
            }
        }
        if let Some(text) = variable("OOMHOOK_SIM_DRIVER") {
            match text.trim().parse::<c_int>() {
                Ok(version) if version >= 2000 => settings.version = version,
                _ => complain(bad("OOMHOOK_SIM_DRIVER", &text, "a version such as 13000")),
            }
        }
        if let Some(text) = variable("OOMHOOK_SIM_NAME") {
            settings.name = text;
        }
        if let Some(text) = variable("OOMHOOK_SIM_NEIGHBOURS") {
            match neighbours::list(&text).filter(|list| settings.have_room_for(list)) {
                Some(list) => settings.neighbours = list,
                None => complain(bad(
                    "OOMHOOK_SIM_NEIGHBOURS",
                    &text,
                    "0:4711:2GiB:train.py,…, on devices that have as much",
                )),
            }
        }
        for (name, place) in [
            ("OOMHOOK_SIM_PROCESS_BYTES", &mut settings.tells_processes),
            ("OOMHOOK_SIM_MIG", &mut settings.mig),
        ] {
            match variable(name).as_deref() {
                None => {}
                Some("on") => *place = true,
                Some("off") => *place = false,
                Some(text) => complain(bad(name, text, "on or off")),
            }
        }
        if let Some(text) = variable("OOMHOOK_SIM_PID") {
            match text.parse() {
                _ if text == "none" => settings.process = Some(Settings::UNLISTED),
                Ok(pid) if pid > 0 => settings.process = Some(pid),
                _ => complain(bad(
                    "OOMHOOK_SIM_PID",
                    &text,
                    "the number of a process, or none",
                )),
            }
        }
        if let Some(text) = variable("OOMHOOK_SIM_COMPUTE_MODE") {
            match text.parse() {
                Ok(mode @ 0..=3) => settings.compute_mode = mode,
                _ => complain(bad("OOMHOOK_SIM_COMPUTE_MODE", &text, "0, 1, 2 or 3")),
            }
        }
        settings
    }

    /// The name of a device.
    pub fn name_of(&self, device: usize) -> String {
        let mut names = self.name.split('|');
        let name = names.clone().nth(device).or(names.next_back());
        name.unwrap_or_default().to_owned()
    }

    /// True if every neighbour is on a device that there is, and none has more than it has.
    fn have_room_for(&self, list: &[Neighbour]) -> bool {
        let taken = |device: usize| {
            let here = list.iter().filter(|one| one.device == device);
            here.fold(0u64, |sum, one| sum.saturating_add(one.bytes))
        };
        let room = self.memory - self.taken;
        list.iter()
            .all(|one| one.device < self.devices && taken(one.device) <= room)
    }
}

/// The sentence for a malformed setting.
pub fn bad(variable: &str, value: &str, wanted: &str) -> String {
    format!(
        "oomhook-sim: {variable}={value:?} is not understood (want {wanted}); using the default"
    )
}

/// `COUNTxSIZE[,free=SIZE]` as count, memory and free memory.
fn devices(text: &str) -> Option<(usize, u64, u64)> {
    let (devices, rest) = match text.split_once(',') {
        Some((devices, rest)) => (devices, Some(rest)),
        None => (text, None),
    };
    let (count, memory) = devices.split_once('x')?;
    let count = count.trim().parse().ok().filter(|&count| count <= 64)?;
    let memory = size(memory).filter(|&bytes| bytes > 0 && bytes < 1 << 44)?;
    let free = match rest {
        None => memory,
        Some(rest) => size(rest.trim().strip_prefix("free=")?).filter(|&free| free <= memory)?,
    };
    Some((count, memory, free))
}

/// A size in bytes: a number, perhaps with a fraction, and perhaps a unit.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = match text[end..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    };
    let bytes = number * unit;
    (bytes < 2f64.powi(63)).then_some(bytes as u64)
}

/// A duration: a number with `us`, `ms` or `s`.
pub fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..end].parse().ok()?;
    match &text[end..] {
        "us" => Some(Duration::from_micros(number)),
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
        let mut complaints = Vec::new();
        let settings = Settings::read(
            |name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| value.to_string())
            },
            |complaint| complaints.push(complaint),
        );
        (settings, complaints)
    }

    #[test]
    fn two_devices_of_16_gib_unless_told_otherwise() {
        let (settings, complaints) = read(&[]);
        assert_eq!(
            (settings.devices, settings.memory, settings.taken),
            (2, 16 << 30, 0)
        );
        assert!(complaints.is_empty());
    }

    #[test]
    fn devices_and_free_memory_are_read() {
        let (settings, _) = read(&[("OOMHOOK_SIM", "1x24GiB")]);
        assert_eq!((settings.devices, settings.memory), (1, 24 << 30));
        let (settings, _) = read(&[("OOMHOOK_SIM", "2x16GiB,free=15.5GiB")]);
        assert_eq!(settings.taken, 1 << 29);
    }

    #[test]
    fn a_malformed_setting_is_named_once_and_the_default_used() {
        for value in [
            "",
            "x",
            "16GiB",
            "65x16GiB",
            "2x",
            "2x16Gib,fre=1",
            "2x16GiB,free=17GiB",
        ] {
            let (settings, complaints) = read(&[("OOMHOOK_SIM", value)]);
            assert_eq!(settings, Settings::default(), "{value}");
            assert_eq!(complaints.len(), 1, "{value}");
            assert!(complaints[0].contains("OOMHOOK_SIM="));
        }
        let (settings, complaints) = read(&[
            ("OOMHOOK_SIM_CONTEXT", "lots"),
            ("OOMHOOK_SIM_MODULE", "2MB2"),
            ("OOMHOOK_SIM_STACK", "-1"),
            ("OOMHOOK_SIM_DRIVER", "new"),
            ("OOMHOOK_SIM_RESERVE", "some"),
            ("OOMHOOK_SIM_NEIGHBOURS", "0:train.py"),
            ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "fast"),
            ("OOMHOOK_SIM_PROCESS_BYTES", "no"),
            ("OOMHOOK_SIM_MIG", "1"),
            ("OOMHOOK_SIM_COMPUTE_MODE", "4"),
            ("OOMHOOK_SIM_LAUNCH", "90MiBs"),
            ("OOMHOOK_SIM_FUNCTION", "little"),
            ("OOMHOOK_SIM_STREAM", ""),
            ("OOMHOOK_SIM_GRAPH_EXEC", "-8MiB"),
            ("OOMHOOK_SIM_PID", "0"),
        ]);
        assert_eq!(settings, Settings::default());
        assert_eq!(complaints.len(), 15);
    }

    #[test]
    fn neighbours_have_to_fit() {
        let one = ("OOMHOOK_SIM", "1x4GiB,free=3GiB");
        let (settings, complaints) = read(&[one, ("OOMHOOK_SIM_NEIGHBOURS", "0:7:3GiB:a")]);
        assert_eq!((settings.neighbours.len(), complaints.len()), (1, 0));
        for list in ["0:7:2GiB:a,0:8:1.5GiB:b", "1:7:1GiB:a"] {
            let (settings, complaints) = read(&[one, ("OOMHOOK_SIM_NEIGHBOURS", list)]);
            assert_eq!((settings.neighbours.len(), complaints.len()), (0, 1));
        }
    }

    #[test]
    fn devices_may_have_names_of_their_own() {
        let (settings, _) = read(&[("OOMHOOK_SIM_NAME", "NVIDIA A100|NVIDIA T4")]);
        let names: Vec<_> = (0..3).map(|device| settings.name_of(device)).collect();
        assert_eq!(names, ["NVIDIA A100", "NVIDIA T4", "NVIDIA T4"]);
    }

    #[test]
    fn what_nvml_says_is_settable() {
        let (settings, complaints) = read(&[
            ("OOMHOOK_SIM_NAME", "NVIDIA H200"),
            ("OOMHOOK_SIM_RESERVE", "600MiB"),
            ("OOMHOOK_SIM_NEIGHBOUR_GROWS", "16MiB"),
            ("OOMHOOK_SIM_PROCESS_BYTES", "off"),
            ("OOMHOOK_SIM_MIG", "on"),
            ("OOMHOOK_SIM_COMPUTE_MODE", "3"),
        ]);
        assert_eq!(complaints, Vec::<String>::new());
        assert_eq!(settings.name_of(7), "NVIDIA H200");
        assert_eq!((settings.reserve, settings.growth), (600 << 20, 16 << 20));
        assert_eq!((settings.tells_processes, settings.mig), (false, true));
        assert_eq!(settings.compute_mode, 3);
    }

    #[test]
    fn sizes_and_durations() {
        assert_eq!(size("512"), Some(512));
        assert_eq!(size("1.5 KiB"), Some(1536));
        assert_eq!(size("2GB"), Some(2_000_000_000));
        assert_eq!(size("1.2.3GiB"), None);
        assert_eq!(duration("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(duration("50"), None);
    }
}
