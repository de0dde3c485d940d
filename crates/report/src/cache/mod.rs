//! What is inside a framework's cache: handed out, held, idle, and where.

pub mod keys;

use crate::failures;
use crate::phases;
use crate::resolve::Resolver;
use crate::roles::{Role, Roles};
use crate::schema::{Place, Site};
use crate::sites;
use keys::{
    CacheThen, JumpedSite, PinnedSite, RisingSite, RoleSum, SegmentSize, Segments, TensorPeak,
    Tensors,
};
use oomhook_ledger::holes::{CacheMap, Pinned};
use oomhook_ledger::oom::Group;
use oomhook_ledger::shapes::{Jumped, Rising};
use oomhook_ledger::{Amount, Ledger, Row, RowId};
use std::rc::Rc;

/// As what the cache that is told block by block appears in `via`.
pub const VIA: &str = "libc10_cuda";

/// What the call of such a block is named.
pub const CALL: &str = "PyTorch's cache";

/// The cache of a device, if it has one.
pub fn of_device(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    device: Option<u8>,
) -> Option<Tensors> {
    let device = device?;
    let tensors = ledger.tensors();
    let cache = tensors.cache(device)?;
    let rows = || {
        let of_device = |row: &&Row| row.key.device == Some(device);
        tensors.rows().map(|(_, row)| row).filter(of_device)
    };
    Some(Tensors {
        allocated_bytes: cache.allocated,
        allocated_peak_bytes: cache.allocated_peak.bytes,
        reserved_bytes: cache.reserved,
        reserved_peak_bytes: cache.reserved_peak.bytes,
        allocs: cache.allocs,
        frees: cache.frees,
        idle_bytes: cache.idle(),
        cumulative_bytes: cache.cumulative_bytes,
        failures: cache.failures,
        unknown_frees: cache.unknown_frees,
        peak: TensorPeak {
            bytes: cache.allocated_peak.bytes,
            time_ns: cache.allocated_peak.time_ns,
            event: cache.allocated_peak.event,
            phase: phases::name(ledger, cache.allocated_peak.phase),
            round: cache.allocated_peak.round,
            sites: collect(
                ledger,
                resolver,
                roles,
                rows().map(|row| (row, tensors.at_peak(row))),
            ),
            roles: by_role(roles, rows().map(|row| (row, tensors.at_peak(row)))),
        },
        live_sites: collect(ledger, resolver, roles, rows().map(|row| (row, row.live))),
        segments: ledger.cache_map(device).map(|map| segments(&map)),
    })
}

fn collect<'a>(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    rows: impl Iterator<Item = (&'a Row, Amount)>,
) -> Vec<Site> {
    let tick = ledger.tensors().allocs();
    let mut sites = sites::collect(ledger, resolver, tick, rows);
    for site in &mut sites {
        site.call = Rc::from(CALL);
        site.role = roles.get(site.stack_id);
    }
    sites
}

/// Bytes and blocks of each role that has some.
fn by_role<'a>(roles: &Roles, rows: impl Iterator<Item = (&'a Row, Amount)>) -> Vec<RoleSum> {
    let mut sums = Role::ALL.map(|role| RoleSum {
        role,
        bytes: 0,
        blocks: 0,
    });
    for (row, amount) in rows {
        let role = roles.get(row.key.stack).unwrap_or(Role::Other);
        if let Some(sum) = sums.iter_mut().find(|sum| sum.role == role) {
            sum.bytes += amount.bytes;
            sum.blocks += amount.blocks;
        }
    }
    sums.into_iter().filter(|sum| sum.blocks > 0).collect()
}

fn segments(map: &CacheMap) -> Segments {
    let sizes = map.sizes.iter();
    Segments {
        count: map.segments,
        bytes: map.bytes,
        idle_bytes: map.idle_bytes,
        idle_in: map.idle_in,
        empty: map.empty_segments,
        empty_bytes: map.empty_bytes,
        holes: map.holes,
        largest_hole_bytes: map.largest_hole,
        sizes: sizes
            .map(|(bytes, count)| SegmentSize {
                bytes: *bytes,
                count: *count,
            })
            .collect(),
        outside_bytes: map.outside_bytes,
        expandable: map.expandable,
    }
}

/// Rows that rise, by site.
pub(crate) fn rising<'a>(
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    rows: &[Rising],
    row_of: impl Fn(RowId) -> Option<&'a Row>,
) -> Vec<RisingSite> {
    let mut found: Vec<RisingSite> = Vec::new();
    for rising in rows {
        let Some(row) = row_of(rising.row) else {
            continue;
        };
        let stack = resolver.stack(row.key.stack);
        let of = failures::place(&stack);
        match found.iter_mut().find(|known| known.of.is_same(&of)) {
            Some(known) => {
                known.rise_bytes += rising.stairs.rise_bytes;
                known.blocks += rising.blocks;
                known.allocs += rising.allocs;
            }
            None => found.push(RisingSite {
                rise_bytes: rising.stairs.rise_bytes,
                late: rising.late,
                steps: rising.stairs.steps,
                of_slots: rising.stairs.of_slots,
                larger_blocks: rising.larger_blocks,
                blocks: rising.blocks,
                allocs: rising.allocs,
                rounds: rising.rounds,
                turnover: rising.turnover,
                via: stack.via,
                role: roles.get(row.key.stack),
                of,
            }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.rise_bytes));
    found
}

fn place_of(ledger: &Ledger, resolver: &mut Resolver<'_>, row: RowId) -> Option<Place> {
    let stack = ledger.tensors().row(row)?.key.stack;
    Some(failures::place(&resolver.stack(stack)))
}

fn jumped(ledger: &Ledger, resolver: &mut Resolver<'_>, rows: &[Jumped]) -> Vec<JumpedSite> {
    let mut found: Vec<JumpedSite> = Vec::new();
    for one in rows {
        let Some(of) = place_of(ledger, resolver, one.row) else {
            continue;
        };
        match found.iter_mut().find(|known| known.of.is_same(&of)) {
            Some(known) => {
                known.before_bytes += one.before;
                known.bytes += one.now;
            }
            None => found.push(JumpedSite {
                before_bytes: one.before,
                bytes: one.now,
                of,
            }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    found
}

fn pinned(ledger: &Ledger, resolver: &mut Resolver<'_>, rows: &[Pinned]) -> Vec<PinnedSite> {
    let mut found: Vec<PinnedSite> = Vec::new();
    for one in rows {
        let Some(of) = place_of(ledger, resolver, one.row) else {
            continue;
        };
        match found.iter_mut().find(|known| known.of.is_same(&of)) {
            Some(known) => {
                known.segments += one.segments;
                known.idle_bytes += one.idle_bytes;
                known.used_bytes += one.used_bytes;
            }
            None => found.push(PinnedSite {
                segments: one.segments,
                idle_bytes: one.idle_bytes,
                used_bytes: one.used_bytes,
                of,
            }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.idle_bytes));
    found
}

/// The cache when memory ran out.
pub fn at_failure(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    group: &Group,
) -> Option<CacheThen> {
    let state = group.cache.as_ref()?;
    let rows = state.rows.iter();
    let lived = rows.filter_map(|(id, amount)| Some((ledger.tensors().row(*id)?, *amount)));
    let sites = collect(ledger, resolver, roles, lived);
    let stack = |row| Some(ledger.tensors().row(row)?.key.stack);
    let changed = failures::changes(resolver, &state.changes, stack);
    Some(CacheThen {
        asked_bytes: state.asked,
        allocs: state.event,
        frees: state.frees,
        allocated_bytes: state.allocated,
        reserved_bytes: state.reserved,
        idle_bytes: state.reserved.saturating_sub(state.allocated),
        segments: segments(&state.map),
        sites,
        changed,
        rising: rising(resolver, roles, &state.rising, |row| {
            ledger.tensors().row(row)
        }),
        jumped: jumped(ledger, resolver, &state.jumped),
        pinned: pinned(ledger, resolver, &state.map.pinned),
        by_own_limit: group.by_cache,
    })
}
