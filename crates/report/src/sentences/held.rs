//! Sentences on pools, graphs, physical memory and memory that processes share.

use super::{blocks, gpu, plural, times};
use crate::held::{Pool, VmmSite};
use crate::schema::{ProcessEnd, Report};
use crate::sharing::Shared;
use crate::units::bytes;

/// What is wrong, or wants to be known.
pub(super) fn held(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> = destroyed_in_use(report).collect();
    if matches!(
        report.process.end,
        ProcessEnd::Exit | ProcessEnd::ImmediateExit
    ) {
        notes.extend(half_released(report));
        notes.extend(not_closed(report));
    }
    notes.extend(other_streams(report));
    notes.extend(failed_captures(report));
    notes.extend(pending(report));
    notes.extend(idle_pools(report));
    notes.extend(idle_graph_memory(report));
    notes
}

/// The GPU of all, or several.
fn place(mut devices: impl Iterator<Item = Option<u32>>) -> String {
    let first = devices.next().flatten();
    match devices.all(|device| device == first) {
        true => gpu(first),
        false => "several GPUs".to_owned(),
    }
}

/// Pools that were destroyed too early; they live on.
fn destroyed_in_use(report: &Report) -> impl Iterator<Item = String> + '_ {
    let ends = report.pools.iter().filter_map(|pool| {
        let end = pool.destroyed.as_ref()?;
        (end.left_blocks > 0).then_some((pool, end))
    });
    ends.take(2).map(|(pool, end)| {
        let made = pool.made.as_ref();
        let made = made.map_or_else(String::new, |by| format!(" made by {}", by.spot.label));
        let from = end.left_from.as_ref();
        let from = from.map_or_else(String::new, |spot| format!(", most from {}", spot.label));
        let rest = match pool.live_blocks {
            0 => "it went with the last of them".to_owned(),
            number => format!("it lives on with {}", blocks(number)),
        };
        format!(
            "a memory pool{made} was destroyed by {} while {} of {} lived in it{from}: {rest}",
            end.by.spot.label,
            blocks(end.left_blocks),
            bytes(end.left_bytes)
        )
    })
}

/// Physical memory that lost one of the two things that keep it, and not the other.
fn half_released(report: &Report) -> Vec<String> {
    let kinds = [
        (
            &report.vmm.only_mapped,
            "released but still mapped: cuMemUnmap is missing",
        ),
        (
            &report.vmm.only_referenced,
            "not mapped and never released: cuMemRelease is missing",
        ),
    ];
    let told = kinds.into_iter().filter_map(|(sites, why)| {
        let first = sites.first()?;
        let sum = |of: fn(&VmmSite) -> u64| -> u64 { sites.iter().map(of).sum() };
        let most = if sites.len() > 1 { "most " } else { "" };
        let handles = sum(|site| site.handles);
        let verb = if handles == 1 { "is" } else { "are" };
        Some(format!(
            "{} of {} ({most}from {}) {verb} {why}",
            plural(handles, "physical handle"),
            bytes(sum(|site| site.bytes)),
            first.spot.label
        ))
    });
    told.collect()
}

/// Memory of other processes that is still open.
fn not_closed(report: &Report) -> Option<String> {
    let open = report.ipc.imports.iter().filter(|import| import.is_open());
    let open: Vec<_> = open.collect();
    let first = open.first()?;
    let opens = open.iter().map(|import| import.opens).sum();
    let closes: u64 = open.iter().map(|import| import.closes).sum();
    let closed = match closes {
        0 => "never closed".to_owned(),
        number => format!("closed {}", times(number)),
    };
    Some(format!(
        "{} of other processes still open: opened {}, {closed} (first by {})",
        match open.len() {
            1 => "a block".to_owned(),
            number => blocks(number as u64),
        },
        times(opens),
        first.by.spot.label
    ))
}

fn other_streams(report: &Report) -> Option<String> {
    let first = report.other_stream_frees.sites.first()?;
    Some(format!(
        "{} on another stream than the allocation (blocks from {} by {}): right only if something else orders the two",
        plural(report.other_stream_frees.frees, "stream-ordered free"),
        first.from.label,
        first.freed_by.spot.label
    ))
}

fn failed_captures(report: &Report) -> Option<String> {
    let failed = report.graphs.failed_captures;
    (failed > 0).then(|| {
        format!(
            "{} of a stream failed: no graph came of it",
            plural(failed, "capture")
        )
    })
}

/// Bytes that only wait for a synchronisation.
fn pending(report: &Report) -> Option<String> {
    let waiting = report.pools.iter();
    let waiting = waiting.filter(|pool| pool.pending_bytes > 0 && pool.destroyed.is_none());
    let all: u64 = waiting.clone().map(|pool| pool.pending_bytes).sum();
    (all > 0).then(|| {
        format!(
            "about {} of memory pools on {} are freed but not yet given back: the driver waits for a synchronisation",
            bytes(all),
            place(waiting.map(|pool| pool.device))
        )
    })
}

/// Pools that keep memory for later, the devices of several in one sentence.
fn idle_pools(report: &Report) -> Option<String> {
    // What is known of a destroyed pool is from before: it cannot be asked any more.
    let kept = |pool: &Pool| match pool.destroyed {
        None => pool.idle_bytes.saturating_sub(pool.pending_bytes),
        Some(_) => 0,
    };
    let idle: Vec<&Pool> = report.pools.iter().filter(|pool| kept(pool) > 0).collect();
    let all: u64 = idle.iter().map(|pool| kept(pool)).sum();
    idle.first()?;
    let place = place(idle.iter().map(|pool| pool.device));
    let (pools, keep) = match idle.len() {
        1 => ("a memory pool".to_owned(), "keeps"),
        number => (plural(number as u64, "memory pool"), "keep"),
    };
    let allowed = idle.iter().any(|pool| pool.release_threshold_bytes > 0);
    let why = match allowed {
        true => "the release threshold allows it",
        false => "they grow in steps",
    };
    Some(format!(
        "{pools} on {place} {keep} {} idle: retained, not leaked ({why})",
        bytes(all)
    ))
}

/// Memory of graphs that are gone.
fn idle_graph_memory(report: &Report) -> Option<String> {
    let graphs = &report.graphs;
    let idle = graphs.reserved_bytes.saturating_sub(graphs.used_bytes);
    (idle > 0 && graphs.execs_live == 0).then(|| {
        format!(
            "{} are kept for graphs though no executable graph is left: retained, not leaked (cuDeviceGraphMemTrim gives them back)",
            bytes(idle)
        )
    })
}

/// Memory that was freed while another process had it open.
#[must_use]
pub fn freed_while_open(shared: &[Shared]) -> Option<String> {
    let freed = shared.iter().filter(|one| one.freed_while_open);
    let freed: Vec<&Shared> = freed.collect();
    let first = freed.first()?;
    let by = first.freed_by.as_ref();
    let by = by.map_or_else(String::new, |spot| format!(" by {}", spot.label));
    let more = match freed.len() {
        1 => String::new(),
        number => format!(", and so were {}", plural(number as u64 - 1, "more block")),
    };
    let sure = match first.estimated {
        true => " (by the clocks of both, which may be wrong here)",
        false => "",
    };
    Some(format!(
        "{} of process {} were freed{by} while process {} had them open (from {}){more}{sure}",
        bytes(first.bytes),
        first.owner_pid,
        first.user_pid,
        first.opened_by.label
    ))
}
