//! What crosses processes by files, and who pays for it.

use super::super::ready;
use super::*;
use crate::abi::PoolProps;

const MIB: u64 = 1 << 20;

/// A driver of process 1 with a context, and one of process 2.
fn two_processes() -> (Driver, Driver, Thread) {
    let (mut one, thread) = ready("2x16GiB");
    let (mut two, _) = ready("2x16GiB");
    (one.process, two.process) = (Some(1), Some(2));
    (one, two, thread)
}

fn shared_pool(driver: &mut Driver) -> Handle {
    let props = PoolProps {
        handle_types: 1,
        ..PoolProps::new(Location::device(0))
    };
    driver.create_pool(props).unwrap()
}

fn shared_memory(handle_types: i32) -> AllocationProp {
    AllocationProp {
        kind: ALLOCATION_PINNED,
        handle_types,
        location: Location::device(1),
        win32: 0,
        flags: 0,
    }
}

#[test]
fn a_pointer_of_an_imported_pool_is_new_and_freed_like_any_other() {
    let (mut one, mut two, thread) = two_processes();
    let pool = shared_pool(&mut one);
    let p = one.alloc_async(thread, MIB, Some(pool), Stream::LEGACY);
    let data = one.export_pointer(p.unwrap()).unwrap();
    let file = one.export_pool(pool, 1, 0).unwrap();
    let imported = two.import_pool(Some(file), 1, 0).unwrap();
    let q = two.import_pointer(imported, data).unwrap();
    let r = two.import_pointer(imported, data).unwrap();
    assert_ne!(q, r);
    assert_eq!(two.free_memory(0), 16 << 30);
    assert_eq!(two.place(q).unwrap().pool, imported);
    two.free(thread, q).unwrap();
    two.free_async(thread, r, Stream::LEGACY).unwrap();
    assert_eq!(two.free(thread, q).unwrap_err().0, 1);
}

#[test]
fn an_imported_pool_gives_no_memory_and_serves_no_device() {
    let (mut one, mut two, thread) = two_processes();
    let pool = shared_pool(&mut one);
    let file = one.export_pool(pool, 1, 0).unwrap();
    let imported = two.import_pool(Some(file), 1, 0).unwrap();
    let answer = two.alloc_async(thread, MIB, Some(imported), Stream::LEGACY);
    assert_eq!(answer.unwrap_err().0, 1);
    assert_eq!(two.set_device_pool(0, imported).unwrap_err().0, 1);
    assert_eq!(two.export_pool(imported, 1, 0).unwrap_err().0, 1);
}

#[test]
fn what_was_not_made_for_it_is_not_exported() {
    let (mut one, mut two, thread) = two_processes();
    let pool = one.default_pool(0).unwrap();
    assert_eq!(one.export_pool(pool, 1, 0).unwrap_err().0, 1);
    let p = one.alloc_async(thread, MIB, None, Stream::LEGACY).unwrap();
    assert_eq!(one.export_pointer(p).unwrap_err().0, 1);
    let p = one.alloc(thread, MIB).unwrap();
    assert_eq!(one.export_pointer(p).unwrap_err().0, 1);
    let memory = one.create_physical(shared_memory(0), 2 * MIB, 0).unwrap();
    assert_eq!(one.export_physical(memory, 1, 0).unwrap_err().0, 1);
    assert_eq!(one.export_physical(memory, 8, 0).unwrap_err().0, 801);
    assert_eq!(two.import_physical(None, 1).unwrap_err().0, 1);
    assert_eq!(two.import_physical(Some([3; 64]), 1).unwrap_err().0, 1);
}

#[test]
fn imported_physical_memory_is_mapped_and_costs_the_exporter_only() {
    let (mut one, mut two, _) = two_processes();
    let memory = one.create_physical(shared_memory(1), 2 * MIB, 0).unwrap();
    let file = one.export_physical(memory, 1, 0).unwrap();
    let imported = two.import_physical(Some(file), 1).unwrap();
    assert_eq!(two.free_memory(1), 16 << 30);
    assert_eq!(two.physical_prop(imported), Ok(shared_memory(1)));
    let range = two.reserve(2 * MIB, 0, 0).unwrap();
    two.map(range, 2 * MIB, 0, imported).unwrap();
    two.release_physical(imported).unwrap();
    two.unmap(range, 2 * MIB).unwrap();
    assert_eq!(two.free_memory(1), 16 << 30);
    assert_eq!(two.release_physical(imported).unwrap_err().0, 1);
}

#[test]
fn importing_ones_own_memory_is_a_reference_more() {
    let (mut one, _, _) = two_processes();
    let memory = one.create_physical(shared_memory(1), 2 * MIB, 0).unwrap();
    let file = one.export_physical(memory, 1, 0).unwrap();
    assert_eq!(one.import_physical(Some(file), 1), Ok(memory));
    one.release_physical(memory).unwrap();
    assert_eq!(one.free_memory(1), (16 << 30) - 2 * MIB);
    one.release_physical(memory).unwrap();
    assert_eq!(one.free_memory(1), 16 << 30);
    assert_eq!(one.import_physical(Some(file), 1).unwrap_err().0, 1);
}

#[test]
fn a_range_becomes_a_file_if_all_of_it_is_there() {
    let (mut one, _, thread) = two_processes();
    let p = one.alloc(thread, 8192).unwrap();
    assert!(one.export_range(p, 8192, 1, 0).is_ok());
    assert_eq!(one.export_range(p, 12288, 1, 0).unwrap_err().0, 1);
    assert_eq!(one.export_range(p, 100, 1, 0).unwrap_err().0, 1);
    let range = one.reserve(4 * MIB, 0, 0).unwrap();
    let memory = one.create_physical(shared_memory(0), 4 * MIB, 0).unwrap();
    one.map(range, 2 * MIB, 0, memory).unwrap();
    assert_eq!(one.export_range(range, 4 * MIB, 1, 0).unwrap_err().0, 1);
    one.map(range + 2 * MIB, 2 * MIB, 2 * MIB, memory).unwrap();
    assert!(one.export_range(range, 4 * MIB, 1, 0).is_ok());
    let managed = one.alloc_managed(thread, MIB, 1).unwrap();
    assert_eq!(one.export_range(managed, 4096, 1, 0).unwrap_err().0, 801);
}

#[test]
fn only_managed_memory_is_prefetched() {
    let (mut one, _, thread) = two_processes();
    let managed = one.alloc_managed(thread, MIB, 1).unwrap();
    let linear = one.alloc(thread, MIB).unwrap();
    let mut prefetch = |address, size| {
        let answer = one.prefetch(thread, Stream::LEGACY, address, size);
        crate::codes::number(&answer)
    };
    assert_eq!(prefetch(managed, MIB), 0);
    assert_eq!(prefetch(managed, MIB + 1), 1);
    assert_eq!(prefetch(linear, MIB), 1);
}
