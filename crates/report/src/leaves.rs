//! A CUDA runtime that is linked into a program without symbols has no names. But all of its calls to one function of the
//! driver leave the same innermost frames, and where the program's own begin, the stacks differ: what all stacks of one
//! innermost frame share is taken for the runtime. (An allocation helper through which everything goes is passed over as
//! well, which is as good: its callers are what differs.)

use oomhook_trace::FrameId;
use std::collections::HashMap;

/// How many innermost frames are passed over, by the innermost of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaves(HashMap<FrameId, usize>);

/// What the stacks of one innermost frame have in common.
struct Common<'a> {
    frames: &'a [FrameId],
    /// There are stacks that go on differently.
    differ: bool,
}

impl Leaves {
    /// Looks at all stacks. `nameless` says how many innermost frames of a stack lie in one library and have no names.
    pub fn find<'a>(
        stacks: impl Iterator<Item = &'a [FrameId]>,
        mut nameless: impl FnMut(&[FrameId]) -> usize,
    ) -> Leaves {
        let mut all: HashMap<FrameId, Common<'a>> = HashMap::new();
        for stack in stacks {
            let length = nameless(stack);
            // One frame of the library must be left to be the site.
            let Some(frames) = stack.get(..length.saturating_sub(1)) else {
                continue;
            };
            let Some(innermost) = frames.first() else {
                continue;
            };
            let common = all.entry(*innermost).or_insert(Common {
                frames,
                differ: false,
            });
            let same = common.frames.iter().zip(frames);
            let same = same.take_while(|(a, b)| a == b).count();
            common.differ |= same < common.frames.len() || same < frames.len();
            common.frames = &common.frames[..same];
        }
        let known = all.into_iter().filter(|(_, common)| common.differ);
        Leaves(
            known
                .map(|(frame, common)| (frame, common.frames.len()))
                .collect(),
        )
    }

    /// How many innermost frames of a stack are passed over.
    #[must_use]
    pub fn passed(&self, stack: &[FrameId]) -> usize {
        stack
            .first()
            .and_then(|innermost| self.0.get(innermost))
            .copied()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames below 100 are the program's, without names.
    fn find(stacks: &[&[FrameId]]) -> Leaves {
        Leaves::find(stacks.iter().copied(), |stack| {
            stack.iter().take_while(|frame| **frame < 100).count()
        })
    }

    #[test]
    fn what_all_stacks_share_is_passed_over() {
        let stacks: [&[FrameId]; 4] = [
            &[1, 2, 3, 40, 50, 100],
            &[1, 2, 3, 41, 50, 100],
            &[1, 2, 3, 40, 51, 100],
            // Another function of the runtime.
            &[5, 6, 42, 50, 100],
        ];
        let leaves = find(&stacks);
        assert_eq!(leaves.passed(stacks[0]), 3);
        assert_eq!(leaves.passed(stacks[3]), 0, "a lone stack shares nothing");
        assert_eq!(leaves.passed(&[100]), 0);
        assert_eq!(leaves.passed(&[]), 0);
    }

    #[test]
    fn a_frame_of_the_program_is_left_in_every_stack() {
        // The same function called in two ways from outside, and a stack that is cut short.
        assert_eq!(
            find(&[&[1, 2, 3, 100], &[1, 2, 3, 101]]).passed(&[1, 2, 3, 100]),
            0
        );
        let short = find(&[&[1, 2, 3, 40, 100], &[1, 2, 100], &[1, 2, 3, 41, 100]]);
        assert_eq!(short.passed(&[1, 2, 3, 40, 100]), 1);
        assert_eq!(find(&[&[1, 100], &[1, 101]]), Leaves::default());
        assert_eq!(find(&[&[100, 1], &[100, 2]]), Leaves::default());
    }
}
