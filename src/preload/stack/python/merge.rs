//! One stack of two: Python's frames stand where the evaluation stands that ran them.

use super::super::native::Frame;
use std::ops::Range;

/// What ran a Python frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// The next function call of the interpreter's evaluation (CPython 3.8 and 3.9).
    #[default]
    Next,
    /// The one whose memory on the machine stack holds this address.
    At(u64),
}

/// A Python frame as it is kept, and what ran it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The word of the stack.
    pub word: u64,
    /// What ran it.
    pub by: Evaluation,
}

/// Merges innermost-first stacks and hands over the words of the one. Python frames come
/// just inside of the native frame that evaluates them. Those for which there is none (beyond the depth that is kept, or
/// on another stack) stay with what comes after them, at last at the end: none is lost, and the order is kept.
pub fn merge(
    native: &[Frame],
    python: &[Placed],
    evaluation: &Range<u64>,
    mut put: impl FnMut(u64),
) {
    if python.is_empty() {
        return native.iter().for_each(|frame| put(frame.address));
    }
    // Native frames before `passed` are in; those before `free` evaluate no more Python frames.
    let (mut passed, mut free) = (0, 0);
    let mut kept = 0;
    let mut end = 0;
    while end < python.len() {
        let by = python[end].by;
        end += 1;
        let found = match by {
            Evaluation::Next => {
                let runs = |frame: &Frame| evaluation.contains(&frame.address.wrapping_sub(1));
                let found = native[free..].iter().position(runs);
                found.map(|at| (free + at, free + at + 1))
            }
            Evaluation::At(address) => {
                while end < python.len() && python[end].by == by {
                    end += 1;
                }
                let holds = |pair: &[Frame]| (pair[0].stack..pair[1].stack).contains(&address);
                let found = native[free..].windows(2).position(holds);
                found.map(|at| (free + at, free + at))
            }
        };
        if let Some((at, next)) = found {
            native[passed..at]
                .iter()
                .for_each(|frame| put(frame.address));
            python[kept..end].iter().for_each(|frame| put(frame.word));
            (passed, free, kept) = (at, next, end);
        }
    }
    native[passed..].iter().for_each(|frame| put(frame.address));
    python[kept..].iter().for_each(|frame| put(frame.word));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames with their stack pointers, `address = number`.
    fn native(frames: &[(u64, u64)]) -> Vec<Frame> {
        frames
            .iter()
            .map(|(address, stack)| Frame {
                address: *address,
                stack: *stack,
            })
            .collect()
    }

    fn merged(native: &[Frame], python: &[(u64, Evaluation)]) -> Vec<u64> {
        let python: Vec<Placed> = python
            .iter()
            .map(|(word, by)| Placed {
                word: *word,
                by: *by,
            })
            .collect();
        let mut to = Vec::new();
        // Addresses 500 to 599 are the evaluation's.
        merge(native, &python, &(500..600), |word| to.push(word));
        assert_eq!(to.len(), native.len() + python.len(), "nothing is lost");
        to
    }

    use Evaluation::{At, Next};

    #[test]
    fn frames_stand_inside_of_their_evaluation() {
        let stack = native(&[
            (1, 100),
            (2, 200),
            (510, 300),
            (3, 400),
            (520, 500),
            (4, 600),
        ]);
        // 10 and 11 ran in the evaluation that holds 350, 12 in the one of 599.
        let python = [(10, At(350)), (11, At(350)), (12, At(599))];
        assert_eq!(merged(&stack, &python), [1, 2, 10, 11, 510, 3, 12, 520, 4]);
        assert_eq!(merged(&stack, &[]), [1, 2, 510, 3, 520, 4]);
        assert_eq!(merged(&[], &python), [10, 11, 12]);
        // Its first byte is a frame's own, the one past its last the next frame's.
        assert_eq!(merged(&stack, &[(10, At(300))]), [1, 2, 10, 510, 3, 520, 4]);
        assert_eq!(merged(&stack, &[(10, At(299))]), [1, 10, 2, 510, 3, 520, 4]);
    }

    #[test]
    fn each_evaluation_of_older_versions_ran_one_frame() {
        let stack = native(&[
            (1, 100),
            (510, 200),
            (511, 300),
            (3, 400),
            (600, 500),
            (601, 550),
            (4, 600),
        ]);
        let python = [(10, Next), (11, Next), (12, Next), (13, Next)];
        assert_eq!(
            merged(&stack, &python),
            [1, 10, 510, 11, 511, 3, 12, 600, 601, 4, 13],
            "a return address lies behind its call"
        );
    }

    #[test]
    fn what_cannot_be_placed_keeps_its_order() {
        let stack = native(&[(1, 100), (510, 200), (2, 300), (520, 400)]);
        // The last native frame has no known end: what lies there or beyond comes at the end.
        assert_eq!(
            merged(&stack, &[(10, At(250)), (11, At(450)), (12, At(9000))]),
            [1, 10, 510, 2, 520, 11, 12]
        );
        // One of a stack that is not this one, before one that is.
        assert_eq!(
            merged(&stack, &[(10, At(77)), (11, At(350))]),
            [1, 510, 10, 11, 2, 520]
        );
        // Evaluations never go back inwards.
        assert_eq!(
            merged(&stack, &[(10, At(350)), (11, At(150))]),
            [1, 510, 10, 2, 520, 11]
        );
        // A fibre's frames lie elsewhere in memory than those of what called it.
        let fibre = native(&[(1, 9100), (2, 9200), (3, 100), (4, 200), (5, 300)]);
        assert_eq!(
            merged(&fibre, &[(10, At(9150)), (11, At(250))]),
            [10, 1, 2, 3, 11, 4, 5]
        );
    }
}
