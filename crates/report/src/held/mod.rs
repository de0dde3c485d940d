//! What is kept apart from blocks: pools, graphs, physical memory, memory that processes share. The ledger to the JSON.

mod keys;

pub use keys::*;

use crate::objects;
use crate::resolve::Resolver;
use crate::schema::Report;
use oomhook_ledger::announcements::Origin;
use oomhook_ledger::pools::{PoolKind, PoolUse};
use oomhook_ledger::reserve::STEP;
use oomhook_ledger::{Ledger, RowId};
use oomhook_trace::record::Object;
use oomhook_trace::{Space, StackId};
use std::rc::Rc;

fn spot(resolver: &mut Resolver<'_>, stack: StackId) -> Spot {
    let stack = resolver.stack(stack);
    Spot {
        site: Rc::clone(&stack.site),
        label: Rc::clone(&stack.label),
        library: Rc::clone(&stack.library),
    }
}

fn spot_of_row(ledger: &Ledger, resolver: &mut Resolver<'_>, row: Option<RowId>) -> Option<Spot> {
    let stack = ledger.row(row?)?.key.stack;
    Some(spot(resolver, stack))
}

fn doer(resolver: &mut Resolver<'_>, by: Origin) -> Doer {
    Doer {
        spot: spot(resolver, by.stack),
        call: resolver.call(by.call),
        time_ns: by.time_ns,
    }
}

/// Bytes that the pool gives back at the next synchronisation: beyond what is in use and what it may keep.
fn pending(pool: &PoolUse) -> u64 {
    let in_use = pool.used.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
    pool.reserved.saturating_sub(in_use.max(pool.threshold))
}

impl Report {
    /// Memory on the device came from pools of which the driver has not said what they reserve.
    #[must_use]
    pub fn hides_pools(&self, device: Option<u32>) -> bool {
        let mut pools = self.pools.iter().filter(|pool| pool.device == device);
        pools.any(|pool| pool.live_peak_bytes > 0 && !pool.measured && pool.destroyed.is_none())
    }
}

/// Pools, in order of appearance.
pub fn pools(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Vec<Pool> {
    // Every device has a default pool; one that nobody used is not worth a line.
    let is_used = |pool: &&PoolUse| {
        let touched = pool.allocs + pool.trims > 0 || pool.threshold_set.is_some();
        pool.kind != PoolKind::Default || touched || pool.asked
    };
    let pools = ledger.pools().filter(is_used).map(|pool| Pool {
        device: pool.device.map(u32::from),
        kind: pool.kind,
        measured: pool.asked,
        used_bytes: pool.used,
        used_peak_bytes: pool.used_high,
        reserved_bytes: pool.reserved,
        reserved_peak_bytes: pool.reserved_high,
        release_threshold_bytes: pool.threshold,
        idle_bytes: pool.reserved.saturating_sub(pool.used),
        pending_bytes: pending(pool),
        live_bytes: pool.live.bytes,
        live_blocks: pool.live.blocks,
        live_peak_bytes: pool.live_peak,
        allocs: pool.allocs,
        trims: pool.trims,
        trimmed_bytes: pool.trimmed,
        trims_unmeasured: pool.trims_unmeasured,
        other_stream_frees: pool.freed_elsewhere,
        made: pool.made.map(|by| doer(resolver, by)),
        threshold_set: pool.threshold_set.map(|by| doer(resolver, by)),
        destroyed: pool.destroyed.map(|by| PoolEnd {
            by: doer(resolver, by),
            left_bytes: pool.left.bytes,
            left_blocks: pool.left.blocks,
            left_from: spot_of_row(ledger, resolver, pool.left_from),
        }),
    });
    pools.collect()
}

/// Frees on another stream, over all pools.
pub fn other_stream_frees(ledger: &Ledger, resolver: &mut Resolver<'_>) -> OtherStreamFrees {
    let pairs = ledger.pool_books().other_streams().iter();
    OtherStreamFrees {
        frees: ledger.pools().map(|pool| pool.freed_elsewhere).sum(),
        sites: pairs
            .filter_map(|pair| {
                Some(OtherStreamSite {
                    from: spot_of_row(ledger, resolver, Some(pair.row))?,
                    freed_by: doer(resolver, pair.by),
                    frees: pair.frees,
                })
            })
            .collect(),
    }
}

/// Graphs, over all devices.
pub fn graphs(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Graphs {
    let graphs = ledger.graphs();
    let mut sites: Vec<NodeSite> = Vec::new();
    for from in &graphs.sites {
        let one = NodeSite {
            spot: spot(resolver, from.stack),
            call: resolver.call(from.call),
            device: from.device.map(u32::from),
            nodes: from.nodes,
            bytes: from.bytes,
        };
        let same = |known: &&mut NodeSite| {
            (&known.spot, &known.call, known.device) == (&one.spot, &one.call, one.device)
        };
        match sites.iter_mut().find(same) {
            Some(known) => {
                known.nodes += one.nodes;
                known.bytes += one.bytes;
            }
            None => sites.push(one),
        }
    }
    sites.sort_by_key(|site| std::cmp::Reverse(site.bytes));
    Graphs {
        alloc_nodes: graphs.alloc_nodes,
        free_nodes: graphs.free_nodes,
        requested_bytes: graphs.requested_bytes,
        used_bytes: graphs.used(),
        used_peak_bytes: graphs.used_high(),
        reserved_bytes: graphs.reserved(),
        reserved_peak_bytes: graphs.reserved_high(),
        captures: graphs.captures,
        failed_captures: graphs.failed_captures,
        launches: graphs.launches,
        execs_live: ledger.objects().count(Object::GraphExec).live,
        execs: objects::sites(ledger, resolver, Object::GraphExec),
        sites,
    }
}

/// Physical memory that lives, and what keeps it.
pub fn vmm(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Vmm {
    let va = ledger.devices().everywhere().get(Space::ReservedVa);
    let mappings = ledger.physical().mappings();
    let mut vmm = Vmm {
        va_bytes: va.live.bytes,
        mapped_bytes: mappings.map(|(_, mapping)| mapping.bytes).sum(),
        ..Vmm::default()
    };
    for (block, hold) in ledger.physical_blocks() {
        vmm.handles += 1;
        vmm.references += u64::from(hold.references);
        vmm.mappings += u64::from(hold.mappings);
        if block.space == Space::Vmm {
            vmm.physical_bytes += block.bytes;
        }
        let list = match (hold.references, hold.mappings) {
            (0, _) => &mut vmm.only_mapped,
            // A multicast object has no memory, and is not mapped before others have joined.
            (_, 0) if block.bytes > 0 => &mut vmm.only_referenced,
            _ => continue,
        };
        let Some(row) = ledger.row(block.row) else {
            continue;
        };
        let one = VmmSite {
            spot: spot(resolver, row.key.stack),
            device: row.key.device.map(u32::from),
            handles: 1,
            bytes: block.bytes,
        };
        let same = |known: &&mut VmmSite| (&known.spot, known.device) == (&one.spot, one.device);
        match list.iter_mut().find(same) {
            Some(known) => {
                known.handles += 1;
                known.bytes += one.bytes;
            }
            None => list.push(one),
        }
    }
    for list in [&mut vmm.only_mapped, &mut vmm.only_referenced] {
        list.sort_by(|a, b| (b.bytes, &a.spot.label).cmp(&(a.bytes, &b.spot.label)));
    }
    vmm
}

/// What is shared with other processes.
pub fn ipc(ledger: &Ledger, resolver: &mut Resolver<'_>) -> Ipc {
    let shares = ledger.shares();
    let handle = |print: u64| (print != 0).then(|| format!("{print:016x}"));
    let exports = shares.exports().iter().map(|export| Exported {
        handle: handle(export.print),
        device: export.device.map(u32::from),
        bytes: export.bytes,
        times: export.times,
        by: doer(resolver, export.by),
        from: spot_of_row(ledger, resolver, export.row),
        freed: export.freed.map(|by| doer(resolver, by)),
    });
    let exports = exports.collect();
    let imports = shares.imports().iter().map(|import| Imported {
        handle: handle(import.print),
        device: import.device.map(u32::from),
        bytes: import.bytes,
        opens: import.opens,
        closes: import.closes,
        closed_ns: import.closed_ns,
        by: doer(resolver, import.by),
    });
    Ipc {
        exported: shares.exported,
        opened: shares.opened,
        closed: shares.closed,
        exports,
        imports: imports.collect(),
    }
}
