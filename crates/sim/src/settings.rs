//! Settings from the environment: devices, overhead, version.

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
    pub version: c_int,
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
            version: 13000,
        }
    }
}

impl Settings {
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
        settings
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
    let count = count.trim().parse().ok().filter(|n| (1..=64).contains(n))?;
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
            "0x16GiB",
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
        ]);
        assert_eq!(settings, Settings::default());
        assert_eq!(complaints.len(), 4);
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
