//! What people set by environment, read alike by the library and by `oomhook doctor`: each value, or the line that says what
//! is wrong with it and what is used instead.

use crate::capacity::{Capacity, settings as names};
use crate::{signals, units};
use std::num::NonZeroU64;
use std::time::Duration;

/// How much of the trace is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Everything.
    All,
    /// So many bytes: old segments go, totals stay.
    Bytes(u64),
    /// The state at the end, no events.
    Summary,
    /// No file.
    None,
}

/// The kinds of frames that are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// Of machine code.
    pub native: bool,
    /// Of Python.
    pub python: bool,
}

/// Where the trace comes when nobody says.
pub const OUTPUT: &str = "oomhook.%h.%p.trace";
/// Native frames that are kept when nobody says.
pub const DEPTH: usize = 64;
/// Native frames that can be kept.
pub const MOST_FRAMES: usize = 256;
/// The least that a bound can be: a few segments, each with its checkpoint.
const LEAST_KEPT: u64 = 256 << 10;

/// Settings for people.
pub const KNOWN: [&str; 14] = [
    "OOMHOOK",
    "OOMHOOK_OUTPUT",
    "OOMHOOK_KEEP",
    "OOMHOOK_REPORT",
    "OOMHOOK_SIGNAL",
    "OOMHOOK_SAMPLE",
    "OOMHOOK_ONLY",
    "OOMHOOK_STACKS",
    "OOMHOOK_DEPTH",
    "OOMHOOK_TENSORS",
    "OOMHOOK_LOG",
    "OOMHOOK_SUPPRESS",
    names::CAPACITY,
    names::FAIL_NTH,
];

/// `OOMHOOK`: record at all.
///
/// # Errors
/// A line for people, as with all the others here.
pub fn on(value: &str) -> Result<bool, String> {
    match value {
        "1" | "on" => Ok(true),
        "0" | "off" => Ok(false),
        other => Err(format!(
            "OOMHOOK={other} is neither 0 nor 1; recording is on"
        )),
    }
}

/// `OOMHOOK_TENSORS`: record the blocks inside PyTorch's cache.
///
/// # Errors
/// A line for people.
pub fn tensors(value: &str) -> Result<bool, String> {
    match value {
        "on" | "1" => Ok(true),
        "off" | "0" => Ok(false),
        other => Err(format!(
            "OOMHOOK_TENSORS={other} is neither on nor off; it is on"
        )),
    }
}

/// `OOMHOOK_LOG`: remember the program's own output lines.
///
/// # Errors
/// A line for people.
pub fn log(value: &str) -> Result<bool, String> {
    match value {
        "on" | "1" => Ok(true),
        "off" | "0" => Ok(false),
        other => Err(format!(
            "OOMHOOK_LOG={other} is neither on nor off; it is on"
        )),
    }
}

/// `OOMHOOK_SAMPLE`: the time between two looks at whole devices; `None` for no looks.
///
/// # Errors
/// A line for people.
pub fn sample(value: &str) -> Result<Option<Duration>, String> {
    if value == "off" {
        return Ok(None);
    }
    let wrong = || {
        format!(
            "OOMHOOK_SAMPLE={value} is neither off nor a time from 10ms to 1h, such as 500ms or 5s; using 1s"
        )
    };
    let end = value
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(wrong)?;
    let number: f64 = value[..end].parse().map_err(|_| wrong())?;
    let seconds = match value[end..].trim() {
        "ms" => number / 1e3,
        "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    if (0.01..=3600.0).contains(&seconds) {
        Ok(Some(Duration::from_secs_f64(seconds)))
    } else {
        Err(wrong())
    }
}

/// `OOMHOOK_KEEP`.
///
/// # Errors
/// A line for people.
pub fn keep(value: &str) -> Result<Keep, String> {
    let wrong = match value {
        "all" => return Ok(Keep::All),
        "summary" => return Ok(Keep::Summary),
        "none" => return Ok(Keep::None),
        size => match units::parse_bytes(size) {
            Ok(bytes) if bytes >= LEAST_KEPT => return Ok(Keep::Bytes(bytes)),
            Ok(_) => "is less than 256KiB, too little for a trace",
            Err(_) => "is none of all, summary, none, or a size such as 512MiB",
        },
    };
    Err(format!("OOMHOOK_KEEP={value} {wrong}; using 2GiB"))
}

/// `OOMHOOK_STACKS`.
///
/// # Errors
/// A line for people.
pub fn stacks(value: &str) -> Result<Stacks, String> {
    let known = |word: &str| matches!(word, "native" | "python" | "off");
    let words = || value.split(',').map(str::trim);
    if words().any(|word| word == "off") && words().count() > 1 {
        return Err(format!(
            "OOMHOOK_STACKS={value}: off stands alone; using native,python"
        ));
    }
    if let Some(word) = words().find(|word| !known(word)) {
        return Err(format!(
            "OOMHOOK_STACKS={value}: {word:?} is none of native, python, off; using native,python"
        ));
    }
    Ok(Stacks {
        native: words().any(|word| word == "native"),
        python: words().any(|word| word == "python"),
    })
}

/// `OOMHOOK_DEPTH`.
///
/// # Errors
/// A line for people.
pub fn depth(value: &str) -> Result<usize, String> {
    match value.parse() {
        Ok(depth @ 1..=MOST_FRAMES) => Ok(depth),
        _ => Err(format!(
            "OOMHOOK_DEPTH={value} is no number from 1 to {MOST_FRAMES}; using {DEPTH}"
        )),
    }
}

/// `OOMHOOK_SIGNAL`.
///
/// # Errors
/// A line for people.
pub fn signal(value: &str) -> Result<i32, String> {
    signals::parse(value).ok_or_else(|| {
        format!(
            "OOMHOOK_SIGNAL={value} is no signal that can ask for a report (such as USR2); none is used"
        )
    })
}

/// `OOMHOOK_CAPACITY`.
///
/// # Errors
/// A line for people.
pub fn capacity(value: &str) -> Result<Capacity, String> {
    Capacity::parse(value)
        .map_err(|reason| format!("OOMHOOK_CAPACITY={value} {reason}; nothing is pretended"))
}

/// `OOMHOOK_FAIL_NTH`.
///
/// # Errors
/// A line for people.
pub fn fail_nth(value: &str) -> Result<NonZeroU64, String> {
    value.parse().map_err(|_| {
        format!("OOMHOOK_FAIL_NTH={value} is no number from 1 on; no allocation is made to fail")
    })
}

/// What is wrong with the value of a setting. Paths and globs are as they are.
#[must_use]
pub fn complaint(name: &str, value: &str) -> Option<String> {
    match name {
        "OOMHOOK" => on(value).err(),
        "OOMHOOK_KEEP" => keep(value).err(),
        "OOMHOOK_STACKS" => stacks(value).err(),
        "OOMHOOK_DEPTH" => depth(value).err(),
        "OOMHOOK_LOG" => log(value).err(),
        "OOMHOOK_SIGNAL" => signal(value).err(),
        names::CAPACITY => capacity(value).err(),
        names::FAIL_NTH => fail_nth(value).err(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_has_no_complaint() {
        for (name, value) in [
            ("OOMHOOK", "0"),
            ("OOMHOOK_KEEP", "512MiB"),
            ("OOMHOOK_STACKS", "python, native"),
            ("OOMHOOK_DEPTH", "256"),
            ("OOMHOOK_SIGNAL", "USR2"),
            ("OOMHOOK_CAPACITY", "0=24GiB"),
            ("OOMHOOK_FAIL_NTH", "5"),
            ("OOMHOOK_OUTPUT", "anything"),
        ] {
            assert_eq!(complaint(name, value), None, "{name}={value}");
        }
    }

    #[test]
    fn a_complaint_names_setting_and_value() {
        for (name, value) in [
            ("OOMHOOK", "yes"),
            ("OOMHOOK_KEEP", "12XB"),
            ("OOMHOOK_STACKS", "off,native"),
            ("OOMHOOK_DEPTH", "257"),
            ("OOMHOOK_SIGNAL", "KILL"),
            ("OOMHOOK_CAPACITY", "0"),
            ("OOMHOOK_FAIL_NTH", "0"),
        ] {
            let complaint = complaint(name, value).expect("a complaint");
            assert!(
                complaint.starts_with(&format!("{name}={value}")),
                "{complaint}"
            );
        }
    }
}
