//! How many bytes an array has.

use crate::abi::array::{CUBEMAP, Deep, LAYERED};
use crate::codes::{Answer, Code, require};

/// What an array looks like. A dimension of 0 is not there.
pub(super) type Shape = Deep<usize>;

/// The bytes of one unit of a format, and how many elements wide and high that unit is.
fn unit(format: i32, channels: u32) -> Answer<(u64, u64)> {
    let plain = |bytes: u64| {
        require(matches!(channels, 1 | 2 | 4))?;
        Ok((bytes * u64::from(channels), 1))
    };
    match format {
        // integers of 8, 16 and 32 bits, halves and floats
        0x01 | 0x08 => plain(1),
        0x02 | 0x09 | 0x10 => plain(2),
        0x03 | 0x0a | 0x20 => plain(4),
        // normalised integers of 8 and of 16 bits, with 1, 2 or 4 channels in the name
        0xc0 | 0xc6 => Ok((1, 1)),
        0xc1 | 0xc3 | 0xc7 | 0xc9 => Ok((2, 1)),
        0xc2 | 0xc4 | 0xc8 | 0xca => Ok((4, 1)),
        0xc5 | 0xcb => Ok((8, 1)),
        // compressed in blocks of 4 x 4
        0x91 | 0x92 | 0x97 | 0x98 => Ok((8, 4)),
        0x93..=0x96 | 0x99..=0x9e => Ok((16, 4)),
        _ => Err(Code::INVALID_VALUE),
    }
}

impl Shape {
    /// Whether the depth counts layers or faces, which no level of a mipmap has fewer of.
    fn is_layered(&self) -> bool {
        self.flags & (LAYERED | CUBEMAP) != 0
    }

    /// Refuses what is no array.
    pub(super) fn check(&self) -> Answer<()> {
        unit(self.format, self.channels)?;
        require(self.width > 0 && self.width <= 1 << 17)?;
        require(self.height <= 1 << 16 && self.depth <= 1 << 14)?;
        require(self.height > 0 || self.depth == 0 || self.is_layered())?;
        require(!self.is_layered() || self.depth > 0)?;
        if self.flags & CUBEMAP != 0 {
            require(self.width == self.height && self.depth.is_multiple_of(6))?;
            require(self.depth == 6 || self.flags & LAYERED != 0)?;
        }
        Ok(())
    }

    /// How many levels a mipmap has at most: down to one element.
    fn most_levels(&self) -> u32 {
        let depth = if self.is_layered() { 1 } else { self.depth };
        self.width.max(self.height).max(depth).max(1).ilog2() + 1
    }

    /// How many levels a mipmap gets: no more than there can be.
    pub(super) fn levels(&self, asked: u32) -> u32 {
        asked.clamp(1, self.most_levels())
    }

    /// A level of a mipmap: each dimension that is there is halved, down to 1.
    pub(super) fn level(&self, level: u32) -> Shape {
        let halved = |size: usize| if size == 0 { 0 } else { (size >> level).max(1) };
        Shape {
            width: halved(self.width),
            height: halved(self.height),
            depth: if self.is_layered() {
                self.depth
            } else {
                halved(self.depth)
            },
            ..*self
        }
    }

    /// The bytes of an array of this shape, which was checked.
    pub(super) fn bytes(&self) -> u64 {
        let (bytes, side) = unit(self.format, self.channels).unwrap_or((0, 1));
        let units = |size: usize| (size.max(1) as u64).div_ceil(side);
        bytes * units(self.width) * units(self.height) * self.depth.max(1) as u64
    }

    /// The bytes of a mipmap with so many levels.
    pub(super) fn mipmap_bytes(&self, levels: u32) -> u64 {
        (0..levels).map(|level| self.level(level).bytes()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOAT: i32 = 0x20;

    fn shape(size: [usize; 3], format: i32, channels: u32, flags: u32) -> Shape {
        let [width, height, depth] = size;
        Shape {
            width,
            height,
            depth,
            format,
            channels,
            flags,
        }
    }

    #[test]
    fn bytes_are_elements_times_channels_times_size() {
        assert_eq!(shape([256, 256, 0], FLOAT, 4, 0).bytes(), 1_048_576);
        assert_eq!(shape([1000, 0, 0], 0x01, 1, 0).bytes(), 1000);
        assert_eq!(shape([10, 20, 30], 0x10, 2, 0).bytes(), 24_000);
        assert_eq!(shape([10, 0, 8], FLOAT, 1, LAYERED).bytes(), 320);
        assert_eq!(shape([16, 16, 6], 0xc2, 4, CUBEMAP).bytes(), 6144);
        assert_eq!(shape([10, 10, 0], 0x91, 4, 0).bytes(), 72);
    }

    #[test]
    fn a_mipmap_halves_what_it_has() {
        let flat = shape([256, 256, 0], FLOAT, 1, 0);
        assert_eq!((flat.most_levels(), flat.mipmap_bytes(9)), (9, 349_524));
        let layered = shape([4, 4, 5], FLOAT, 1, LAYERED);
        assert_eq!(layered.most_levels(), 3);
        assert_eq!(layered.mipmap_bytes(3), 4 * 5 * (16 + 4 + 1));
        let deep = shape([8, 4, 2], 0x08, 1, 0);
        assert_eq!(deep.mipmap_bytes(4), 64 + 8 + 2 + 1);
    }

    #[test]
    fn what_is_no_array_is_refused() {
        for bad in [
            shape([0, 4, 0], FLOAT, 1, 0),
            shape([4, 4, 0], FLOAT, 3, 0),
            shape([4, 4, 0], 0x77, 1, 0),
            shape([4, 0, 4], FLOAT, 1, 0),
            shape([4, 4, 0], FLOAT, 1, LAYERED),
            shape([4, 8, 6], FLOAT, 1, CUBEMAP),
            shape([4, 4, 12], FLOAT, 1, CUBEMAP),
            shape([1 << 18, 1, 0], FLOAT, 1, 0),
        ] {
            assert_eq!(bad.check(), Err(Code::INVALID_VALUE), "{bad:?}");
        }
        let layered = shape([4, 4, 12], FLOAT, 1, CUBEMAP | LAYERED);
        assert_eq!(layered.check(), Ok(()));
    }
}
