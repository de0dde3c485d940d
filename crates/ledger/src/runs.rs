//! Numbers in a row of which many are alike: each with how often it follows itself.

use serde::{Deserialize, Serialize};

/// The numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Runs(Vec<(u32, u64)>);

impl Runs {
    /// These numbers.
    pub fn of(numbers: impl Iterator<Item = u32>) -> Runs {
        let mut runs: Vec<(u32, u64)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((last, count)) if *last == number => *count += 1,
                _ => runs.push((number, 1)),
            }
        }
        Runs(runs)
    }

    /// The numbers one by one; zeros after the last.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let runs = self.0.iter();
        let all = runs.flat_map(|(number, count)| std::iter::repeat_n(*number, *count as usize));
        all.chain(std::iter::repeat(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back() {
        let runs = Runs::of([0, 0, 3, 3, 3, 1].into_iter());
        assert_eq!(runs.0, [(0, 2), (3, 3), (1, 1)]);
        assert_eq!(
            runs.numbers().take(8).collect::<Vec<_>>(),
            [0, 0, 3, 3, 3, 1, 0, 0]
        );
    }
}
