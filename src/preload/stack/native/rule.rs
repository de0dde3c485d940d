//! How a frame's caller is found: the canonical frame address (CFA) and where the frame pointer was saved. Packed into
//! one word, so that the cache can exchange it atomically.

/// Bytes of a slot on the stack: offsets are kept in slots.
const SLOT: i64 = 8;
/// Bits of the offset of the CFA, and of the saved frame pointer's.
const CFA_BITS: u32 = 24;
const SAVED_BITS: u32 = 11;
/// Bits that the cache may use for its own purposes.
pub const SPARE_BITS: u32 = 24;

/// What is done to find the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// There is no caller, or nobody can say where.
    Stop = 0,
    /// Nothing that this walk understands.
    Foreign = 1,
    /// CFA = stack pointer + offset.
    Stack = 2,
    /// CFA = frame pointer + offset.
    Base = 3,
    /// CFA = what stands at frame pointer + offset (a function that realigned its stack).
    AtBase = 4,
    /// A signal handler's return: everything stands in the kernel's signal frame.
    Signal = 5,
}

/// Where the caller's frame pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Saved {
    /// In its register still.
    Same = 0,
    /// At CFA + offset.
    AtCfa = 1,
    /// At frame pointer + offset.
    AtBase = 2,
}

/// A rule. Bits 0-2 kind, 3-4 saved, 5-15 its offset, 16-39 the CFA's, 40-63 spare.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rule(u64);

/// An offset in slots, if it is whole and fits.
fn slots(offset: i64, bits: u32) -> Option<u64> {
    let limit = 1 << (bits - 1);
    let slots = offset / SLOT;
    (offset % SLOT == 0 && (-limit..limit).contains(&slots))
        .then_some(slots as u64 & ((1 << bits) - 1))
}

impl Rule {
    /// No caller.
    pub const STOP: Rule = Rule(Kind::Stop as u64);
    /// Not understood.
    pub const FOREIGN: Rule = Rule(Kind::Foreign as u64);
    /// The signal frame.
    pub const SIGNAL: Rule = Rule(Kind::Signal as u64);

    /// A rule with offsets in bytes; `FOREIGN` if they are out of the ordinary.
    pub fn new(kind: Kind, cfa: i64, saved: Saved, at: i64) -> Rule {
        match (slots(cfa, CFA_BITS), slots(at, SAVED_BITS)) {
            (Some(cfa), Some(at)) => Rule(kind as u64 | (saved as u64) << 3 | at << 5 | cfa << 16),
            _ => Rule::FOREIGN,
        }
    }

    /// What is done.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            0 => Kind::Stop,
            2 => Kind::Stack,
            3 => Kind::Base,
            4 => Kind::AtBase,
            5 => Kind::Signal,
            _ => Kind::Foreign,
        }
    }

    /// Where the frame pointer is.
    #[inline]
    pub fn saved(self) -> Saved {
        match self.0 >> 3 & 3 {
            0 => Saved::Same,
            1 => Saved::AtCfa,
            _ => Saved::AtBase,
        }
    }

    /// Offset of the CFA in bytes, to be added with wrapping.
    #[inline]
    pub fn cfa(self) -> u64 {
        // Shifted to the top, so that the sign is kept on the way down; slots are eight bytes.
        ((self.0 << (64 - 16 - CFA_BITS)) as i64 >> (64 - CFA_BITS) << 3) as u64
    }

    /// Offset of the saved frame pointer in bytes, to be added with wrapping.
    #[inline]
    pub fn saved_at(self) -> u64 {
        ((self.0 << (64 - 5 - SAVED_BITS)) as i64 >> (64 - SAVED_BITS) << 3) as u64
    }

    /// The rule with something in its spare bits.
    #[inline]
    pub fn with_spare(self, spare: u64) -> u64 {
        self.0 | spare << (64 - SPARE_BITS)
    }

    /// A rule and its spare bits.
    #[inline]
    pub fn from_word(word: u64) -> (Rule, u64) {
        (
            Rule(word & (u64::MAX >> SPARE_BITS)),
            word >> (64 - SPARE_BITS),
        )
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (cfa, at) = (self.cfa() as i64, self.saved_at() as i64);
        write!(to, "{:?} {cfa:+} {:?} {at:+}", self.kind(), self.saved())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_survive_packing() {
        let offsets = [0, 8, -8, 16, -56, 4096, 1 << 20, -(1 << 20), (1 << 26) - 8];
        for kind in [Kind::Stack, Kind::Base, Kind::AtBase] {
            for saved in [Saved::Same, Saved::AtCfa, Saved::AtBase] {
                for cfa in offsets {
                    for at in [0, 8, -8, -16, -8192, 8184] {
                        let rule = Rule::new(kind, cfa, saved, at);
                        let (back, spare) = Rule::from_word(rule.with_spare(0xab_cdef));
                        assert_eq!((back, spare), (rule, 0xab_cdef));
                        assert_eq!((back.kind(), back.saved()), (kind, saved));
                        assert_eq!((back.cfa() as i64, back.saved_at() as i64), (cfa, at));
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_foreign() {
        for (cfa, at) in [
            (4, 0),
            (1 << 26, 0),
            (-(1 << 27), 0),
            (16, -12),
            (16, 1 << 14),
        ] {
            let rule = Rule::new(Kind::Stack, cfa, Saved::AtCfa, at);
            assert_eq!(rule, Rule::FOREIGN, "{cfa} {at}");
        }
    }
}
