//! From an instruction to its line, by the tables that CPython keeps beside its code.

use super::layout::Lines;

/// The line of the instruction at `offset` bytes (negative: before the first one); 0 if it has none.
pub fn line(kind: Lines, table: &[u8], first: i32, offset: i64) -> u32 {
    let line = if offset < 0 {
        Some(i64::from(first))
    } else {
        match kind {
            Lines::Pairs => Some(by_pairs(table, first, offset)),
            Lines::Ranges => by_ranges(table, first, offset),
            Lines::Locations => by_locations(table, first, offset),
        }
    };
    line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// 3.8, 3.9: steps of bytes and of lines.
fn by_pairs(table: &[u8], first: i32, offset: i64) -> i64 {
    let mut line = i64::from(first);
    let mut at = 0;
    for pair in table.chunks_exact(2) {
        at += i64::from(pair[0]);
        if at > offset {
            break;
        }
        line += i64::from(pair[1] as i8);
    }
    line
}

/// 3.10: lengths, and the step of the line at the beginning of each; -128 stands for no line.
fn by_ranges(table: &[u8], first: i32, offset: i64) -> Option<i64> {
    let mut line = i64::from(first);
    let mut end = 0;
    for pair in table.chunks_exact(2) {
        let step = pair[1] as i8;
        if step != -128 {
            line += i64::from(step);
        }
        end += i64::from(pair[0]);
        if end > offset {
            return (step != -128).then_some(line);
        }
    }
    None
}

/// From 3.11 on: entries of one to eight code units, each with a step of the line in one of several forms.
fn by_locations(table: &[u8], first: i32, offset: i64) -> Option<i64> {
    let mut line = i64::from(first);
    let mut end = 0;
    let mut at = 0;
    while let Some(head) = table.get(at) {
        let kind = head >> 3 & 15;
        let (step, has_line) = match kind {
            15 => (0, false),
            13 | 14 => (signed(&table[at + 1..]), true),
            10..=12 => (i64::from(kind) - 10, true),
            _ => (0, true),
        };
        line += step;
        end += 2 * (i64::from(head & 7) + 1);
        if end > offset {
            return has_line.then_some(line);
        }
        at += 1;
        // Only the first byte of an entry has the highest bit.
        while table.get(at).is_some_and(|byte| byte & 0x80 == 0) {
            at += 1;
        }
    }
    None
}

/// A number of six bits a byte, the seventh saying that it goes on; its lowest bit is the sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut value = 0u64;
    for (byte, shift) in bytes.iter().zip((0..60).step_by(6)) {
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            break;
        }
    }
    let size = (value >> 1) as i64;
    if value & 1 != 0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(kind: Lines, table: &[u8], first: i32, offsets: &[i64]) -> Vec<u32> {
        offsets
            .iter()
            .map(|offset| line(kind, table, first, *offset))
            .collect()
    }

    #[test]
    fn pairs_of_3_8() {
        // Six bytes of the first line, then two lines on, then one back.
        let table = [6, 2, 4, 0xff];
        let found = lines(Lines::Pairs, &table, 10, &[-1, 0, 5, 6, 9, 10, 1000]);
        assert_eq!(found, [10, 10, 10, 12, 12, 11, 11]);
    }

    #[test]
    fn ranges_of_3_10() {
        let table = [6, 0, 4, 2, 2, 0x80, 4, 0xff];
        let found = lines(Lines::Ranges, &table, 10, &[-1, 0, 5, 6, 9, 10, 12, 15, 16]);
        assert_eq!(found, [10, 10, 10, 12, 12, 0, 11, 11, 0]);
    }

    #[test]
    fn locations_of_3_11() {
        let table = [
            0x80 | 13 << 3,
            0b11, // one unit, one line back
            0x80 | 11 << 3 | 1,
            4,
            9,              // two units, one line on
            0x80 | 15 << 3, // one without a line
            0x80 | 3 << 3 | 3,
            0x12, // four of the same line
            0x80 | 14 << 3,
            0x40 | 2,
            2,
            0,
            1,
            1, // 65 lines on
        ];
        let found = lines(
            Lines::Locations,
            &table,
            10,
            &[-2, 0, 2, 4, 6, 8, 14, 16, 18],
        );
        assert_eq!(found, [10, 9, 10, 10, 0, 10, 10, 75, 0]);
    }

    #[test]
    fn no_table_is_too_odd() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u8
        };
        for _ in 0..20_000 {
            let table: Vec<u8> = (0..next() % 40).map(|_| next()).collect();
            for kind in [Lines::Pairs, Lines::Ranges, Lines::Locations] {
                line(kind, &table, i32::MAX, i64::from(next()));
                line(kind, &table, i32::MIN, i64::MAX);
            }
        }
        assert_eq!(
            line(Lines::Pairs, &[1, 0x80], 1, 2),
            0,
            "no line is negative"
        );
    }
}
