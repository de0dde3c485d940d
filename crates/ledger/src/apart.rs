//! Calls that took device memory while others did, so that nobody could measure what each took. What they took together is
//! what the next look at the device finds unexplained of this process; their shares of it are estimates.

use crate::costs::{CostKey, CostRow};
use crate::hash::Map;
use oomhook_trace::record::CostKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Places kept; later ones join the last of their kind.
const MOST_PLACES: usize = 256;

/// How many objects were made that take memory for a purpose, measured or not.
pub(crate) type Made = BTreeMap<CostKind, u64>;

/// Calls of one place, and their share as of the latest look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    key: CostKey,
    /// When the first one returned.
    time_ns: u64,
    calls: u64,
    /// Bytes by which the use grew while they ran, which others may have had a part in.
    seen: u64,
    booked: i64,
}

/// A share to be booked, or taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub key: CostKey,
    pub time_ns: u64,
    pub bytes: i64,
    pub calls: i64,
}

/// The calls of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Joint {
    places: Vec<Place>,
    /// What was unexplained before the first of them.
    before: i64,
    /// The next look may change their shares.
    is_open: bool,
    /// A look has told what they took.
    is_told: bool,
}

impl Joint {
    /// One more call; `before` is what was unexplained at the latest look.
    pub fn call(&mut self, key: CostKey, time_ns: u64, seen: u64, before: i64) {
        if !self.is_open {
            // What was shared out is settled.
            *self = Joint {
                before,
                is_open: true,
                ..Joint::default()
            };
        }
        let is_full = self.places.len() >= MOST_PLACES;
        let same = |place: &&mut Place| place.key == key || is_full && place.key.kind == key.kind;
        match self.places.iter_mut().rev().find(same) {
            Some(place) => {
                place.calls += 1;
                place.seen = place.seen.saturating_add(seen);
            }
            None => self.places.push(Place {
                key,
                time_ns,
                calls: 1,
                seen,
                booked: 0,
            }),
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn reopen(&mut self) {
        self.is_open = !self.places.is_empty();
    }

    /// Calls of which nothing is known so far.
    pub fn untold(&self) -> u64 {
        match self.is_told {
            true => 0,
            false => self.places.iter().map(|place| place.calls).sum(),
        }
    }

    /// The shares of the look before, which no longer hold.
    pub fn take_back(&mut self) -> Vec<Share> {
        let booked = self.places.iter_mut().filter(|place| place.booked != 0);
        booked
            .map(|place| Share {
                key: place.key,
                time_ns: place.time_ns,
                bytes: std::mem::take(&mut place.booked),
                calls: place.calls as i64,
            })
            .collect()
    }

    /// The shares of so many unexplained bytes. They are final if nothing was under way at the look.
    pub fn shares(
        &mut self,
        rest: i64,
        is_quiet: bool,
        rows: &Map<CostKey, CostRow>,
        made: &Made,
    ) -> Vec<Share> {
        self.is_told = true;
        self.is_open = !is_quiet;
        let bytes = rest.saturating_sub(self.before);
        self.divide(bytes, rows, made);
        let shared = self.places.iter().filter(|place| place.booked != 0);
        shared
            .map(|place| Share {
                key: place.key,
                time_ns: place.time_ns,
                bytes: place.booked,
                calls: place.calls as i64,
            })
            .collect()
    }

    /// By what calls of the kind took that could be measured, and where there are none, or they differ from call to call, by
    /// what was seen while these ran. Contexts come first, since hardly anything can run beside them in what they make. What is
    /// left is for the kinds of which nothing is known; if there are none, all get more or less by the same factor.
    fn divide(&mut self, bytes: i64, rows: &Map<CostKey, CostRow>, made: &Made) {
        let mut kinds: BTreeMap<CostKind, (u64, u64)> = BTreeMap::new();
        for place in &self.places {
            let kind = kinds.entry(place.key.kind).or_default();
            kind.0 += place.calls;
            kind.1 = kind.1.saturating_add(place.seen);
        }
        let all = i128::from(bytes);
        let mut shares: BTreeMap<CostKind, i128> = kinds
            .iter()
            .map(|(kind, (calls, seen))| (*kind, price(*kind, *calls, *seen, rows, made)))
            .collect();
        let contexts = shares
            .remove(&CostKind::Context)
            .map(|share| share.min(all.max(0)));
        let bytes = all - contexts.unwrap_or(0);
        let known: i128 = shares.values().sum();
        let unknown = |kind: &CostKind| shares.get(kind) == Some(&0);
        let number: u64 = kinds
            .iter()
            .filter(|(kind, _)| unknown(kind))
            .map(|(_, kind)| kind.0)
            .sum();
        if number > 0 && bytes > known {
            for (kind, share) in &mut shares {
                if *share == 0 {
                    let calls = kinds.get(kind).map_or(0, |kind| kind.0);
                    *share = (bytes - known) * i128::from(calls) / i128::from(number);
                }
            }
        } else if known > 0 {
            for share in shares.values_mut() {
                *share = *share * bytes / known;
            }
        }
        if let Some(contexts) = contexts {
            let left = if shares.is_empty() { bytes } else { 0 };
            shares.insert(CostKind::Context, contexts + left);
        }
        let calls = kinds.into_iter().map(|(kind, (calls, _))| (kind, calls));
        self.book(all, &shares, &calls.collect());
    }

    /// Each place gets its part of its kind's share, the last one what division has left over.
    fn book(
        &mut self,
        bytes: i128,
        shares: &BTreeMap<CostKind, i128>,
        calls: &BTreeMap<CostKind, u64>,
    ) {
        let mut left = bytes;
        for place in &mut self.places {
            let kind = place.key.kind;
            let share = shares.get(&kind).copied().unwrap_or(0);
            let all = calls.get(&kind).copied().unwrap_or(0).max(1);
            let part = share * i128::from(place.calls) / i128::from(all);
            place.booked = i64::try_from(part).unwrap_or(0);
            left -= i128::from(place.booked);
        }
        let more = i64::try_from(left).unwrap_or(0);
        if let Some(largest) = self.places.iter_mut().max_by_key(|place| place.booked) {
            largest.booked = largest.booked.saturating_add(more);
        }
    }
}

/// What so many calls of a kind take, as far as that can be known; 0 if it cannot.
fn price(kind: CostKind, calls: u64, seen: u64, rows: &Map<CostKey, CostRow>, made: &Made) -> i128 {
    let of_kind = rows.iter().filter(|(key, _)| key.kind == kind);
    let (sum, measured) = of_kind.fold((0i128, 0u64), |(sum, number), (_, row)| {
        (sum + i128::from(row.bytes), number + row.calls)
    });
    let differs = matches!(kind, CostKind::Context | CostKind::Launch | CostKind::Limit);
    if measured == 0 || differs {
        return i128::from(seen);
    }
    // Calls that took nothing are not told of, but what they made was counted.
    let all = made.get(&kind).map_or(0, |made| made.saturating_sub(calls));
    sum.max(0) * i128::from(calls) / i128::from(measured.max(all).max(1))
}
