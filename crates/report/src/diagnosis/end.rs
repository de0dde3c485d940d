//! What a process that went well would have died of, had it gone on: told at its end, and only where it is plain to see.

use super::advice::Situation;
use super::cause::Cause;
use super::judgement::{self, Diagnosis, Judgement, LIKELY};
use super::stays;
use crate::cache;
use crate::cache::keys::RisingSite;
use crate::resolve::Resolver;
use crate::roles::{Role, Roles};
use oomhook_ledger::shapes;
use oomhook_ledger::{Ledger, Row};

/// What rises less than that in all is nobody's concern.
const LEAST_RISE: u64 = 64 << 20;

/// What was found on all devices.
#[must_use]
pub fn find(
    ledger: &Ledger,
    resolver: &mut Resolver<'_>,
    roles: &Roles,
    situation: &Situation,
) -> Vec<Diagnosis> {
    let devices = ledger.devices().iter();
    let numbers: Vec<u8> = devices.filter_map(|(number, _)| number).collect();
    let found = numbers.into_iter().filter_map(|device| {
        // Without a cache, what was not freed at the end is a leak, and what was is nobody's concern.
        let cache = ledger.tensors().cache(device)?;
        let one = cached(ledger, resolver, roles, device, cache.allocated_peak.bytes)?;
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
    let mut rising = shapes::rising(rows, tensors.allocs(), false);
    // What the program let go of and went on after is nobody's concern; what ended with the process lived until then.
    rising.retain(|one| one.blocks > 0 || one.fell >= tensors.allocs());
    for one in &mut rising {
        let stack = tensors.row(one.row).map(|row| row.key.stack);
        let rows = tensors.rows().map(|(_, row)| row);
        let of_stack = rows.filter(|row| Some(row.key.stack) == stack && is_on(row, device));
        let at_peak = of_stack.map(|row| tensors.at_peak(row).blocks).sum();
        one.blocks = one.blocks.max(at_peak);
    }
    let weights = tensors
        .rows()
        .filter(|(_, row)| is_on(row, device) && roles.get(row.key.stack) == Some(Role::Weights))
        .map(|(_, row)| tensors.at_peak(row).blocks)
        .sum();
    let sites = cache::rising(resolver, roles, &rising, |row| tensors.row(row));
    retention(&sites, weights, peak)
}

fn is_on(row: &Row, device: u8) -> bool {
    row.key.device == Some(device) && row.key.space.is_device()
}

/// Blocks stay, more and more of them.
fn retention(sites: &[RisingSite], weights: u64, peak: u64) -> Option<Judgement> {
    let kept = stays::kept(sites, weights, false);
    let (rise, place, evidence) = stays::told(&kept, peak)?;
    if rise < LEAST_RISE || rise.saturating_mul(5) < peak {
        return None;
    }
    Some(Judgement {
        cause: Cause::Retention,
        weight: LIKELY,
        place: Some(place),
        evidence,
    })
}
