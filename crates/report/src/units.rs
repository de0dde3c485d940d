//! Sizes and times, read and written.

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes in binary units with one decimal; below one KiB exact.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 1;
    // Tenths of the unit, rounded; whatever rounds up to 1024.0 is 1.0 of the next unit.
    let tenths = |unit: usize| {
        let size = 1u128 << (10 * unit);
        (u128::from(bytes) * 10 + size / 2) / size
    };
    while unit + 1 < UNITS.len() && tenths(unit) >= 10_240 {
        unit += 1;
    }
    let tenths = tenths(unit);
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// The next size that is nice to write, as an argument (`300MiB`).
#[must_use]
pub fn round_up(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x4000_0000 => (1u64 << 20, "MiB"),
        _ => (1u64 << 30, "GiB"),
    };
    let step = match bytes.div_ceil(unit) {
        0..10 => 1,
        10..100 => 5,
        100..1000 => 50,
        _ => 500,
    };
    format!(
        "{}{name}",
        bytes.div_ceil(unit).div_ceil(step).max(1) * step
    )
}

/// A number with its thousands apart.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent with one decimal.
#[must_use]
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    if tenths == 0 && part > 0 {
        return "<0.1%".to_owned();
    }
    format!("{}.{}%", tenths / 10, tenths % 10)
}

/// A duration, as coarse as it is long.
#[must_use]
pub fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 if ns < 1_000_000 => format!("{} us", ns / 1000),
        0 => format!("{} ms", ns / 1_000_000),
        1..60 => format!("{}.{} s", seconds, ns / 100_000_000 % 10),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Reads a size: a number and `B`, `KiB`, `MiB`, `GiB`, `TiB`, `KB`, `MB`, `GB` or `TB`; a bare number is bytes.
///
/// # Errors
/// In words, when it is none.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("`{text}` is no size: write a number and a unit, as in 300MiB or 1.5GiB");
    let trimmed = text.trim();
    let at = trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(at);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let (value, scale) = decimal(number).ok_or_else(wrong)?;
    u64::try_from(value * u128::from(factor) / scale).map_err(|_| wrong())
}

/// Reads a tolerance (`2%`, `0.5%`, `0`) as parts of a million.
///
/// # Errors
/// In words, when it is none.
pub fn parse_tolerance(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no tolerance: write per cent, as in 2%");
    let number = text.trim().trim_end_matches('%').trim_end();
    let (value, scale) = decimal(number).ok_or_else(wrong)?;
    u64::try_from(value * 10_000 / scale)
        .ok()
        .filter(|parts| *parts <= 100_000_000)
        .ok_or_else(wrong)
}

/// `12.5` as (125, 10).
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 9 {
        return None;
    }
    let digits = |part: &str| part.bytes().all(|digit| digit.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scale = 10u128.pow(fraction.len() as u32);
    Some((format!("{whole}{fraction}").parse().ok()?, scale))
}

/// A wall-clock time (nanoseconds since 1970) as RFC 3339 in UTC.
#[must_use]
pub fn timestamp(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Civil date from a day count; eras of 400 years begin on the first of March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60,
        unix_ns / 1_000_000 % 1000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal_and_the_right_unit() {
        let pairs = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (2_097_152, "2.0 MiB"),
            (291_242_803, "277.8 MiB"),
            (1_073_741_823, "1.0 GiB"),
            (17_179_869_184, "16.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (value, text) in pairs {
            assert_eq!(bytes(value), text);
        }
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234), "1,234");
        assert_eq!(count(11_000_000), "11,000,000");
        assert_eq!(percent(1, 3), "33.3%");
        assert_eq!(percent(1, 0), "-");
        assert_eq!(percent(1, 1 << 20), "<0.1%");
    }

    #[test]
    fn sizes_are_read_with_binary_and_decimal_units() {
        let pairs = [
            ("0", 0),
            ("300MiB", 314_572_800),
            ("1.5GiB", 1_610_612_736),
            ("5 GB", 5_000_000_000),
            ("320864256", 320_864_256),
            ("2kib", 2048),
        ];
        for (text, value) in pairs {
            assert_eq!(parse_bytes(text), Ok(value));
        }
        for wrong in [
            "",
            "MiB",
            "-1",
            "1.2.3GiB",
            "12 parsecs",
            "99999999999TiB",
            "1e9",
        ] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tolerances_are_read_exactly() {
        assert_eq!(parse_tolerance("2%"), Ok(20_000));
        assert_eq!(parse_tolerance("0.5 %"), Ok(5_000));
        assert_eq!(parse_tolerance("0"), Ok(0));
        assert!(parse_tolerance("two").is_err());
        assert!(parse_tolerance("-2%").is_err());
    }

    #[test]
    fn wall_clock_times_are_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            timestamp(951_782_400_123_000_000),
            "2000-02-29T00:00:00.123Z"
        );
        assert_eq!(
            timestamp(1_764_436_380_000_000_000),
            "2025-11-29T17:13:00.000Z"
        );
    }

    #[test]
    fn durations_are_as_coarse_as_they_are_long() {
        assert_eq!(duration(12_345), "12 us");
        assert_eq!(duration(12_345_678), "12 ms");
        assert_eq!(duration(3_260_000_000), "3.2 s");
        assert_eq!(duration(61_000_000_000), "1 min 1 s");
        assert_eq!(duration(7_260_000_000_000), "2 h 1 min");
    }
}
