//! What is left at the end, and of which kind.

use crate::resolve::Resolver;
use crate::schema::{Leak, LeakClass, Site};
use crate::sites;
use crate::suppress::Suppressions;
use oomhook_ledger::Ledger;
use oomhook_trace::Space;
use oomhook_trace::record::Object;
use std::collections::HashMap;

/// Fewer blocks than this do not make a trend.
const TREND: u64 = 8;
/// Sites with more blocks than this are not looked through for ever larger ones.
const MOST_SORTED: u64 = 65_536;

/// The leaks, and what the suppressions left out.
#[derive(Debug, Default)]
pub struct Leaks {
    /// Largest first.
    pub leaks: Vec<Leak>,
    /// Bytes left out.
    pub suppressed_bytes: u64,
    /// Blocks left out.
    pub suppressed_blocks: u64,
}

/// The blocks of one site.
#[derive(Default)]
struct Trend {
    blocks: u64,
    first: u64,
    last: u64,
    rows: Vec<u32>,
}

/// Finds and classifies what is left.
pub fn find(ledger: &Ledger, resolver: &mut Resolver<'_>, suppressions: &Suppressions) -> Leaks {
    let left = ledger
        .rows()
        .filter(|(_, row)| row.key.space.is_allocation())
        .map(|(_, row)| (row, row.live));
    let sites = sites::collect(ledger, resolver, ledger.totals().allocs, left);
    let classes = classify(ledger, resolver);
    let mut found = Leaks::default();
    for site in sites {
        if suppressions.cover(&site.stack) {
            found.suppressed_bytes += site.bytes;
            found.suppressed_blocks += site.blocks;
            continue;
        }
        let class = match kept_for_graphs(ledger, &site) {
            true => Some(LeakClass::Retained),
            false => classes.get(&key(&site)).copied(),
        };
        found.leaks.push(Leak {
            class: class.unwrap_or(LeakClass::OneTime),
            site,
        });
    }
    found
}

/// Graphs have their memory from a pool that keeps it for their next launch. What is in use though no executable graph is
/// left was lost by a node that nobody freed.
fn kept_for_graphs(ledger: &Ledger, site: &Site) -> bool {
    let device = site.device.and_then(|device| u8::try_from(device).ok());
    let memory = device.and_then(|device| ledger.graphs().memory(device));
    let is_idle = memory.is_some_and(|memory| memory.used == 0);
    let has_owner = ledger.objects().count(Object::GraphExec).live > 0;
    site.space == Space::Graph.name() && (is_idle || has_owner)
}

type Key = (
    String,
    Option<String>,
    String,
    &'static str,
    Option<u32>,
    bool,
    bool,
);

fn key(site: &Site) -> Key {
    (
        site.label.to_string(),
        site.origin().map(str::to_owned),
        site.library.to_string(),
        site.space,
        site.device,
        site.via.is_some(),
        site.at_exit,
    )
}

/// The class of each site that has something left. Several stacks may lead to one site.
fn classify(ledger: &Ledger, resolver: &mut Resolver<'_>) -> HashMap<Key, LeakClass> {
    let mut by_row: HashMap<u32, (u64, u64, u64)> = HashMap::new();
    for block in ledger.live_blocks().filter(|block| block.number > 0) {
        let (blocks, first, last) = by_row.entry(block.row).or_insert((0, u64::MAX, 0));
        *blocks += 1;
        *first = (*first).min(block.number);
        *last = (*last).max(block.number);
    }
    let mut trends: HashMap<Key, Trend> = HashMap::new();
    let mut classes: HashMap<Key, LeakClass> = HashMap::new();
    for (id, (blocks, first, last)) in by_row {
        let Some(row) = ledger.row(id) else { continue };
        let stack = resolver.stack(row.key.stack);
        let key = (
            stack.label.to_string(),
            stack.origin().map(str::to_owned),
            stack.library.to_string(),
            row.key.space.name(),
            row.key.device.map(u32::from),
            stack.via.is_some(),
            stack.at_exit,
        );
        if stack.via.is_some() {
            classes.insert(key.clone(), LeakClass::Cached);
        } else if stack.at_exit {
            classes.insert(key.clone(), LeakClass::DuringExit);
        }
        let trend = trends.entry(key).or_insert_with(|| Trend {
            first: u64::MAX,
            ..Trend::default()
        });
        trend.blocks += blocks;
        trend.first = trend.first.min(first);
        trend.last = trend.last.max(last);
        trend.rows.push(id);
    }
    let events = ledger.totals().allocs;
    for (key, trend) in trends {
        if !classes.contains_key(&key) && grows(ledger, &trend, events) {
            classes.insert(key, LeakClass::Growing);
        }
    }
    classes
}

/// The first block is of the first third of the process and the last of the last, or the blocks get ever larger.
fn grows(ledger: &Ledger, trend: &Trend, events: u64) -> bool {
    if trend.blocks < TREND {
        return false;
    }
    if trend.first * 3 <= events && trend.last * 3 > events * 2 {
        return true;
    }
    if trend.blocks > MOST_SORTED {
        return false;
    }
    let of_site = |row: &u32| trend.rows.contains(row);
    let mut blocks: Vec<(u64, u64)> = ledger
        .live_blocks()
        .filter(|block| of_site(&block.row))
        .map(|block| (block.number, block.bytes))
        .collect();
    blocks.sort_unstable();
    blocks.windows(2).all(|pair| pair[0].1 < pair[1].1)
}
