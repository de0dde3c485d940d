//! Python frames as words of a stack, beside return addresses: no address has these highest bits.

/// Highest 16 bits of a frame: then 24 bits of its code's number, 24 of its line.
const FRAME: u64 = 0x8001;
/// Highest 16 bits of a gap: then how many frames are left out.
const GAP: u64 = 0x8002;
const BITS: u32 = 24;
const MOST: u32 = (1 << BITS) - 1;

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A return address.
    Native(u64),
    /// A line (0: not known) of a code object.
    Python { code: u32, line: u32 },
    /// So many Python frames are left out here.
    LeftOut(u64),
}

/// The word of a frame.
pub const fn frame(code: u32, line: u32) -> u64 {
    let line = if line > MOST { 0 } else { line };
    FRAME << 48 | ((code & MOST) as u64) << BITS | line as u64
}

/// The word of a gap.
pub const fn gap(left_out: u64) -> u64 {
    let room = (1 << 48) - 1;
    GAP << 48 | if left_out < room { left_out } else { room }
}

/// The word that ends a stack whose outer native frames were not kept, however many.
pub const CUT: u64 = gap(0);

/// True for words that are no return addresses.
pub const fn is_python(word: u64) -> bool {
    matches!(word >> 48, FRAME | GAP)
}

/// What a word says.
pub fn read(word: u64) -> Word {
    match word >> 48 {
        FRAME => Word::Python {
            code: (word >> BITS) as u32 & MOST,
            line: word as u32 & MOST,
        },
        GAP => Word::LeftOut(word & ((1 << 48) - 1)),
        _ => Word::Native(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_were_made_of() {
        for (code, line) in [(0, 0), (1, 1), (MOST, MOST), (32_768, 99_999)] {
            assert_eq!(read(frame(code, line)), Word::Python { code, line });
            assert!(is_python(frame(code, line)));
        }
        assert_eq!(read(frame(7, MOST + 1)), Word::Python { code: 7, line: 0 });
        assert_eq!(read(gap(872)), Word::LeftOut(872));
        assert_eq!(read(gap(u64::MAX)), Word::LeftOut((1 << 48) - 1));
        assert_eq!(read(0x7fff_1234_5678), Word::Native(0x7fff_1234_5678));
        assert!(!is_python(0x7fff_1234_5678) && !is_python(0xffff_ffff_ff60_0000));
    }
}
