//! How the live bytes of a site went over the life of the process: a few shapes that people know, each told by fixed rules from
//! the site's lowest and highest bytes in equal slots of allocations. What fits none has no shape.

use crate::amount::Amount;
use crate::rows::{Row, RowId, Sizes};
use oomhook_trace::StackId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Came at the beginning, and stayed.
    OneTime,
    /// Stays about the same.
    Plateau,
    /// Rises and falls again and again, to about the same height.
    SawTooth,
    /// High once.
    Spike,
    /// Its lowest bytes rise again and again.
    Staircase,
    /// Its blocks become larger and larger.
    LargerBlocks,
    /// Comes and goes very often, and never holds much of what came.
    Churn,
}

impl Shape {
    /// The word used in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Shape::OneTime => "one_time",
            Shape::Plateau => "plateau",
            Shape::SawTooth => "saw_tooth",
            Shape::Spike => "spike",
            Shape::Staircase => "staircase",
            Shape::LargerBlocks => "larger_blocks",
            Shape::Churn => "churn",
        }
    }
}

/// A staircase in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stairs {
    /// Bytes by which the lowest value rose from the first quarter to the end.
    pub rise_bytes: u64,
    /// Slots in which it rose.
    pub steps: u64,
    /// Slots looked at.
    pub of_slots: u64,
}

/// Slots that must be there before anything is said.
const LEAST_SLOTS: usize = 8;
/// What has not risen in so many of the latest slots does not rise any more.
const LATELY: usize = 3;
/// A row that rises less than this in all does not count as rising.
const LEAST_RISE: u64 = 1 << 20;

/// Lowest and highest bytes of each slot.
type Slots = [(u64, u64)];

/// The shape of a row up to now; `tick` is the clock of its layer.
#[must_use]
pub fn of_row(row: &Row, tick: u64) -> Option<Shape> {
    let slots = row.series.as_ref()?.until(tick, row.live.bytes);
    of(&slots, row.allocs, row.cumulative_bytes, row.sizes)
}

/// A row that rises, as it was at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rising {
    /// The row.
    pub row: RowId,
    /// How.
    pub stairs: Stairs,
    /// Its blocks become larger and larger.
    pub larger_blocks: bool,
    /// Its blocks.
    #[serde(default)]
    pub blocks: u64,
    /// Blocks that ever came from it.
    #[serde(default)]
    pub allocs: u64,
    /// How often other rows came and went meanwhile, of the one that did so most often.
    #[serde(default)]
    pub rounds: u64,
    /// How often the blocks of other rows were all replaced, in the whole run.
    #[serde(default)]
    pub turnover: u64,
    /// It began in the second half of the run.
    #[serde(default)]
    pub late: bool,
    /// How many allocations there had been when its bytes fell last.
    #[serde(default)]
    pub fell: u64,
}

/// Rows of one stack: threads and phases tell nothing of what stays.
struct Together {
    /// The one with most bytes ever.
    row: RowId,
    cumulative_of_row: u64,
    slots: Vec<(u64, u64)>,
    allocs: u64,
    cumulative: u64,
    sizes: Sizes,
    live: Amount,
    fell: u64,
}

impl Together {
    fn of(id: RowId, row: &Row, slots: Vec<(u64, u64)>) -> Together {
        Together {
            row: id,
            cumulative_of_row: row.cumulative_bytes,
            slots,
            allocs: row.allocs,
            cumulative: row.cumulative_bytes,
            sizes: row.sizes,
            live: row.live,
            fell: row.series.as_ref().map_or(0, |series| series.fell()),
        }
    }

    fn join(&mut self, other: Together) {
        if other.cumulative_of_row > self.cumulative_of_row {
            (self.row, self.cumulative_of_row) = (other.row, other.cumulative_of_row);
        }
        for (sum, slot) in self.slots.iter_mut().zip(&other.slots) {
            *sum = (sum.0 + slot.0, sum.1 + slot.1);
        }
        self.allocs += other.allocs;
        self.cumulative = self.cumulative.saturating_add(other.cumulative);
        self.sizes.larger += other.sizes.larger;
        self.sizes.smaller += other.sizes.smaller;
        self.live += other.live;
        self.fell = self.fell.max(other.fell);
    }

    /// True if what lives are few blocks of far more than the usual size: the bytes rise since the blocks do, not their number.
    fn grows_by_size(&self) -> bool {
        let (bytes, blocks) = (u128::from(self.live.bytes), u128::from(self.live.blocks));
        bytes * u128::from(self.allocs) * 10 > u128::from(self.cumulative) * blocks * 14
    }

    /// How often its blocks came and went, by the slots after the first quarter.
    fn rounds(&self) -> u64 {
        rounds_of(self.slots.get(self.slots.len() / 4..).unwrap_or_default())
    }

    /// How many of its blocks have ended for each that can have lived at a time: where the next one comes before the last one
    /// goes, the bytes never fall.
    fn turnover(&self) -> u64 {
        let highest = self.slots.iter().map(|slot| slot.1).max().unwrap_or(0);
        let mean = (self.cumulative / self.allocs.max(1)).max(1);
        let at_a_time = highest.div_ceil(mean).max(1);
        let ended = self.allocs.saturating_sub(self.live.blocks);
        ended / at_a_time
    }
}

/// The rows that rise, the steepest first, those of one stack together; `tick` is the clock of their layer. Where memory ran out
/// what began to rise in the second half of the run counts as well.
pub fn rising<'a>(
    rows: impl Iterator<Item = (RowId, &'a Row)>,
    tick: u64,
    ran_out: bool,
) -> Vec<Rising> {
    const MOST: usize = 8;
    let mut stacks: BTreeMap<StackId, Together> = BTreeMap::new();
    for (id, row) in rows {
        let Some(series) = &row.series else { continue };
        let one = Together::of(id, row, series.until(tick, row.live.bytes));
        match stacks.entry(row.key.stack) {
            Entry::Vacant(place) => {
                place.insert(one);
            }
            Entry::Occupied(known) => known.into_mut().join(one),
        }
    }
    let most = |of: fn(&Together) -> u64| stacks.values().map(of).max().unwrap_or(0);
    let (rounds, turnover) = (most(Together::rounds), most(Together::turnover));
    let mut found: Vec<Rising> = stacks
        .values()
        .filter_map(|one| {
            let shape = of(&one.slots, one.allocs, one.cumulative, one.sizes);
            let rises = matches!(shape, Some(Shape::Staircase | Shape::LargerBlocks));
            let whole = stairs(&one.slots).filter(|_| rises);
            let late = || stairs_lately(&one.slots).filter(|_| ran_out);
            Some(Rising {
                row: one.row,
                stairs: whole.or_else(late)?,
                late: whole.is_none(),
                larger_blocks: shape == Some(Shape::LargerBlocks) || one.grows_by_size(),
                blocks: one.live.blocks,
                allocs: one.allocs,
                rounds,
                turnover,
                fell: one.fell,
            })
        })
        .collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.stairs.rise_bytes), one.row));
    found.truncate(MOST);
    found
}

/// How often a row came and went: it had at least half of its highest bytes, then at most an eighth, in a slot or over several.
fn rounds_of(slots: &Slots) -> u64 {
    let highest = slots.iter().map(|slot| slot.1).max().unwrap_or(0);
    let mut has_come = false;
    let mut rounds = 0;
    for (low, high) in slots {
        has_come |= *high > 0 && high.saturating_mul(2) >= highest;
        if has_come && low.saturating_mul(8) <= highest {
            rounds += 1;
            has_come = false;
        }
    }
    rounds
}

/// A row that held far more than ever before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jumped {
    /// The row.
    pub row: RowId,
    /// The most bytes that it had held before.
    pub before: u64,
    /// What it holds.
    pub now: u64,
}

/// The rows that hold at least twice of what they ever held before the latest slots, those that hold most first; `tick` is the
/// clock of their layer.
pub fn jumped<'a>(rows: impl Iterator<Item = (RowId, &'a Row)>, tick: u64) -> Vec<Jumped> {
    const MOST: usize = 8;
    // What led to this instant may have begun in the slot before it.
    const LATEST: usize = 2;
    const LEAST: u64 = 64 << 20;
    let mut found: Vec<Jumped> = rows
        .filter_map(|(row, of)| {
            let slots = of.series.as_ref()?.until(tick, of.live.bytes);
            let earlier = slots.len().checked_sub(LATEST)?;
            (earlier >= LEAST_SLOTS).then_some(())?;
            let before = slots[..earlier].iter().map(|slot| slot.1).max()?;
            let now = of.live.bytes;
            let is_far = before > 0 && now >= before.saturating_mul(2) && now - before >= LEAST;
            is_far.then_some(Jumped { row, before, now })
        })
        .collect();
    found.sort_by_key(|one| (std::cmp::Reverse(one.now), one.row));
    found.truncate(MOST);
    found
}

/// The shape of such slots.
#[must_use]
pub fn of(slots: &Slots, allocs: u64, cumulative: u64, sizes: Sizes) -> Option<Shape> {
    if slots.len() < LEAST_SLOTS {
        return None;
    }
    let highest = slots.iter().map(|slot| slot.1).max().unwrap_or(0);
    if highest == 0 {
        return None;
    }
    if let Some(stairs) = stairs(slots)
        && stairs.rise_bytes.saturating_mul(10) >= highest
    {
        let larger = sizes.larger >= 8 && sizes.larger >= 4 * sizes.smaller.max(1);
        return Some(if larger {
            Shape::LargerBlocks
        } else {
            Shape::Staircase
        });
    }
    let warm = slots.len() / 4;
    let late = &slots[warm..];
    let (low, high) = (
        late.iter().map(|slot| slot.0).min().unwrap_or(0),
        late.iter().map(|slot| slot.1).max().unwrap_or(0),
    );
    if high > 0 && (high - low).saturating_mul(10) <= high {
        // Nothing of it came later.
        let early = slots[..warm.max(1)].last().map_or(0, |slot| slot.0);
        return Some(if early == high && low == high {
            Shape::OneTime
        } else {
            Shape::Plateau
        });
    }
    if is_spike(slots, highest) {
        return Some(Shape::Spike);
    }
    let falls = late
        .iter()
        .filter(|(low, high)| *low * 2 <= *high && *high * 5 >= highest * 4);
    if falls.count() * 2 >= late.len() {
        let is_churn = allocs >= 10_000 && cumulative / highest >= 1000;
        return Some(if is_churn {
            Shape::Churn
        } else {
            Shape::SawTooth
        });
    }
    None
}

/// True if it is high in one or two neighbouring slots, and less than half as high elsewhere.
fn is_spike(slots: &Slots, highest: u64) -> bool {
    let tall = |slot: &&(u64, u64)| slot.1.saturating_mul(3) >= highest.saturating_mul(2);
    let count = slots.iter().filter(tall).count();
    let rest = slots.iter().filter(|slot| !tall(slot));
    let next = rest.map(|slot| slot.1).max().unwrap_or(0);
    count <= 2 && next.saturating_mul(2) <= highest
}

/// How the lowest bytes rise after the first quarter, if they rise again and again.
#[must_use]
pub fn stairs(slots: &Slots) -> Option<Stairs> {
    stairs_from(slots, slots.len() / 4)
}

/// The same after the first half, where that is most of what it has.
fn stairs_lately(slots: &Slots) -> Option<Stairs> {
    let stairs = stairs_from(slots, slots.len() / 2)?;
    let highest = slots.iter().map(|slot| slot.1).max()?;
    (stairs.rise_bytes.saturating_mul(2) >= highest).then_some(stairs)
}

fn stairs_from(slots: &Slots, first: usize) -> Option<Stairs> {
    if slots.len() < LEAST_SLOTS {
        return None;
    }
    // The last slot has just begun: what is in it says little.
    let lows: Vec<u64> = slots[first..slots.len() - 1]
        .iter()
        .map(|slot| slot.0)
        .collect();
    let rise = lows.last()?.checked_sub(*lows.first()?)?;
    if rise < LEAST_RISE {
        return None;
    }
    let pairs = || lows.windows(2);
    let ups = pairs().filter(|pair| pair[1] > pair[0]).count();
    let downs = pairs().filter(|pair| pair[1] < pair[0]).count();
    // It rises in the beginning, in the middle and at the end: loading a model is no staircase, and warming up is none.
    let third = lows.len() / 3;
    let parts = [0..third + 1, third..2 * third + 1, 2 * third..lows.len()];
    let rises = parts
        .into_iter()
        .map(|part| lows[part.end - 1].saturating_sub(lows[part.start]));
    let rises: Vec<u64> = rises.collect();
    let (steepest, last) = (rises.iter().max()?, rises.last()?);
    // What slows down may have come to its bound, and what stands still has.
    let stands_still = lows[lows.len() - 1] <= lows[(lows.len() - 1).saturating_sub(LATELY)];
    if rises.iter().any(|part| part.saturating_mul(10) < rise)
        || last.saturating_mul(10) < steepest.saturating_mul(6)
        || stands_still
    {
        return None;
    }
    // No single step makes it all, and it hardly ever falls.
    let largest = pairs()
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .max()
        .unwrap_or(0);
    let is_steady = ups >= 3 && downs * 4 <= ups && largest.saturating_mul(2) <= rise;
    is_steady.then_some(Stairs {
        rise_bytes: rise,
        steps: ups as u64,
        of_slots: pairs().count() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn shape(values: impl IntoIterator<Item = (u64, u64)>) -> Option<Shape> {
        let slots: Vec<(u64, u64)> = values
            .into_iter()
            .map(|(low, high)| (low * MIB, high * MIB))
            .collect();
        of(&slots, 100, 1000 * MIB, Sizes::default())
    }

    #[test]
    fn shapes_that_people_know() {
        assert_eq!(shape([(100, 100); 32]), Some(Shape::OneTime));
        assert_eq!(shape((0..32).map(|_| (98, 100))), Some(Shape::Plateau));
        assert_eq!(shape((0..32).map(|_| (0, 100))), Some(Shape::SawTooth));
        assert_eq!(
            shape((0..32).map(|at| (10, if at == 20 { 100 } else { 20 }))),
            Some(Shape::Spike)
        );
        assert_eq!(
            shape((0..32).map(|at| (at * 4, at * 4 + 50))),
            Some(Shape::Staircase)
        );
        assert_eq!(shape((0..4).map(|at| (at, at))), None);
    }

    #[test]
    fn a_program_that_warms_up_is_no_staircase() {
        // Rises for a quarter of its life, then stays.
        assert_eq!(
            shape((0..32).map(|at| (at.min(8) * 10, at.min(8) * 10 + 2))),
            Some(Shape::Plateau)
        );
        // One late step is no staircase.
        let late = |at: u64| if at < 20 { 50 } else { 90 };
        assert_ne!(
            shape((0..32).map(|at| (late(at), late(at)))),
            Some(Shape::Staircase)
        );
        // Noise around a level.
        assert_ne!(
            shape((0..32).map(|at| (50 + at * 7 % 5, 100))),
            Some(Shape::Staircase)
        );
    }

    #[test]
    fn blocks_that_grow_and_churn() {
        let slots: Vec<(u64, u64)> = (0..32)
            .map(|at| (at * 4 * MIB, at * 4 * MIB + MIB))
            .collect();
        let sizes = Sizes {
            latest: 0,
            larger: 30,
            smaller: 1,
        };
        assert_eq!(of(&slots, 31, 5 << 30, sizes), Some(Shape::LargerBlocks));
        let slots = [(0, 100 * MIB); 32];
        assert_eq!(
            of(&slots, 1_000_000, 1 << 50, Sizes::default()),
            Some(Shape::Churn)
        );
    }
}
