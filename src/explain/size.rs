//! Sizes as messages write them.

/// What a size looks like in a pattern: `2.00 GiB`, `1.25GiB`, `0 bytes`, `1,024 bytes`.
pub const PATTERN: &str = r"\d[\d,]*(?:\.\d+)?\s*(?:[KMGT]i?B|bytes|B)\b";

/// More than any machine has: a counter that went below zero.
const NONSENSE: u64 = 1 << 60;
/// More than any GPU has: a request for so much is a mistake.
pub const BEYOND_ALL: u64 = 1 << 50;

/// Bytes; none if it is no size, or no size that can be.
pub fn parse(text: &str) -> Option<u64> {
    any(text).filter(|bytes| *bytes < NONSENSE)
}

/// Bytes; the most that there are for more than that.
pub fn any(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number = number.trim_end_matches(['.', ',']).replace(',', "");
    let factor: f64 = match unit.trim() {
        "" | "B" | "bytes" | "byte" => 1.0,
        "KiB" | "KB" | "kB" => 1024.0,
        "MiB" | "MB" => 1_048_576.0,
        "GiB" | "GB" => 1_073_741_824.0,
        "TiB" | "TB" => 1_099_511_627_776.0,
        _ => return None,
    };
    // Whole bytes are exact.
    if factor == 1.0 && !number.contains('.') {
        return number.parse::<u128>().ok().map(saturated);
    }
    let value = number.parse::<f64>().ok()? * factor;
    Some(saturated(value.round() as u128))
}

fn saturated(bytes: u128) -> u64 {
    bytes.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_frameworks_write_them() {
        let sizes = [
            ("2.00 GiB", Some(2 << 30)),
            ("1.25GiB", Some(5 << 28)),
            ("435.50 MiB", Some(456_654_848)),
            ("896.00 KiB", Some(917_504)),
            ("0 bytes", Some(0)),
            ("1,024 bytes", Some(1024)),
            ("20480000000", Some(20_480_000_000)),
            ("17179869184.00 GiB", None),
            ("18,446,744,073,709,551,615 bytes", None),
            ("xxx MiB", None),
            ("12 parsecs", None),
            ("", None),
        ];
        for (text, bytes) in sizes {
            assert_eq!(parse(text), bytes, "{text}");
        }
        assert_eq!(any("1073741824.00 GiB"), Some(1 << 60));
        assert_eq!(any("17179869184.00 GiB"), Some(u64::MAX));
    }
}
