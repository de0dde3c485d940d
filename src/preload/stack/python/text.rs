//! Python's texts to UTF-8.

use super::layout::Layout;
use super::memory::Memory;

/// A text longer than this (in characters) is none that names a function or a file.
pub const MOST: u64 = 64 << 10;

/// Stands for what was cut.
const GAP: &str = "\u{2026}";

/// Which end of a text says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// A name's beginning.
    Start,
    /// A path's end.
    End,
}

/// The text at an address, which is known to be one; `None` if it makes no sense.
pub fn read(layout: &Layout, memory: impl Memory, text: u64) -> Option<String> {
    let length = memory
        .word(text + layout.text_length)
        .filter(|length| *length <= MOST)?;
    let (data, length_in_bytes) = place(layout, memory, text, length)?;
    let bytes = memory.bytes(data, length_in_bytes)?;
    match length_in_bytes / length.max(1) {
        0 | 1 => Some(bytes.into_iter().map(char::from).collect()),
        2 => {
            let units = bytes
                .chunks_exact(2)
                .map(|unit| u32::from(u16::from_ne_bytes([unit[0], unit[1]])));
            Some(units.map(scalar).collect())
        }
        _ => {
            let units = bytes
                .chunks_exact(4)
                .map(|unit| u32::from_ne_bytes([unit[0], unit[1], unit[2], unit[3]]));
            Some(units.map(scalar).collect())
        }
    }
}

/// Where the characters of a text of this length lie, and their bytes.
#[inline]
pub fn place(layout: &Layout, memory: impl Memory, text: u64, length: u64) -> Option<(u64, u64)> {
    let state = memory.read::<u32>(text + layout.text_state)?;
    let (kind, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    let data = match (is_compact, is_ascii) {
        (true, true) => text + layout.text_ascii,
        (true, false) => text + layout.text_other,
        // Made by an old interface: the characters lie elsewhere.
        (false, _) => memory.word(text + layout.text_other)?,
    };
    let bytes = length.checked_mul(u64::from(kind))?;
    matches!(kind, 1 | 2 | 4).then_some((data, bytes))
}

/// Half of a surrogate pair (an undecodable byte of a file's name is one) has no UTF-8.
fn scalar(unit: u32) -> char {
    char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// At most so many bytes of a text.
pub fn cut(text: String, most: usize, keep: Keep) -> String {
    if text.len() <= most {
        return text;
    }
    let room = most - GAP.len();
    let is_between = |at: &usize| text.is_char_boundary(*at);
    match keep {
        Keep::Start => {
            let end = (0..=room).rev().find(is_between).unwrap_or(0);
            format!("{}{GAP}", &text[..end])
        }
        Keep::End => {
            let start = (text.len() - room..=text.len()).find(is_between);
            format!("{GAP}{}", &text[start.unwrap_or(text.len())..])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout;
    use super::super::memory::Known;
    use super::*;

    /// A text object of CPython 3.11 in words, its data at the end.
    fn object(length: u64, state: u32, head: usize, data: &[u8]) -> Vec<u64> {
        let mut words = vec![0u64; head / 8 + data.len().div_ceil(8)];
        words[2] = length;
        words[4] = u64::from(state);
        for (at, byte) in data.iter().enumerate() {
            words[head / 8 + at / 8] |= u64::from(*byte) << (at % 8 * 8);
        }
        words
    }

    fn text(words: &[u64]) -> Option<String> {
        let layout = layout::of(0x030b_02f0, 0, Known).expect("3.11");
        read(&layout, Known, words.as_ptr() as u64)
    }

    fn wide<T: Copy>(units: &[T], bytes: impl Fn(T) -> Vec<u8>) -> Vec<u8> {
        units.iter().flat_map(|unit| bytes(*unit)).collect()
    }

    #[test]
    fn all_kinds_become_utf8() {
        const ASCII: u32 = 1 << 2 | 1 << 5 | 1 << 6;
        assert_eq!(
            text(&object(5, ASCII, 48, b"train")).as_deref(),
            Some("train")
        );
        assert_eq!(text(&object(0, ASCII, 48, b"")).as_deref(), Some(""));
        let latin = object(3, 1 << 2 | 1 << 5, 72, &[b'n', 0xe4, b'h']);
        assert_eq!(text(&latin).as_deref(), Some("n\u{e4}h"));
        let two = wide(&[0x8bad_u16, 0x7ec3, 0xdc80], |unit| {
            unit.to_ne_bytes().to_vec()
        });
        let two = object(3, 2 << 2 | 1 << 5, 72, &two);
        assert_eq!(text(&two).as_deref(), Some("\u{8bad}\u{7ec3}\u{fffd}"));
        let four = wide(&[0x1f40d_u32, 0x61, 0xffff_ffff], |unit| {
            unit.to_ne_bytes().to_vec()
        });
        let four = object(3, 4 << 2 | 1 << 5, 72, &four);
        assert_eq!(text(&four).as_deref(), Some("\u{1f40d}a\u{fffd}"));
        let data = b"elsewhere".to_vec();
        let mut apart = object(9, 1 << 2, 72, &[0; 8]);
        apart[9] = data.as_ptr() as u64;
        assert_eq!(text(&apart).as_deref(), Some("elsewhere"));
    }

    #[test]
    fn what_is_no_text_is_none() {
        assert_eq!(text(&object(1 << 40, 1 << 2 | 1 << 5, 72, b"x")), None);
        assert_eq!(text(&object(1, 3 << 2 | 1 << 5, 72, b"x")), None);
        assert_eq!(text(&object(1, 0, 72, &[0; 8])), None);
        assert_eq!(
            text(&object(1, 1 << 2, 72, &[7, 0, 0, 0, 0, 0, 0, 0])),
            None
        );
    }

    #[test]
    fn long_ones_are_cut_between_characters() {
        let long = "\u{e4}".repeat(20);
        assert_eq!(cut(long.clone(), 40, Keep::Start), long);
        let start = cut(long.clone(), 20, Keep::Start);
        assert_eq!(start, format!("{}\u{2026}", "\u{e4}".repeat(8)));
        let end = cut(format!("/{long}.py"), 14, Keep::End);
        assert_eq!(end, format!("\u{2026}{}.py", "\u{e4}".repeat(4)));
    }
}
