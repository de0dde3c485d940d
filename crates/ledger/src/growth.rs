//! What each instance of a phase leaves behind: of the blocks that live now, those that came in each instance, site by site.
//!
//! The figure of a row is the middle one of all instances but the first, which warms up, and the latest, of which much may yet
//! go. So one instance that kept much, or a buffer that is replaced in each, is no growth.

use crate::hash::Map;
use crate::ledger::Ledger;
use crate::phases::{Instance, PhaseId};
use crate::rows::RowId;
use serde::{Deserialize, Serialize};

/// Instances that must have ended before anything is said.
const LEAST_INSTANCES: usize = 5;
/// Phases looked at.
const MOST_PHASES: usize = 64;
/// Rows told of, of each phase.
const MOST_ROWS: usize = 8;

/// What a phase leaves behind each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// The phase.
    pub phase: PhaseId,
    /// Instances looked at.
    pub instances: u64,
    /// The rows are those of a framework's cache, not the driver's.
    pub of_tensors: bool,
    /// Bytes that an instance leaves behind, row by row, most first.
    pub rows: Vec<(RowId, u64)>,
}

/// A block that lives: when it came, from where, its bytes.
type Left = (u64, RowId, u64);

impl Ledger {
    /// What each phase leaves behind. Looks at every block.
    #[must_use]
    pub fn growth(&self) -> Vec<Growth> {
        if !self.phases.any() {
            return Vec::new();
        }
        let cached = self.tensors.any();
        let mut left: Vec<Left> = if cached {
            let blocks = self.tensors.blocks();
            blocks
                .map(|(_, block)| (block.time_ns, block.row, block.bytes))
                .collect()
        } else {
            let blocks = self.blocks.live();
            blocks
                .filter(|(_, block)| block.space.is_device())
                .map(|(_, block)| (block.time_ns, block.row, block.bytes))
                .collect()
        };
        left.sort_unstable();
        let phases = self.phases.iter().take(MOST_PHASES);
        phases
            .filter_map(|(id, phase)| {
                let instances = phase.instances.iter().filter(|one| one.ended_ns.is_some());
                let instances: Vec<&Instance> = instances.collect();
                if instances.len() < LEAST_INSTANCES {
                    return None;
                }
                let told = &instances[1..instances.len() - 1];
                let rows = per_instance(told, &left);
                (!rows.is_empty()).then_some(Growth {
                    phase: id,
                    instances: told.len() as u64,
                    of_tensors: cached,
                    rows,
                })
            })
            .collect()
    }
}

fn per_instance(instances: &[&Instance], left: &[Left]) -> Vec<(RowId, u64)> {
    let mut found: Map<RowId, Vec<u64>> = Map::default();
    for instance in instances {
        let from = left.partition_point(|one| one.0 < instance.begun_ns);
        let end_ns = instance.ended_ns.unwrap_or(u64::MAX);
        let of_instance = left[from..].iter().take_while(|one| one.0 <= end_ns);
        let mut sums: Map<RowId, u64> = Map::default();
        for (_, row, bytes) in of_instance {
            *sums.entry(*row).or_default() += bytes;
        }
        for (row, bytes) in sums {
            found.entry(row).or_default().push(bytes);
        }
    }
    let mut rows: Vec<(RowId, u64)> = found
        .into_iter()
        .filter_map(|(row, sums)| Some((row, middle(sums, instances.len())?)))
        .collect();
    rows.sort_by_key(|(row, bytes)| (std::cmp::Reverse(*bytes), *row));
    rows.truncate(MOST_ROWS);
    rows
}

/// The middle one of so many numbers, of which those that are not there are zero; `None` if that is zero.
fn middle(mut numbers: Vec<u64>, of: usize) -> Option<u64> {
    let zeros = of - numbers.len().min(of);
    numbers.sort_unstable();
    let at = (of / 2).checked_sub(zeros)?;
    numbers.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_in_most_instances_counts() {
        assert_eq!(middle(vec![5, 5, 5], 3), Some(5));
        assert_eq!(middle(vec![9, 1, 2], 5), Some(1));
        // Left behind in less than half of them.
        assert_eq!(middle(vec![5, 5], 5), None);
        assert_eq!(middle(vec![1000], 18), None);
    }
}
