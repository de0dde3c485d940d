//! What a process that went well would have died of, had it gone on: told at its end, and only where it is plain to see.

use super::advice::Situation;
use super::cause::Cause;
use super::judgement::{self, Diagnosis, Judgement, LIKELY};
use crate::cache;
use crate::cache::keys::RisingSite;
use crate::resolve::Resolver;
use crate::roles::{Role, Roles};
use crate::schema::{Leak, LeakClass};
use crate::sentences as say;
use oomhook_ledger::shapes::{self, Rising};
use oomhook_ledger::{Ledger, Row, RowId};

/// What rises less than that in all is nobody's concern.
const LEAST_RISE: u64 = 64 << 20;

/// What was found on all devices.
#[must_use]
pub fn find(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    leaks: &[Leak],
    situation: &Situation,
) -> Vec<Diagnosis> {
    let devices = ledger.devices().iter();
    let numbers: Vec<u8> = devices.filter_map(|(number, _)| number).collect();
    let found = numbers.into_iter().filter_map(|device| {
        let one = match ledger.tensors().cache(device) {
            Some(cache) => cached(ledger, resolver, roles, device, cache.allocated_peak.bytes),
            None => uncached(ledger, resolver, roles, leaks, device),
        }?;
        Some(judgement::diagnose(vec![one], situation)?.on(device))
    });
    found.collect()
}

fn cached(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    device: u8,
    peak: u64,
) -> Option<Judgement> {
    let tensors = ledger.tensors();
    let rows = tensors.rows().filter(|(_, row)| is_on(row, device));
    let rising = shapes::rising(rows, tensors.allocs());
    let sites = cache::rising(resolver, roles, &rising, |row| tensors.row(row));
    retention(&sites, peak)
}

fn uncached(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    leaks: &[Leak],
    device: u8,
) -> Option<Judgement> {
    // A growing leak is the headline already.
    if leaks.iter().any(|leak| leak.class == LeakClass::Growing) {
        return None;
    }
    let rows = ledger.rows().filter(|(_, row)| is_on(row, device));
    let rising: Vec<Rising> = shapes::rising(rows, ledger.totals().allocs);
    let sites = cache::rising(resolver, roles, &rising, |row: RowId| ledger.row(row));
    let peak = ledger
        .device(Some(device))
        .map_or(0, |usage| usage.peak.bytes);
    retention(&sites, peak)
}

fn is_on(row: &Row, device: u8) -> bool {
    row.key.device == Some(device) && row.key.space.is_device()
}

/// Blocks stay, more and more of them.
fn retention(sites: &[RisingSite], peak: u64) -> Option<Judgement> {
    let is_kept = |role| {
        matches!(
            role,
            Role::Weights | Role::Gradients | Role::OptimizerState | Role::Workspace
        )
    };
    let rising: Vec<&RisingSite> = sites
        .iter()
        .filter(|site| !site.role.is_some_and(is_kept))
        .collect();
    let rise: u64 = rising.iter().map(|site| site.rise_bytes).sum();
    let first = rising.first()?;
    if rise < LEAST_RISE || rise.saturating_mul(5) < peak {
        return None;
    }
    let place = first.of.line().to_string();
    let mut evidence = vec![say::rose(
        first.rise_bytes,
        first.steps,
        first.of_slots,
        first.larger_blocks,
        &place,
    )];
    if rise > first.rise_bytes {
        evidence.push(say::rose_in_all(rise, peak));
    }
    Some(Judgement {
        cause: Cause::Retention,
        weight: LIKELY,
        place: Some(place),
        evidence,
    })
}
