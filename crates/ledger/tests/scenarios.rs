//! Histories with exact numbers.

mod common;

use common::{GIB, MIB, Story};
use oomhook_ledger::anomalies::Kind;
use oomhook_ledger::oom::Class;
use oomhook_trace::record::EndKind;
use oomhook_trace::{Record, Space, What};

const A: u32 = 1;
const B: u32 = 2;
const FREE: u32 = 9;

#[test]
fn a_leak_is_known_by_its_stack() {
    let mut story = Story::new();
    for i in 0..10 {
        story.malloc(A, 0x1000_0000 + i * MIB, MIB);
    }
    for i in 0..4 {
        story.malloc(B, 0x2000_0000 + i * 3 * MIB, 3 * MIB);
    }
    for i in 0..4 {
        story.free(FREE, 0x2000_0000 + i * 3 * MIB);
    }
    for i in 0..8 {
        story.free(FREE, 0x1000_0000 + i * MIB);
    }
    let totals = story.ledger.totals();
    assert_eq!((totals.allocs, totals.frees), (14, 12));
    assert_eq!(totals.cumulative_bytes, 23_068_672);
    assert_eq!(story.peak(), (23_068_672, 14));
    assert_eq!(story.composition(), [(A, 10 * MIB, 10), (B, 12 * MIB, 4)]);
    let live: Vec<_> = story
        .ledger
        .rows()
        .filter(|(_, row)| row.live.blocks > 0)
        .map(|(_, row)| (row.key.stack, row.live.bytes, row.live.blocks))
        .collect();
    assert_eq!(live, [(A, 2_097_152, 2)]);
}

#[test]
fn the_first_of_equal_peaks_wins() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, 100 * MIB);
    story.malloc(B, 0x2000, 200 * MIB);
    story.free(FREE, 0x2000);
    story.malloc(3, 0x2000, 200 * MIB);
    story.free(FREE, 0x1000);
    story.free(FREE, 0x2000);
    assert_eq!(story.peak(), (314_572_800, 2));
    assert_eq!(story.composition(), [(A, 100 * MIB, 1), (B, 200 * MIB, 1)]);
    assert_eq!(story.live_bytes(), 0);
}

#[test]
fn another_thread_may_free() {
    let mut story = Story::new();
    story.thread = 1;
    for i in 0..64 {
        story.malloc(A, 0x1000_0000 + i * MIB, MIB);
    }
    story.thread = 2;
    for i in 0..64 {
        story.free(FREE, 0x1000_0000 + i * MIB);
    }
    assert_eq!(story.live_bytes(), 0);
    assert_eq!(story.peak().0, 67_108_864);
    let threads: Vec<_> = story
        .ledger
        .threads()
        .into_iter()
        .map(|(id, usage)| (id, usage.allocs, usage.frees))
        .collect();
    assert_eq!(threads, [(1, 64, 0), (2, 0, 64)]);
}

#[test]
fn an_address_reused_at_once_is_a_new_block() {
    let mut story = Story::new();
    story.thread = 1;
    story.malloc(A, 0x1000, 4 * MIB);
    story.free(FREE, 0x1000);
    story.thread = 2;
    story.malloc(B, 0x1000, 8 * MIB);
    story.free(FREE, 0x1000);
    let totals = story.ledger.totals();
    assert_eq!((totals.allocs, totals.frees), (2, 2));
    assert_eq!(story.peak().0, 8_388_608);
    assert_eq!(story.live_bytes(), 0);
    assert!(story.ledger.anomalies().is_clean());
}

#[test]
fn a_block_whose_free_failed_lives_on() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, 4 * MIB);
    story.free(FREE, 0x1000);
    assert_eq!(story.live_bytes(), 0);
    story.undo(0x1000, 999);
    assert_eq!(story.live_bytes(), 4 * MIB);
    let totals = story.ledger.totals();
    assert_eq!((totals.frees, totals.failed_frees), (0, 1));
    let anomalies = story.ledger.anomalies();
    assert_eq!(anomalies.failed_free, 1);
    assert_eq!(anomalies.events[0].code, 999);
    assert_eq!(anomalies.events[0].by.stack, FREE);
    story.free(FREE, 0x1000);
    assert_eq!(story.live_bytes(), 0);
    assert_eq!(story.ledger.totals().frees, 1);
}

#[test]
fn bad_frees_are_told_apart() {
    let mut story = Story::new();
    for _ in 0..3 {
        story.happens(FREE, What::NullFree);
    }
    story.failing_free(11, 0xdead_0000);
    story.malloc(A, 0x1000_0000, MIB);
    story.free(12, 0x1000_0000);
    story.failing_free(13, 0x1000_0000);
    story.malloc(B, 0x1000_0000, MIB);
    story.failing_free(14, 0x1000_0000 + 256);
    story.free(15, 0x1000_0000);

    let totals = story.ledger.totals();
    assert_eq!(totals.null_frees, 3);
    assert_eq!((totals.allocs, totals.frees), (2, 2));
    assert_eq!(totals.failed_frees, 3);
    assert_eq!(totals.untracked_frees, 0);
    assert_eq!(story.live_bytes(), 0);
    assert_eq!(story.peak().0, 1_048_576);
    let anomalies = story.ledger.anomalies();
    assert_eq!(anomalies.unknown_free, 1);
    assert_eq!(anomalies.double_free, 1);
    assert_eq!(anomalies.interior_free, 1);
    assert_eq!(anomalies.failed_free, 0);

    let double = &anomalies.events[1];
    assert_eq!(double.kind, Kind::DoubleFree);
    assert_eq!(double.by.stack, 13);
    let ended = double.ended.expect("the first free is known");
    assert_eq!(ended.by.stack, 12);
    let row = story
        .ledger
        .row(ended.row)
        .expect("its allocation is known");
    assert_eq!(row.key.stack, A);

    let interior = &anomalies.events[2];
    assert_eq!(interior.kind, Kind::InteriorFree);
    let block = interior.block.expect("the block is named");
    assert_eq!((block.address, block.number), (0x1000_0000, 2));
}

#[test]
fn two_threads_that_free_one_block_make_one_double_free() {
    for second_succeeds in [false, true] {
        let mut story = Story::new();
        story.malloc(A, 0x1000, MIB);
        story.thread = 1;
        story.free(11, 0x1000);
        story.thread = 2;
        story.free(12, 0x1000);
        story.thread = if second_succeeds { 1 } else { 2 };
        story.undo(0x1000, 1);

        assert_eq!(story.live_bytes(), 0);
        let totals = story.ledger.totals();
        assert_eq!((totals.frees, totals.failed_frees), (1, 1));
        assert_eq!(totals.untracked_frees, 0);
        assert_eq!(story.space(Space::Device).frees, 1);
        let double = &story.ledger.anomalies().events[0];
        assert_eq!(double.kind, Kind::DoubleFree);
        let (failed, worked) = if second_succeeds { (11, 12) } else { (12, 11) };
        assert_eq!(double.by.stack, failed);
        assert_eq!(double.ended.map(|ended| ended.by.stack), Some(worked));
    }
}

#[test]
fn a_successful_free_of_an_unseen_block_is_no_anomaly() {
    let mut story = Story::new();
    story.free(FREE, 0x7000);
    let totals = story.ledger.totals();
    assert_eq!((totals.frees, totals.untracked_frees), (1, 1));
    assert!(story.ledger.anomalies().is_clean());
    assert_eq!(story.live_bytes(), 0);
}

#[test]
fn frees_across_families_are_noted_only_when_they_succeed() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, MIB);
    story.alloc(B, Space::Async, 0x2000, MIB);
    story.free_in(FREE, Space::Async, 0x1000);
    story.free_in(FREE, Space::Device, 0x2000);
    assert_eq!(story.ledger.anomalies().cross_api_free, 2);
    assert_eq!(story.live_bytes(), 0);
    story.undo(0x2000, 1);
    let anomalies = story.ledger.anomalies();
    assert_eq!((anomalies.cross_api_free, anomalies.failed_free), (1, 1));
    assert_eq!(story.live_bytes(), MIB);
}

#[test]
fn stream_ordered_blocks_have_their_own_space_and_peak() {
    let mut story = Story::new();
    for i in 0..3 {
        story.alloc(A, Space::Async, 0x1000_0000 + i * 10 * MIB, 10 * MIB);
    }
    for i in 0..3 {
        story.free_in(FREE, Space::Async, 0x1000_0000 + i * 10 * MIB);
    }
    let usage = story.space(Space::Async);
    assert_eq!(usage.peak_bytes, 31_457_280);
    assert_eq!(usage.live.bytes, 0);
    assert_eq!((usage.allocs, usage.frees), (3, 3));
    assert_eq!(story.peak().0, 31_457_280);
}

#[test]
fn physical_memory_lives_until_its_last_mapping_goes() {
    let mut story = Story::new();
    let (handle, va) = (0x77, 0x5000_0000);
    let map = |address| What::Map {
        address,
        bytes: 2 * MIB,
        handle,
        offset: 0,
    };
    let unmap = |address| What::Unmap {
        address,
        bytes: 2 * MIB,
    };
    story.alloc(A, Space::Vmm, handle, 2 * MIB);
    story.alloc(A, Space::ReservedVa, va, 4 * MIB);
    story.happens(A, map(va));
    story.happens(A, map(va + 2 * MIB));
    assert_eq!(story.space(Space::ReservedVa).live.bytes, 4_194_304);
    story.free_in(FREE, Space::Vmm, handle);
    assert_eq!(story.live_bytes(), 2_097_152);
    story.happens(FREE, unmap(va));
    assert_eq!(story.live_bytes(), 2_097_152);
    story.happens(FREE, unmap(va + 2 * MIB));
    assert_eq!(story.live_bytes(), 0);
    story.free_in(FREE, Space::ReservedVa, va);
    assert_eq!(story.space(Space::ReservedVa).live.bytes, 0);
    assert_eq!(story.space(Space::ReservedVa).peak_bytes, 4_194_304);
    assert_eq!(story.peak().0, 2_097_152);
    assert_eq!(
        (story.ledger.totals().allocs, story.ledger.totals().frees),
        (1, 1)
    );
}

#[test]
fn a_handle_value_given_again_is_another_block() {
    let mut story = Story::new();
    let map = |address| What::Map {
        address,
        bytes: 2 * MIB,
        handle: 0x77,
        offset: 0,
    };
    story.alloc(A, Space::Vmm, 0x77, 2 * MIB);
    story.happens(A, map(0x5000_0000));
    story.free_in(FREE, Space::Vmm, 0x77);
    story.alloc(B, Space::Vmm, 0x77, 4 * MIB);
    story.happens(B, map(0x6000_0000));
    assert_eq!(story.live_bytes(), 6 * MIB);
    let both = What::Unmap {
        address: 0x5000_0000,
        bytes: 0x1000_0000 + 2 * MIB,
    };
    story.happens(FREE, both);
    assert_eq!(story.live_bytes(), 4 * MIB);
    story.undo(0x5000_0000, 1);
    assert_eq!(story.live_bytes(), 6 * MIB);
    story.happens(
        FREE,
        What::Unmap {
            address: 0x5000_0000,
            bytes: 2 * MIB,
        },
    );
    assert_eq!(story.live_bytes(), 4 * MIB);
    story.free_in(FREE, Space::Vmm, 0x77);
    story.failing_release(0x77);
    assert_eq!(story.live_bytes(), 4 * MIB);
    assert_eq!(story.ledger.anomalies().double_free, 1);
}

#[test]
fn a_retained_handle_wants_two_releases() {
    let mut story = Story::new();
    story.alloc(A, Space::Vmm, 0x77, 2 * MIB);
    story.happens(A, What::Retain { handle: 0x77 });
    story.free_in(FREE, Space::Vmm, 0x77);
    assert_eq!(story.live_bytes(), 2 * MIB);
    assert_eq!(story.ledger.totals().frees, 0);
    story.free_in(FREE, Space::Vmm, 0x77);
    assert_eq!(story.live_bytes(), 0);
    assert_eq!(story.ledger.totals().frees, 1);
    story.undo(0x77, 1);
    assert_eq!(story.live_bytes(), 2 * MIB);
}

impl Story {
    fn failing_release(&mut self, handle: u64) {
        self.free_in(FREE, Space::Vmm, handle);
        self.undo(handle, 1);
    }
}

#[test]
fn an_ended_thread_keeps_its_name_and_its_leaks() {
    let mut story = Story::new();
    story.thread = 5;
    story.ledger.apply(&Record::Thread {
        id: 5,
        tid: 4242,
        name: "main".into(),
    });
    for i in 0..4 {
        story.malloc(A, 0x1000_0000 + i * MIB, MIB);
    }
    story.happens(
        0,
        What::ThreadExit {
            name: "loader".into(),
        },
    );
    assert_eq!(story.live_bytes(), 4_194_304);
    let thread = story.ledger.definitions().thread(5).expect("is known");
    assert_eq!((thread.name.as_str(), thread.exited), ("loader", true));
}

#[test]
fn a_reset_takes_linear_and_pinned_memory_but_not_stream_ordered() {
    let mut story = Story::new();
    for i in 0..5 {
        story.malloc(A, 0x1000_0000 + i * MIB, MIB);
    }
    story.alloc(A, Space::Pinned, 0x2000_0000, 2 * MIB);
    story.alloc(A, Space::Async, 0x3000_0000, 8 * MIB);
    story.happens(FREE, What::Reset);
    story.failing_free(FREE, 0x1000_0000);
    story.malloc(B, 0x1000_0000, MIB);

    let by_reset = &story.ledger.released().by_reset;
    assert_eq!(by_reset.get(Space::Device).bytes, 5_242_880);
    assert_eq!(by_reset.get(Space::Device).blocks, 5);
    assert_eq!(by_reset.get(Space::Pinned).bytes, 2_097_152);
    assert_eq!(by_reset.get(Space::Async).bytes, 0);
    assert_eq!(story.space(Space::Async).live.bytes, 8_388_608);
    assert_eq!(story.space(Space::Device).live.bytes, 1_048_576);
    assert_eq!(story.space(Space::Pinned).live.bytes, 0);
    let anomalies = story.ledger.anomalies();
    assert_eq!((anomalies.free_after_reset, anomalies.double_free), (1, 0));
}

#[test]
fn a_reset_spares_contexts_that_the_program_made_and_other_devices() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, MIB);
    let created = What::ContextCreate {
        context: 0xe1,
        explicit: true,
    };
    story.happens(A, created);
    story.context = 0xe1;
    story.malloc(A, 0x2000, 2 * MIB);
    story.device = Some(1);
    story.context = 0xc1;
    story.malloc(A, 0x3000, 4 * MIB);
    story.device = Some(0);
    story.happens(FREE, What::Reset);
    assert_eq!(story.live_bytes(), 2 * MIB);
    assert_eq!(
        story.ledger.device(Some(1)).map(|device| device.live.bytes),
        Some(4 * MIB)
    );
}

#[test]
fn a_destroyed_context_takes_its_memory_along_unless_that_failed() {
    let mut story = Story::new();
    for (context, address, bytes) in [(0xe1, 0x1000, 4 * MIB), (0xe2, 0x2000, 6 * MIB)] {
        story.happens(
            A,
            What::ContextCreate {
                context,
                explicit: true,
            },
        );
        story.context = context;
        story.malloc(A, address, bytes);
    }
    assert_eq!(story.peak().0, 10_485_760);
    story.happens(FREE, What::ContextDestroy { context: 0xe1 });
    let released = |story: &Story| {
        let released = story.ledger.released();
        released.by_context_destroy.get(Space::Device).bytes
    };
    assert_eq!(released(&story), 4_194_304);
    assert_eq!(story.live_bytes(), 6_291_456);
    story.undo(0xe1, 0);
    assert_eq!(released(&story), 0);
    assert_eq!(story.live_bytes(), 10_485_760);
    assert_eq!(story.ledger.totals().failed_frees, 0);
    story.happens(FREE, What::ContextDestroy { context: 0xe1 });
    assert_eq!(released(&story), 4_194_304);
    story.failing_free(FREE, 0x1000);
    assert_eq!(story.ledger.anomalies().free_after_reset, 1);
}

#[test]
fn host_memory_is_no_device_memory() {
    let mut story = Story::new();
    story.alloc(A, Space::Pinned, 0x1000, 1 << 35);
    story.alloc(A, Space::Registered, 0x9000, 4 * MIB);
    story.alloc(A, Space::Registered, 0xf000_0000, 4 * MIB);
    story.cannot_register(B, 0x9000, 4 * MIB, 712);
    story.free_in(FREE, Space::Registered, 0xf000_0000);
    story.free_in(FREE, Space::Registered, 0x9000);
    story.free_in(FREE, Space::Pinned, 0x1000);
    assert_eq!(story.space(Space::Pinned).peak_bytes, 34_359_738_368);
    assert_eq!(story.space(Space::Registered).peak_bytes, 2 * 4_194_304);
    assert_eq!(story.space(Space::Registered).live.bytes, 0);
    let anomalies = story.ledger.anomalies();
    assert_eq!(anomalies.failed_register, 1);
    let first = anomalies.events[0].block.expect("the first one is named");
    assert_eq!(first.address, 0x9000);
    assert_eq!(story.peak(), (0, 0));
    assert_eq!(story.ledger.totals().allocs, 1);
    assert_eq!(story.ledger.totals().frees, 1);
    assert_eq!(story.ledger.totals().failed_allocs, 0);
}

#[test]
fn an_out_of_memory_that_succeeds_later_is_recovered() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, 10 * GIB);
    story.fails_with(B, Some(Space::Device), Some(8 * GIB), 2, Some(6 * GIB));
    let group = &story.ledger.oom().groups()[0];
    assert_eq!(group.short_by(), Some(2_147_483_648));
    assert_eq!(group.rows.len(), 1);
    assert_eq!(group.rows[0].1.bytes, 10 * GIB);
    story.free(FREE, 0x1000);
    story.malloc(B, 0x2000, 8 * GIB);
    let group = &story.ledger.oom().groups()[0];
    assert_eq!(group.attempts, 1);
    let recovery = group.recovery.expect("it succeeded");
    assert_eq!(recovery.freed_between, 10_737_418_240);
    assert_eq!(story.ledger.oom().class(0, true), Class::Recovered);
    assert_eq!(story.ledger.totals().failed_allocs, 1);
}

#[test]
fn retries_are_one_group_and_the_last_is_fatal_if_the_process_dies() {
    let mut story = Story::new();
    story.malloc(A, 0x1000, 10 * GIB);
    for _ in 0..2 {
        story.fails_with(B, Some(Space::Device), Some(8 * GIB), 2, Some(6 * GIB));
    }
    story.happens(
        0,
        What::End {
            kind: EndKind::Exit,
            code: Some(1),
            signal: None,
        },
    );
    let oom = story.ledger.oom();
    assert_eq!(oom.groups().len(), 1);
    assert_eq!(oom.groups()[0].attempts, 2);
    assert_eq!(oom.groups()[0].short_by(), Some(2_147_483_648));
    assert_eq!(oom.class(0, true), Class::Fatal);
    assert_eq!(oom.class(0, false), Class::Caught);
}

#[test]
fn halving_until_it_fits_is_a_probe() {
    let mut story = Story::new();
    for power in [37, 36, 35, 34] {
        story.fails(B, Some(Space::Device), Some(1 << power), 2);
    }
    story.malloc(B, 0x1000, 1 << 33);
    let oom = story.ledger.oom();
    assert_eq!(oom.groups().len(), 4);
    for number in 0..4 {
        assert_eq!(oom.class(number, true), Class::Probe);
    }
    assert_eq!(story.live_bytes(), 8_589_934_592);
}

#[test]
fn calls_that_are_no_allocation_may_run_out_of_memory_too() {
    let mut story = Story::new();
    for stack in 1..=5 {
        story.fails_with(stack, None, None, 2, Some(15 * GIB));
    }
    story.fails_with(6, Some(Space::Pinned), Some(1 << 40), 2, Some(15 * GIB));
    story.fails(7, Some(Space::Device), Some(0), 1);
    let oom = story.ledger.oom();
    assert_eq!(oom.groups().len(), 6);
    assert_eq!(oom.groups()[0].requested, None);
    assert_eq!(oom.groups()[5].requested, Some(1_099_511_627_776));
    assert_eq!(story.ledger.totals().failed_allocs, 2);
}

#[test]
fn opening_foreign_memory_twice_wants_two_closings() {
    let mut story = Story::new();
    story.alloc(A, Space::Imported, 0x1000, MIB);
    story.alloc(A, Space::Imported, 0x1000, MIB);
    assert_eq!(story.space(Space::Imported).live.bytes, MIB);
    story.free_in(FREE, Space::Imported, 0x1000);
    assert_eq!(story.space(Space::Imported).live.bytes, MIB);
    story.free_in(FREE, Space::Imported, 0x1000);
    assert_eq!(story.space(Space::Imported).live.bytes, 0);
    assert_eq!(story.ledger.totals().allocs, 0);
}
