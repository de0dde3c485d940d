//! CuPy's pool.

use super::{bytes, pattern, start};
use crate::explain::message::{Found, Kind};
use oomhook_report::diagnosis::Framework;
use regex::Regex;
use std::sync::LazyLock;

static MESSAGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"Out of memory allocating (?P<size>[\d,]{1,26} bytes)(?: \(allocated so far: (?P<used>[\d,]{1,26} bytes)(?:, limit set to: (?P<limit>[\d,]{1,26} bytes))?\))?",
    )
});

/// Finds it.
pub fn find(text: &str) -> Option<Found> {
    let found = MESSAGE.captures(text)?;
    let before = &text[..start(&found)];
    // Others use these words, too (compilers for one), with no comma in the number and no name before.
    let is_cupy = found.name("used").is_some() || before.contains("OutOfMemoryError");
    if !is_cupy {
        return None;
    }
    let mut message = Found::new(start(&found), Framework::CuPy, Kind::Allocator);
    message.numbers.requested_bytes = bytes(&found, "size");
    message.numbers.allocated_bytes = bytes(&found, "used");
    message.numbers.limit_bytes = bytes(&found, "limit");
    Some(message)
}
