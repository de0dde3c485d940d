//! What a pool had reserved at its device's peak. The driver is asked for a pool's figures only now and then, so what it
//! said before and after the peak is kept, and weighed against what lived then by our own books.

use crate::pools::PoolUse;
use serde::{Deserialize, Serialize};

/// Figures that are this near to an instant tell of it.
pub const NEAR_NS: u64 = 20_000_000;

/// A pool grows by this, as measured.
pub const STEP: u64 = 32 << 20;

/// What the driver said of a pool at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// When.
    pub time_ns: u64,
    /// Bytes reserved.
    pub reserved: u64,
    /// Most bytes reserved so far.
    pub high: u64,
}

/// A pool at its device's latest peak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AtPeak {
    /// Number of the peak; another one has come since if it is not the device's.
    number: u64,
    /// Bytes of the pool that lived then.
    live: u64,
    /// Most bytes of it that had lived up to then.
    live_high: u64,
    /// The latest figures from before.
    before: Option<Figures>,
    /// The first figures from after.
    after: Option<Figures>,
}

impl AtPeak {
    /// Call before anything changes, with the number of the device's latest peak.
    fn settle(&mut self, number: u64, pool: &PoolUse) {
        if self.number != number {
            *self = AtPeak {
                number,
                live: pool.live.bytes,
                live_high: pool.live_peak,
                before: pool.latest,
                after: None,
            };
        }
    }

    /// New figures, once settled.
    pub(crate) fn learn(&mut self, figures: Figures) {
        self.after.get_or_insert(figures);
    }

    /// The same at the peak of this number: nothing has changed since if it is a later one.
    pub(crate) fn of(number: u64, pool: &PoolUse) -> AtPeak {
        let mut settled = pool.at_peak;
        settled.settle(number, pool);
        settled
    }

    /// Bytes reserved and not in use at the peak, which was at this time, and whether that is an estimate; `None` if the
    /// driver was never asked.
    pub(crate) fn idle(self, time_ns: u64) -> Option<(u64, bool)> {
        if self.live_high == 0 {
            // What it has now came later.
            return Some((0, false));
        }
        let distance = |figures: &Figures| figures.time_ns.abs_diff(time_ns);
        // What lived was part of the reserve, so figures that are less are of another time.
        let fits = |figures: &Figures| figures.reserved >= self.live;
        let (before, after) = (self.before, self.after);
        let fitting: Vec<Figures> = [after, before].into_iter().flatten().filter(fits).collect();
        if let Some(nearest) = fitting.iter().min_by_key(|figures| distance(figures)) {
            let agree = fitting.len() == 2 && fitting[0].reserved == fitting[1].reserved;
            let known = agree || distance(nearest) <= NEAR_NS;
            return Some((nearest.reserved - self.live, !known));
        }
        let after = after.or(before)?;
        let high_is_new = before.is_none_or(|before| before.high < after.high);
        let reserved = if high_is_new {
            after.high
        } else {
            let in_steps = self.live.checked_next_multiple_of(STEP);
            in_steps.unwrap_or(self.live).min(after.high)
        };
        Some((reserved.saturating_sub(self.live), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000_000;

    fn figures(time_ns: u64, reserved: u64, high: u64) -> Figures {
        Figures {
            time_ns,
            reserved: reserved * MIB,
            high: high * MIB,
        }
    }

    fn idle(live: u64, before: Option<Figures>, after: Option<Figures>) -> Option<(u64, bool)> {
        let at = AtPeak {
            number: 1,
            live: live * MIB,
            live_high: live * MIB,
            before,
            after,
        };
        let idle = at.idle(10 * SECOND);
        idle.map(|(bytes, estimated)| (bytes / MIB, estimated))
    }

    #[test]
    fn the_reserve_of_another_time_is_never_counted_beside_what_lived() {
        let early = figures(SECOND, 1408, 1408);
        assert_eq!(idle(1408, Some(early), None), Some((0, true)));
        assert_eq!(idle(1400, Some(early), None), Some((8, true)));
        // Asked at the peak itself.
        let near = figures(10 * SECOND + 1_000_000, 1408, 1408);
        assert_eq!(idle(1400, None, Some(near)), Some((8, false)));
        // Asked before and after, with the same answer.
        let late = figures(60 * SECOND, 1408, 1408);
        assert_eq!(idle(1400, Some(early), Some(late)), Some((8, false)));
        // Nothing was ever asked.
        assert_eq!(idle(1400, None, None), None);
    }

    #[test]
    fn what_was_given_back_since_is_told_by_the_high_mark() {
        let late = figures(60 * SECOND, 0, 32);
        assert_eq!(idle(30, None, Some(late)), Some((2, true)));
        // A mark from before the peak says only that it was no more than that.
        let early = figures(SECOND, 0, 512);
        let late = figures(60 * SECOND, 0, 512);
        assert_eq!(idle(30, Some(early), Some(late)), Some((2, true)));
        // The books may know more than the driver says.
        assert_eq!(idle(30, None, Some(figures(0, 0, 0))), Some((0, true)));
    }

    #[test]
    fn a_later_peak_begins_anew() {
        let first = figures(SECOND, 64, 64);
        let mut pool = PoolUse::default();
        pool.live.bytes = 40 * MIB;
        pool.live_peak = 40 * MIB;
        let mut at = AtPeak::of(1, &pool);
        at.learn(first);
        (pool.at_peak, pool.latest) = (at, Some(first));
        pool.live.bytes = 60 * MIB;
        assert_eq!(AtPeak::of(1, &pool), at);
        assert_eq!(AtPeak::of(1, &pool).idle(SECOND), Some((24 * MIB, false)));
        assert_eq!(AtPeak::of(2, &pool).idle(SECOND), Some((4 * MIB, false)));
    }

    #[test]
    fn a_pool_of_which_nothing_had_come_had_no_reserve() {
        let late = figures(60 * SECOND, 32, 32);
        assert_eq!(idle(0, None, Some(late)), Some((0, false)));
    }
}
