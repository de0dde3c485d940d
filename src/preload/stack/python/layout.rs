//! Where CPython keeps what a stack needs: a table for the versions that are known, and from 3.13 on what the interpreter
//! itself says of its offsets (`_Py_DebugOffsets`), as far as that makes sense.

use super::memory::Memory;

/// How the frames of a thread hang together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Up to 3.10: frame objects, each with an evaluation of its own; 3.10 threads a mark through the machine stack.
    Objects { marks: Option<u64> },
    /// 3.11: marks on the machine stack, each with the frames of one evaluation, the last of which says so.
    Marks { is_entry: u64 },
    /// From 3.12 on: an evaluation's last frame is followed by one of the evaluation itself, on the machine stack.
    Entries { owner: u64 },
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// 3.8 and 3.9: `co_lnotab`.
    Pairs,
    /// 3.10: `co_linetable`.
    Ranges,
    /// From 3.11 on: the table of locations.
    Locations,
}

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub chain: Chain,
    /// From the thread's state to what leads to the innermost frame.
    pub thread_frame: u64,
    /// From there to the frame, if it is not the frame.
    pub mark_frame: Option<u64>,
    pub frame_previous: u64,
    pub frame_code: u64,
    pub frame_ip: u64,
    pub code_filename: u64,
    /// Qualified name where there is one.
    pub code_name: u64,
    pub code_first_line: u64,
    pub code_lines: u64,
    /// Where instructions begin, for frames that point to them; the others count.
    pub code_start: Option<u64>,
    /// A number that no other code object of the process has had.
    pub code_version: Option<u64>,
    pub lines: Lines,
    pub object_type: u64,
    pub text_length: u64,
    pub text_state: u64,
    /// Size of the head of a text that is ASCII, and of one that is not.
    pub text_ascii: u64,
    pub text_other: u64,
    pub bytes_length: u64,
    pub bytes_data: u64,
}

const OLD: Layout = Layout {
    chain: Chain::Objects { marks: None },
    thread_frame: 24,
    mark_frame: None,
    frame_previous: 24,
    frame_code: 32,
    frame_ip: 104,
    code_filename: 104,
    code_name: 112,
    code_first_line: 40,
    code_lines: 120,
    code_start: None,
    code_version: None,
    lines: Lines::Pairs,
    object_type: 8,
    text_length: 16,
    text_state: 32,
    text_ascii: 48,
    text_other: 72,
    bytes_length: 16,
    bytes_data: 32,
};

const V3_10: Layout = Layout {
    chain: Chain::Objects { marks: Some(48) },
    frame_ip: 96,
    lines: Lines::Ranges,
    ..OLD
};

const V3_11: Layout = Layout {
    chain: Chain::Marks { is_entry: 68 },
    thread_frame: 56,
    mark_frame: Some(8),
    frame_previous: 48,
    frame_code: 32,
    frame_ip: 56,
    code_filename: 112,
    code_name: 128,
    code_first_line: 72,
    code_lines: 136,
    code_start: Some(184),
    lines: Lines::Locations,
    ..OLD
};

const V3_12: Layout = Layout {
    chain: Chain::Entries { owner: 70 },
    thread_frame: 56,
    mark_frame: Some(0),
    frame_previous: 8,
    frame_code: 0,
    code_first_line: 68,
    code_start: Some(192),
    code_version: Some(92),
    text_ascii: 40,
    text_other: 56,
    ..V3_11
};

const V3_13: Layout = Layout {
    thread_frame: 72,
    mark_frame: None,
    code_start: Some(200),
    ..V3_12
};

const V3_14: Layout = Layout {
    chain: Chain::Entries { owner: 74 },
    code_start: Some(208),
    ..V3_13
};

/// Versions are as in `Py_Version`: 0x030b02f0 is 3.11.2.
fn of_table(version: u32) -> Result<Layout, String> {
    match version >> 16 {
        0x0308 | 0x0309 => Ok(OLD),
        0x030a => Ok(V3_10),
        0x030b => Ok(V3_11),
        0x030c => Ok(V3_12),
        0x030d => Ok(V3_13),
        0x030e => Ok(V3_14),
        _ => Err(unknown(version)),
    }
}

/// What is said of a version that is not read.
pub fn unknown(version: u32) -> String {
    let (major, minor) = (version >> 24, version >> 16 & 0xff);
    format!("CPython {major}.{minor} is none of 3.8 to 3.14")
}

/// Where the groups of `_Py_DebugOffsets` begin, in words.
struct Groups {
    thread: u64,
    frame: u64,
    code: u64,
    object: u64,
    bytes: u64,
    text: u64,
}

const GROUPS_3_13: Groups = Groups {
    thread: 19,
    frame: 28,
    code: 34,
    object: 44,
    bytes: 64,
    text: 67,
};

const GROUPS_3_14: Groups = Groups {
    thread: 22,
    frame: 31,
    code: 39,
    object: 50,
    bytes: 74,
    text: 77,
};

/// The layout of an interpreter of this version whose runtime lies at `runtime`.
///
/// # Errors
/// Says why there can be no Python frames.
pub fn of(version: u32, runtime: u64, memory: impl Memory) -> Result<Layout, String> {
    let known = of_table(version)?;
    let groups = match version >> 16 {
        0x030d => GROUPS_3_13,
        0x030e => GROUPS_3_14,
        _ => return Ok(known),
    };
    let word = |number: u64| memory.word(runtime + number * 8);
    if word(0) != Some(u64::from_ne_bytes(*b"xdebugpy"))
        || word(1).map(|word| word >> 16) != Some(u64::from(version >> 16))
    {
        return Ok(known);
    }
    if word(2) != Some(0) {
        return Err("a free-threaded CPython is not supported yet".into());
    }
    Ok(told(&known, &groups, word).unwrap_or(known))
}

/// What the interpreter says, if it makes sense.
fn told(known: &Layout, groups: &Groups, word: impl Fn(u64) -> Option<u64>) -> Option<Layout> {
    let within = |number: u64, sizes: std::ops::RangeInclusive<u64>| {
        word(number).filter(|size| sizes.contains(size))
    };
    let frame_size = within(groups.frame, 72..=128)?;
    let code_size = within(groups.code, 176..=320)?;
    let thread_size = within(groups.thread, 128..=4096)?;
    within(groups.object, 16..=16)?;
    // Pointers are aligned and inside what they are a part of.
    let inside = |number: u64, size: u64| word(number).filter(|at| *at + 8 <= size && at % 8 == 0);
    let first_line = word(groups.code + 5).filter(|at| *at + 4 <= code_size && at % 4 == 0)?;
    let owner = word(groups.frame + 5).filter(|at| *at < frame_size)?;
    let text_ascii = within(groups.text + 3, 32..=64)?;
    Some(Layout {
        chain: Chain::Entries { owner },
        thread_frame: inside(groups.thread + 4, thread_size)?,
        frame_previous: inside(groups.frame + 1, frame_size)?,
        frame_code: inside(groups.frame + 2, frame_size)?,
        frame_ip: inside(groups.frame + 3, frame_size)?,
        code_filename: inside(groups.code + 1, code_size)?,
        code_name: inside(groups.code + 3, code_size)?,
        code_lines: inside(groups.code + 4, code_size)?,
        code_first_line: first_line,
        code_start: Some(word(groups.code + 9).filter(|at| *at < code_size + 64 && at % 8 == 0)?),
        // Of a build with other fields before it, it is not known where the number lies.
        code_version: known
            .code_version
            .filter(|_| first_line == known.code_first_line),
        object_type: within(groups.object + 1, 8..=8)?,
        text_length: within(groups.text + 2, 16..=32)?,
        text_state: within(groups.text + 1, 16..=48)?,
        text_ascii,
        text_other: text_ascii + 16,
        bytes_length: within(groups.bytes + 1, 16..=32)?,
        bytes_data: within(groups.bytes + 2, 24..=48)?,
        ..*known
    })
}

#[cfg(test)]
mod tests {
    use super::super::memory::Known;
    use super::*;

    /// What CPython 3.13.0 and 3.14.0 begin with, as far as it is read.
    fn runtime(version: u32, groups: &Groups, like: &Layout) -> Vec<u64> {
        let mut words = vec![0u64; 96];
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        words[1] = u64::from(version);
        let mut put = |at: u64, values: &[u64]| {
            words[at as usize..at as usize + values.len()].copy_from_slice(values);
        };
        let Chain::Entries { owner } = like.chain else {
            unreachable!()
        };
        let start = like.code_start.expect("from 3.11 on");
        put(
            groups.thread,
            &[312, 0, 8, 16, like.thread_frame, 152, 160, 0, 0],
        );
        put(
            groups.frame,
            &[
                88,
                like.frame_previous,
                like.frame_code,
                like.frame_ip,
                80,
                owner,
            ],
        );
        put(
            groups.code,
            &[
                start + 8,
                like.code_filename,
                120,
                like.code_name,
                like.code_lines,
                like.code_first_line,
                52,
                96,
                104,
                start,
            ],
        );
        put(groups.object, &[16, 8]);
        put(groups.bytes, &[40, 16, 32]);
        put(groups.text, &[64, 32, 16, 40]);
        words
    }

    fn read(version: u32, words: &[u64]) -> Result<Layout, String> {
        of(version, words.as_ptr() as u64, Known)
    }

    #[test]
    fn the_interpreters_own_words_agree_with_the_table() {
        for (version, groups, layout) in [
            (0x030d_00f0, GROUPS_3_13, V3_13),
            (0x030e_0af0, GROUPS_3_14, V3_14),
        ] {
            let words = runtime(version, &groups, &layout);
            assert_eq!(read(version, &words), Ok(layout));
            let told_now = told(&layout, &groups, |at| words.get(at as usize).copied());
            assert_eq!(told_now, Some(layout));
            // They count where they differ, and not at all where they make no sense.
            let mut other = words.clone();
            other[groups.frame as usize + 3] = 64;
            assert_eq!(read(version, &other).map(|found| found.frame_ip), Ok(64));
            for (at, value) in [
                (groups.code, 9),
                (groups.object, 24),
                (groups.frame + 1, 1 << 40),
                (groups.text + 3, 0),
            ] {
                let mut odd = words.clone();
                odd[at as usize] = value;
                assert_eq!(read(version, &odd), Ok(layout), "{at} {value}");
            }
        }
    }

    #[test]
    fn unknown_builds_have_no_layout() {
        let mut words = runtime(0x030e_00f0, &GROUPS_3_14, &V3_14);
        words[2] = 1;
        let reason = read(0x030e_00f0, &words).expect_err("free-threaded");
        assert!(reason.contains("free-threaded"), "{reason}");
        for version in [0x0207_12f0, 0x0307_00f0, 0x030f_00f0, 0x0400_00f0] {
            assert!(of(version, 0, Known).is_err(), "{version:x}");
        }
        assert_eq!(of(0x030b_02f0, 0, Known), Ok(V3_11));
        assert_eq!(of(0x0308_12f0, 0, Known), Ok(OLD));
    }
}
