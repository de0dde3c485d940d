//! Signals by name and number, as far as they can ask for something. The numbers are those of Linux on x86-64 and aarch64.

/// By the names that `kill -l` has.
const NAMES: [(&str, i32); 27] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("ABRT", 6),
    ("USR1", 10),
    ("USR2", 12),
    ("PIPE", 13),
    ("ALRM", 14),
    ("TERM", 15),
    ("STKFLT", 16),
    ("CHLD", 17),
    ("CONT", 18),
    ("TSTP", 20),
    ("TTIN", 21),
    ("TTOU", 22),
    ("URG", 23),
    ("XCPU", 24),
    ("XFSZ", 25),
    ("VTALRM", 26),
    ("PROF", 27),
    ("WINCH", 28),
    ("IO", 29),
    ("POLL", 29),
    ("PWR", 30),
    ("CLD", 17),
    ("IOT", 6),
    ("RTMIN", 34),
];

/// Those that nobody catches, those that a fault raises, and the two that the C library keeps for itself.
const UNFIT: [i32; 10] = [
    9,  // KILL
    19, // STOP
    4,  // ILL
    5,  // TRAP
    7,  // BUS
    8,  // FPE
    11, // SEGV
    31, // SYS
    32, 33,
];

/// The signal that a text means (`USR2`, `SIGUSR2`, `12`), if it is one that can ask for something.
#[must_use]
pub fn parse(text: &str) -> Option<i32> {
    let text = text.trim().to_ascii_uppercase();
    if let Ok(number) = text.parse::<u8>() {
        let number = i32::from(number);
        return ((1..=64).contains(&number) && !UNFIT.contains(&number)).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(&text);
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known.map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for text in ["USR2", "SIGUSR2", "usr2", "12", " USR2 "] {
            assert_eq!(parse(text), Some(12), "{text}");
        }
        assert_eq!(parse("64"), Some(64));
        for text in [
            "",
            "FOO",
            "KILL",
            "SIGSEGV",
            "STOP",
            "0",
            "9",
            "11",
            "65",
            "-1",
            "33",
            "SIGSIGUSR2",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
