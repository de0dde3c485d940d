//! Failures for lack of memory: one row for each request of one site, or for a series of halved ones, with what lived then,
//! what had changed lately, and where the device's bytes were.

use crate::account;
use crate::resolve::{Resolver, Stack};
use crate::roles::Roles;
use crate::schema::{Change, LastFree, Oom, PhaseGrowth, Place};
use crate::sites;
use crate::{cache, log, phases};
use oomhook_ledger::growth::Growth;
use oomhook_ledger::oom::{Class, Group};
use oomhook_ledger::{Ledger, RowId};
use oomhook_trace::{Space, StackId};
use std::rc::Rc;

/// All failures.
pub fn all(ledger: &Ledger, resolver: &mut Resolver<'_>, ended_badly: bool) -> Vec<Oom> {
    let failures = ledger.oom();
    let mut rows: Vec<(Option<u32>, Oom)> = Vec::new();
    for (number, group) in failures.groups().iter().enumerate() {
        let class = failures.class(number, ended_badly);
        let one = oom(ledger, resolver, group, class);
        // One that was got at last is no search any more.
        let series = failures.series(number).filter(|_| class == Class::Probe);
        let known = rows.iter_mut().find(|(other, known)| match series {
            Some(_) => *other == series,
            None => other.is_none() && is_same_failure(known, &one),
        });
        match known {
            Some((_, known)) => merge(known, one, series.is_some()),
            None => rows.push((series, one)),
        }
    }
    rows.into_iter().map(|(_, oom)| oom).collect()
}

/// One group of failures, while it is not known what comes of it.
#[must_use]
pub fn one(ledger: &Ledger, resolver: &mut Resolver<'_>, number: usize) -> Option<Oom> {
    let failures = ledger.oom();
    let group = failures.groups().get(number)?;
    let class = failures.class(number, false);
    Some(oom(ledger, resolver, group, class))
}

/// The latest failure tells how it went on.
fn merge(known: &mut Oom, one: Oom, is_series: bool) {
    let attempts = known.attempts + one.attempts;
    let first = known.requested_bytes;
    let least = one.requested_bytes;
    *known = Oom { attempts, ..one };
    if is_series {
        known.requested_bytes = first;
        known.requested_least_bytes = least;
    }
}

/// True for failures of one site that asked for the same: a caching allocator retries from other places of its own,
/// which are other stacks and no other failure.
fn is_same_failure(one: &Oom, other: &Oom) -> bool {
    (
        &one.call,
        one.requested_bytes,
        one.device,
        &one.site,
        &one.library,
    ) == (
        &other.call,
        other.requested_bytes,
        other.device,
        &other.site,
        &other.library,
    )
}

fn oom(ledger: &Ledger, resolver: &mut Resolver<'_>, group: &Group, class: Class) -> Oom {
    let roles = &Roles::of_failure(ledger, resolver, group);
    let rows = group.rows.iter();
    let lived = rows.filter_map(|(id, amount)| Some((ledger.row(*id)?, *amount)));
    let sites = sites::collect(ledger, resolver, ledger.totals().allocs, lived);
    // What a device has free says nothing about host memory.
    let on_device = !matches!(group.space, Some(Space::Pinned | Space::Registered));
    let stack = resolver.stack(group.stack);
    Oom {
        call: if group.by_cache {
            Rc::from(cache::CALL)
        } else {
            resolver.call(group.call)
        },
        requested_bytes: group.requested,
        space: group.space.map(Space::name),
        device: group.device.map(u32::from),
        time_ns: group.last_ns,
        freed_between_bytes: group.recovery.map(|recovery| recovery.freed_between),
        short_by_bytes: group.short_by().filter(|_| on_device),
        class,
        attempts: group.attempts,
        calls_before: (group.event, group.frees),
        free_bytes: group.free.filter(|_| on_device),
        total_bytes: group.total.filter(|_| on_device),
        site: Rc::clone(&stack.site),
        label: Rc::clone(&stack.label),
        library: Rc::clone(&stack.library),
        site_frame: stack.site_frame,
        python_site: stack.python_site.clone(),
        autograd_node: stack.autograd_node.clone(),
        stack: Rc::clone(&stack.frames),
        phase: phases::name_and_round(ledger, group.phase, group.round),
        phases: phases::within(ledger, group),
        growth: growth(ledger, resolver, group),
        log: log::before(ledger, group),
        jump: log::jump_before(ledger, group),
        rising: cache::rising(resolver, roles, &group.rising, |row| ledger.row(row)),
        role: roles.get(group.stack),
        sites,
        verdict: None,
        thread: resolver.thread(group.thread),
        requested_least_bytes: None,
        ledger: if on_device {
            account::at_failure(group)
        } else {
            Vec::new()
        },
        cache: cache::at_failure(ledger, resolver, roles, group),
        changed: changes(resolver, &group.changes, |row| of_row(ledger, row)),
        changed_since_ns: group.changes_since_ns,
        last_frees: last_frees(ledger, resolver, group),
        host: group.host,
        others_known: on_device && group.others_known,
        hidden_pools: on_device && group.hidden_pools,
        others: if on_device {
            group.others.clone()
        } else {
            Vec::new()
        },
    }
}

/// What phases left behind each time: of the one that leaves most.
fn growth(ledger: &Ledger, resolver: &mut Resolver<'_>, group: &Group) -> Vec<PhaseGrowth> {
    let all = group.growth.iter();
    let sum = |one: &&Growth| one.rows.iter().map(|(_, bytes)| *bytes).sum::<u64>();
    let most = all.max_by_key(sum);
    most.map_or(Vec::new(), |one| phases::left_behind(ledger, resolver, one))
}

pub(crate) fn place(stack: &Stack) -> Place {
    Place {
        site: Rc::clone(&stack.site),
        label: Rc::clone(&stack.label),
        library: Rc::clone(&stack.library),
        origin: stack
            .python_site
            .clone()
            .or_else(|| stack.autograd_node.clone()),
        stack: Rc::clone(&stack.frames),
        site_frame: stack.site_frame,
    }
}

fn of_row(ledger: &Ledger, row: u32) -> Option<StackId> {
    Some(ledger.row(row)?.key.stack)
}

/// Changes by site: several rows (threads, calls) may belong to one.
pub(crate) fn changes(
    resolver: &mut Resolver<'_>,
    of_rows: &[(RowId, i64)],
    stack_of: impl Fn(RowId) -> Option<StackId>,
) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (row, bytes) in of_rows {
        let Some(stack) = stack_of(*row) else {
            continue;
        };
        let of = place(&resolver.stack(stack));
        match changes.iter_mut().find(|known| known.of.is_same(&of)) {
            Some(known) => known.bytes = known.bytes.saturating_add(*bytes),
            None => changes.push(Change { bytes: *bytes, of }),
        }
    }
    changes.retain(|change| change.bytes != 0);
    changes.sort_by_key(|change| std::cmp::Reverse(change.bytes.unsigned_abs()));
    changes
}

fn last_frees(ledger: &Ledger, resolver: &mut Resolver<'_>, group: &Group) -> Vec<LastFree> {
    let frees = group.last_frees.iter();
    frees
        .filter_map(|free| {
            let stack = of_row(ledger, free.row)?;
            Some(LastFree {
                bytes: free.bytes,
                time_ns: free.by.time_ns,
                of: place(&resolver.stack(stack)),
                freed_by: Rc::clone(&resolver.stack(free.by.stack).label),
                thread: resolver.thread(free.by.thread),
            })
        })
        .collect()
}
