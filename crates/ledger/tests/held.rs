//! Pools, graph nodes and shared memory in the books: undone frees, reused handles and addresses, checkpoints.

mod common;

use common::{MIB, Story};
use oomhook_ledger::Ledger;
use oomhook_ledger::pools::{PoolKind, PoolUse};
use oomhook_trace::record::{DeedKind, Object};
use oomhook_trace::{Record, Space, What};

const TAKE: u32 = 1;
const FREE: u32 = 9;
const POOL: u64 = 0x700;

fn take(story: &mut Story, address: u64, bytes: u64, pool: u64, stream: u64) {
    let what = What::Alloc {
        space: Space::Async,
        address,
        bytes,
        requested: bytes,
        context: 0,
        stream,
        pool,
    };
    story.happens(TAKE, what);
}

fn give(story: &mut Story, address: u64, stream: u64) {
    let space = Space::Async;
    story.happens(
        FREE,
        What::Free {
            space,
            address,
            stream,
        },
    );
}

fn made(story: &mut Story, pool: u64) {
    let object = Object::Pool;
    story.happens(
        2,
        What::Created {
            object,
            handle: pool,
            bytes: 0,
        },
    );
}

fn destroyed(story: &mut Story, pool: u64) {
    let object = Object::Pool;
    story.happens(
        3,
        What::Destroyed {
            object,
            handle: pool,
        },
    );
}

fn pool(ledger: &Ledger, number: usize) -> PoolUse {
    *ledger.pools().nth(number).expect("a pool")
}

/// The same ledger after a checkpoint.
fn restored(ledger: &Ledger) -> Ledger {
    let (state, records) = ledger.checkpoint().expect("a state");
    let records: Vec<Record> = records.collect();
    Ledger::restore(&state, &records).expect("a ledger")
}

#[test]
fn blocks_belong_to_the_pool_that_was_current() {
    let mut story = Story::new();
    made(&mut story, POOL);
    take(&mut story, 0x1000, MIB, 0, 5);
    story.does(DeedKind::DefaultPool, 0x800, 0, 0);
    take(&mut story, 0x2000, 2 * MIB, 0x800, 5);
    take(&mut story, 0x3000, 4 * MIB, POOL, 5);
    story.does(DeedKind::CurrentPool, POOL, 0, 0);
    take(&mut story, 0x4000, 8 * MIB, 0, 5);
    story.does(DeedKind::CurrentPool, 0x800, 0, 0);
    take(&mut story, 0x5000, 16 * MIB, 0, 5);
    for ledger in [&restored(&story.ledger), &story.ledger] {
        let (own, default) = (pool(ledger, 0), pool(ledger, 1));
        assert_eq!((own.kind, own.live.bytes), (PoolKind::Own, 12 * MIB));
        assert_eq!(
            (default.kind, default.pool, default.live.bytes),
            (PoolKind::Default, 0x800, 19 * MIB)
        );
        assert_eq!(ledger.pools().count(), 2);
    }
    // The books go on the same after a checkpoint.
    story.ledger = restored(&story.ledger);
    for address in [0x1000, 0x2000, 0x3000, 0x4000, 0x5000] {
        give(&mut story, address, 5);
    }
    for number in [0, 1] {
        assert_eq!(pool(&story.ledger, number).live.blocks, 0);
    }
    assert_eq!(pool(&story.ledger, 0).live_peak, 12 * MIB);
}

#[test]
fn a_free_that_failed_gives_the_block_back_to_its_pool() {
    let mut story = Story::new();
    made(&mut story, POOL);
    take(&mut story, 0x1000, MIB, POOL, 5);
    give(&mut story, 0x1000, 6);
    assert_eq!(pool(&story.ledger, 0).live.blocks, 0);
    assert_eq!(pool(&story.ledger, 0).freed_elsewhere, 1);
    story.undo(0x1000, 1);
    assert_eq!(pool(&story.ledger, 0).live.bytes, MIB);
    assert_eq!(pool(&story.ledger, 0).freed_elsewhere, 0);
    assert_eq!(story.ledger.pool_books().other_streams(), []);
}

#[test]
fn a_handle_that_comes_back_is_another_pool() {
    let mut story = Story::new();
    made(&mut story, POOL);
    take(&mut story, 0x1000, MIB, POOL, 0);
    destroyed(&mut story, POOL);
    made(&mut story, POOL);
    take(&mut story, 0x2000, 2 * MIB, POOL, 0);
    for ledger in [&story.ledger, &restored(&story.ledger)] {
        let (old, new) = (pool(ledger, 0), pool(ledger, 1));
        assert_eq!((old.left.blocks, old.live.bytes), (1, MIB));
        assert!(old.left_from.is_some());
        assert_eq!((new.destroyed, new.live.bytes), (None, 2 * MIB));
    }
    give(&mut story, 0x1000, 0);
    // The same address, from the new pool.
    take(&mut story, 0x1000, 4 * MIB, POOL, 0);
    assert_eq!(pool(&story.ledger, 0).live.blocks, 0);
    assert_eq!(pool(&story.ledger, 1).live.bytes, 6 * MIB);
}

#[test]
fn a_destroyed_pool_keeps_no_reserve_once_it_is_empty() {
    let mut story = Story::new();
    made(&mut story, POOL);
    take(&mut story, 0x1000, MIB, POOL, 0);
    story.happens(
        0,
        What::PoolState {
            pool: POOL,
            used: MIB,
            used_high: MIB,
            reserved: 32 * MIB,
            reserved_high: 32 * MIB,
            threshold: 0,
        },
    );
    destroyed(&mut story, POOL);
    assert_eq!(pool(&story.ledger, 0).reserved, 32 * MIB);
    give(&mut story, 0x1000, 0);
    assert_eq!(pool(&story.ledger, 0).reserved, 0);
    assert_eq!(pool(&story.ledger, 0).reserved_high, 32 * MIB);
    assert_eq!(story.ledger.pool_books().idle(Some(0)), 0);
}

#[test]
fn a_threads_default_stream_is_another_one_in_each_thread() {
    let mut story = Story::new();
    story.thread = 1;
    take(&mut story, 0x1000, MIB, 0, 2);
    take(&mut story, 0x2000, MIB, 0, 2);
    give(&mut story, 0x1000, 2);
    assert_eq!(pool(&story.ledger, 0).freed_elsewhere, 0);
    story.thread = 2;
    give(&mut story, 0x2000, 2);
    assert_eq!(pool(&story.ledger, 0).freed_elsewhere, 1);
}

#[test]
fn pools_made_without_end_take_no_memory_without_end() {
    let mut story = Story::new();
    for handle in 1..5000 {
        made(&mut story, handle);
        take(&mut story, 0x1000, MIB, handle, 0);
        give(&mut story, 0x1000, 0);
        destroyed(&mut story, handle);
    }
    assert!(story.ledger.pools().count() <= 1024);
    made(&mut story, 6000);
    take(&mut story, 0x1000, MIB, 6000, 0);
    let live: Vec<u64> = story
        .ledger
        .pools()
        .filter(|pool| pool.live.blocks > 0)
        .map(|pool| pool.pool)
        .collect();
    assert_eq!(live, [6000]);
}

#[test]
fn an_offered_block_is_freed_once_its_free_is_not_taken_back() {
    let mut story = Story::new();
    story.malloc(TAKE, 0x10_0000, MIB);
    story.does(DeedKind::Export, 0x10_0200, 0, 77);
    story.does(DeedKind::Export, 0x10_0000, 0, 77);
    let export = |ledger: &Ledger| ledger.shares().exports()[0];
    assert_eq!(story.ledger.shares().exports().len(), 1);
    assert_eq!(
        (export(&story.ledger).address, export(&story.ledger).times),
        (0x10_0000, 2)
    );
    story.failing_free(FREE, 0x10_0000);
    assert_eq!(export(&story.ledger).freed, None);
    story.ledger = restored(&story.ledger);
    story.free(FREE, 0x10_0000);
    assert_eq!(export(&story.ledger).freed.map(|by| by.stack), Some(FREE));
    // Another block at the same address is another export.
    story.malloc(TAKE, 0x10_0000, 2 * MIB);
    story.does(DeedKind::Export, 0x10_0000, 0, 78);
    assert_eq!(story.ledger.shares().exports().len(), 2);
    assert_eq!(story.ledger.shares().exports()[1].freed, None);
}

#[test]
fn opens_and_closes_are_balanced_and_a_context_takes_the_rest() {
    let mut story = Story::new();
    for _ in 0..2 {
        story.alloc(TAKE, Space::Imported, 0x5000, MIB);
        story.does(DeedKind::Open, 0x5000, MIB, 77);
    }
    let import = |ledger: &Ledger| ledger.shares().imports()[0];
    story.free_in(FREE, Space::Imported, 0x5000);
    assert_eq!(
        (import(&story.ledger).opens, import(&story.ledger).closes),
        (2, 1)
    );
    story.ledger = restored(&story.ledger);
    story.free_in(FREE, Space::Imported, 0x5000);
    assert!(import(&story.ledger).closed_ns.is_some());
    story.undo(0x5000, 1);
    assert_eq!(import(&story.ledger).closed_ns, None);
    story.happens(FREE, What::ContextDestroy { context: 0xc0 });
    assert!(import(&story.ledger).closed_ns.is_some());
    assert_eq!(import(&story.ledger).closes, 1);
    assert_eq!(story.ledger.shares().closed, 1);
}

#[test]
fn nodes_are_summed_by_place_and_launches_counted() {
    let mut story = Story::new();
    for (stack, address) in [(7, 0x1000), (8, 0x2000), (7, 0x3000)] {
        story.happens(
            stack,
            What::GraphAlloc {
                address,
                bytes: MIB,
                captured: true,
            },
        );
    }
    story.does(DeedKind::Launches, 0, 100, 0);
    story.does(DeedKind::Launches, 0, 3, 0);
    let graphs = restored(&story.ledger).graphs().clone();
    let sites: Vec<_> = graphs
        .sites
        .iter()
        .map(|site| (site.stack, site.nodes, site.bytes))
        .collect();
    assert_eq!(sites, [(7, 2, 2 * MIB), (8, 1, MIB)]);
    assert_eq!(graphs.launches, 103);
}
