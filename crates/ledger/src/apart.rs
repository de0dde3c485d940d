//! Calls that took device memory while others did, so that nobody could measure what each took. What they took together is
//! what the next look at the device finds unexplained of this process; their shares of it are estimates.

use crate::costs::{CostKey, CostRow};
use crate::hash::Map;
use oomhook_trace::record::{CallId, CostKind};
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

/// Calls that are alike: for the same purpose, by the same function.
type Group = (CostKind, CallId);

impl Place {
    fn group(&self) -> Group {
        (self.key.kind, self.key.call)
    }
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

    /// By what such calls took that could be measured, and where there are none, or they differ from call to call, by what was
    /// seen while these ran. Contexts come before what is only seen, since hardly anything can run beside them in what they
    /// make. What is left is for those of which nothing is known; if there are none, all get more or less by the same factor.
    fn divide(&mut self, bytes: i64, rows: &Map<CostKey, CostRow>, made: &Made) {
        let mut groups: BTreeMap<Group, (u64, u64)> = BTreeMap::new();
        for place in &self.places {
            let group = groups.entry(place.group()).or_default();
            group.0 += place.calls;
            group.1 = group.1.saturating_add(place.seen);
        }
        let all = i128::from(bytes);
        let mut measured = 0;
        let mut shares: BTreeMap<Group, i128> = BTreeMap::new();
        for (group, (calls, seen)) in &groups {
            let price = price(*group, *calls, rows, made);
            measured += price.unwrap_or(0);
            shares.insert(*group, price.unwrap_or(i128::from(*seen)));
        }
        let is_context = |group: &Group| group.0 == CostKind::Context;
        let (mut contexts, mut others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            shares.into_iter().partition(|(group, _)| is_context(group));
        let sum: i128 = contexts.values().sum();
        let for_contexts = sum.min(all - measured).max(0);
        scale(&mut contexts, for_contexts);
        let left = all - contexts.values().sum::<i128>();
        let known: i128 = others.values().sum();
        let unknown = |share: &i128| *share == 0;
        let number: u64 = others
            .iter()
            .filter(|(_, share)| unknown(share))
            .filter_map(|(group, _)| groups.get(group))
            .map(|group| group.0)
            .sum();
        if others.is_empty() {
            scale(&mut contexts, all);
        } else if number > 0 && left > known {
            for (group, share) in others.iter_mut().filter(|(_, share)| unknown(share)) {
                let calls = groups.get(group).map_or(0, |group| group.0);
                *share = (left - known) * i128::from(calls) / i128::from(number);
            }
        } else {
            scale(&mut others, left);
        }
        contexts.extend(others);
        self.book(all, &contexts, &groups);
    }

    /// Each place gets its part of its group's share, the largest one what division has left over.
    fn book(
        &mut self,
        bytes: i128,
        shares: &BTreeMap<Group, i128>,
        groups: &BTreeMap<Group, (u64, u64)>,
    ) {
        let mut left = bytes;
        for place in &mut self.places {
            let share = shares.get(&place.group()).copied().unwrap_or(0);
            let all = groups.get(&place.group()).map_or(1, |group| group.0);
            let part = share * i128::from(place.calls) / i128::from(all.max(1));
            place.booked = i64::try_from(part).unwrap_or(0);
            left -= i128::from(place.booked);
        }
        let more = i64::try_from(left).unwrap_or(0);
        if let Some(largest) = self.places.iter_mut().max_by_key(|place| place.booked) {
            largest.booked = largest.booked.saturating_add(more);
        }
    }
}

/// Makes the sum of the shares this, each by the same factor.
fn scale(shares: &mut BTreeMap<Group, i128>, to: i128) {
    let sum: i128 = shares.values().sum();
    if sum > 0 {
        for share in shares.values_mut() {
            *share = *share * to / sum;
        }
    }
}

/// What so many calls of a group take by those that were measured; `None` if there are none, or it differs from call to call.
fn price(group: Group, calls: u64, rows: &Map<CostKey, CostRow>, made: &Made) -> Option<i128> {
    let (kind, call) = group;
    let (mut sum, mut measured, mut of_others) = (0i128, 0u64, 0u64);
    for (key, row) in rows.iter().filter(|(key, _)| key.kind == kind) {
        if key.call == call {
            sum += i128::from(row.bytes);
            measured += row.calls;
        } else {
            of_others += row.calls;
        }
    }
    let differs = matches!(kind, CostKind::Context | CostKind::Launch | CostKind::Limit);
    if measured == 0 || differs {
        return None;
    }
    // Calls that took nothing are not told of, but what they made was counted.
    let made = made.get(&kind).copied().unwrap_or(0);
    let all = made.saturating_sub(calls).saturating_sub(of_others);
    Some(sum.max(0) * i128::from(calls) / i128::from(measured.max(all).max(1)))
}
