//! Signals by name and number, as far as they can ask for something.

use std::ffi::c_int;

/// By the names that `kill -l` has.
const NAMES: [(&str, c_int); 27] = [
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ABRT", libc::SIGABRT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("STKFLT", libc::SIGSTKFLT),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("POLL", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("CLD", libc::SIGCHLD),
    ("IOT", libc::SIGABRT),
    ("RTMIN", 34),
];

/// Those that nobody catches, those that a fault raises, and the two that the C library keeps for itself.
const UNFIT: [c_int; 10] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    32,
    33,
];

/// The signal that a text means (`USR2`, `SIGUSR2`, `12`), if it is one that can ask for something.
pub fn parse(text: &str) -> Option<c_int> {
    let text = text.trim().to_ascii_uppercase();
    if let Ok(number) = text.parse::<u8>() {
        let number = c_int::from(number);
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
            assert_eq!(parse(text), Some(libc::SIGUSR2), "{text}");
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
