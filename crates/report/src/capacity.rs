//! How much memory devices are pretended to have: the value of `OOMHOOK_CAPACITY` and of `oomhook run --capacity`, read
//! alike by the library, the command and the report.

use crate::units;

/// Devices that a list may name: as many as the library tells apart.
const DEVICES: u64 = 64;

/// Names under which the trace's header keeps what the program was told differently.
pub mod settings {
    /// What devices were pretended to have.
    pub const CAPACITY: &str = "OOMHOOK_CAPACITY";
    /// Number of the allocation that was to fail.
    pub const FAIL_NTH: &str = "OOMHOOK_FAIL_NTH";
}

/// One size for every device, or sizes of some devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// `24GiB`.
    Each(u64),
    /// `0=24GiB,1=40GiB`; a device that is not named keeps what it has.
    Some(Vec<(u8, u64)>),
}

impl Capacity {
    /// Reads `24GiB` or `0=24GiB,1=40GiB`.
    ///
    /// # Errors
    /// In words, when it is neither.
    pub fn parse(text: &str) -> Result<Capacity, String> {
        let wrong = || "is neither a size such as 24GiB nor a list such as 0=24GiB,1=40GiB";
        // Nothing at all fits into no memory; who writes 0 means something else.
        let size = |text: &str| {
            let size = units::parse_bytes(text).map_err(|_| wrong().to_owned())?;
            match size {
                0 => Err("leaves a device no memory at all".to_owned()),
                size => Ok(size),
            }
        };
        if !text.contains('=') {
            return size(text).map(Capacity::Each);
        }
        let mut listed: Vec<(u8, u64)> = Vec::new();
        for part in text.split(',') {
            let (device, bytes) = part.split_once('=').ok_or_else(wrong)?;
            let device = device.trim();
            let digits = !device.is_empty() && device.bytes().all(|digit| digit.is_ascii_digit());
            let number: u64 = device.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
            if number >= DEVICES {
                return Err(format!(
                    "names device {number}, the last is {}",
                    DEVICES - 1
                ));
            }
            if listed.iter().any(|(known, _)| u64::from(*known) == number) {
                return Err(format!("names device {number} twice"));
            }
            listed.push((number as u8, size(bytes)?));
        }
        Ok(Capacity::Some(listed))
    }

    /// What this device is pretended to have at most.
    #[must_use]
    pub fn of(&self, device: u8) -> Option<u64> {
        match self {
            Capacity::Each(bytes) => Some(*bytes),
            Capacity::Some(listed) => listed
                .iter()
                .find(|(number, _)| *number == device)
                .map(|(_, bytes)| *bytes),
        }
    }
}

/// As it can be read again, exactly.
impl std::fmt::Display for Capacity {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Capacity::Each(bytes) => write!(to, "{bytes}B"),
            Capacity::Some(listed) => {
                for (at, (device, bytes)) in listed.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(to, "{comma}{device}={bytes}B")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn one_size_or_a_list_is_read() {
        let each = Capacity::parse("24GiB").expect("a size");
        assert_eq!((each.of(0), each.of(63)), (Some(24 * GIB), Some(24 * GIB)));
        let listed = Capacity::parse("0=24GiB, 10 = 1.5GiB").expect("a list");
        assert_eq!(listed.of(0), Some(24 * GIB));
        assert_eq!(listed.of(10), Some(3 * GIB / 2));
        assert_eq!(listed.of(1), None);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["5000000001B", "0=24GiB,1=40GiB", "1.5GiB", "3=7"] {
            let capacity = Capacity::parse(text).expect("a capacity");
            assert_eq!(Capacity::parse(&capacity.to_string()), Ok(capacity));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "",
            "12XB",
            "0=",
            "=1GiB",
            "x=1GiB",
            "-1=1GiB",
            "+1=1GiB",
            "1GiB,2GiB",
            "0=1GiB,2GiB",
            "0=1GiB,",
            "0=1GiB,0=2GiB",
            "64=1GiB",
            "0",
            "0=0GiB",
            "0=1=2",
        ] {
            assert!(Capacity::parse(wrong).is_err(), "{wrong}");
        }
    }
}
