//! Images of code: which are any, and the variables that a text of PTX declares.

/// How images begin: a cubin, a fat binary, its wrapper.
const BINARY: [&[u8]; 3] = [b"\x7fELF", b"\x50\xed\x55\xba", b"\xb1\x43\x62\x46"];
/// How PTX begins: with its version, a comment or an empty line.
const TEXT: [&[u8]; 3] = [b".version", b"//", b"\n"];

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Binary,
    Text,
}

/// Tells an image by its first bytes; `starts` compares them.
pub fn kind(starts: impl Fn(&[u8]) -> bool) -> Option<Kind> {
    if BINARY.iter().any(|magic| starts(magic)) {
        return Some(Kind::Binary);
    }
    let text = TEXT.iter().any(|magic| starts(magic));
    text.then_some(Kind::Text)
}

/// A variable in global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    pub name: String,
    pub bytes: u64,
    pub managed: bool,
}

/// The variables that a text defines. What it only declares, or cannot be read, is left out.
pub fn globals(text: &str) -> Vec<Global> {
    let lines = text.lines().map(|line| line.split("//").next());
    let text = lines.map(Option::unwrap_or_default).collect::<Vec<_>>();
    text.join("\n").split(';').filter_map(global).collect()
}

/// One statement: `.global .align 4 .b8 name[1024]`, perhaps with a value.
fn global(statement: &str) -> Option<Global> {
    let (before, after) = statement.split_once(".global ")?;
    if before.trim_end().ends_with(".extern") {
        return None;
    }
    let declared = after.split('=').next()?;
    let (mut width, mut lanes, mut managed) = (None, 1, false);
    let mut words = declared.split_whitespace();
    let name = loop {
        match words.next()? {
            ".align" => drop(words.next()?),
            word if word.starts_with(".attribute") => managed = word.contains(".managed"),
            ".v2" => lanes = 2,
            ".v4" => lanes = 4,
            word if word.starts_with('.') => {
                let digits = word.trim_start_matches(|c: char| !c.is_ascii_digit());
                width = Some(digits.parse::<u64>().ok()? / 8);
            }
            word => break word,
        }
    };
    let mut parts = name.split('[');
    let name = parts.next()?.to_owned();
    let mut bytes = width? * lanes;
    for part in parts {
        let count: u64 = part.trim_end().trim_end_matches(']').parse().ok()?;
        bytes = bytes.checked_mul(count)?;
    }
    (bytes > 0).then_some(Global {
        name,
        bytes,
        managed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_told_by_their_first_bytes() {
        let of = |image: &[u8]| kind(|magic| image.starts_with(magic));
        assert_eq!(of(b"\x7fELF\x02"), Some(Kind::Binary));
        assert_eq!(of(&0xba55_ed50_u32.to_le_bytes()), Some(Kind::Binary));
        assert_eq!(of(b".version 8.0\n"), Some(Kind::Text));
        assert_eq!(of(b"//\n// Generated"), Some(Kind::Text));
        assert_eq!(of(b"junk"), None);
        assert_eq!(of(b""), None);
    }

    #[test]
    fn variables_are_read_with_their_sizes() {
        let text = "
            .version 8.0
            .target sm_90 // .global .b8 not_this[4];
            .visible .global .align 4 .b8 table[1048576];
            .global .align 16 .v4 .f32 corners[2][3];
            .visible .global .attribute(.managed) .align 8 .u64 shared = 7;
            .extern .global .b8 elsewhere[16];
            .visible .entry kernel() { ld.global.u32 %r1, [%rd1]; ret; }
            .global .u32 last = { 1 };
        ";
        let found = globals(text);
        let found: Vec<_> = found
            .iter()
            .map(|global| (global.name.as_str(), global.bytes, global.managed))
            .collect();
        let wanted = [
            ("table", 1_048_576, false),
            ("corners", 96, false),
            ("shared", 8, true),
            ("last", 4, false),
        ];
        assert_eq!(found, wanted);
    }
}
