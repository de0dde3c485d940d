//! What allocating and freeing answers, and what it does to the device.

use super::super::{Driver, Thread, ready};
use super::*;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn used(driver: &Driver) -> u64 {
    driver.total(0) - driver.free_memory(0)
}

fn code<T: std::fmt::Debug>(answer: Answer<T>) -> i32 {
    crate::codes::number(&answer)
}

#[test]
fn eight_gib_do_not_fit_beside_ten_and_the_shortage_is_exact() {
    let (mut driver, thread) = ready("2x16GiB");
    let held = driver.alloc(thread, 10 * GIB).unwrap();
    assert_eq!(code(driver.alloc(thread, 8 * GIB)), 2);
    assert_eq!(8 * GIB - driver.free_memory(0), 2 * GIB);
    driver.free(thread, held).unwrap();
    assert_eq!(code(driver.alloc(thread, 8 * GIB)), 0);
}

#[test]
fn halving_from_128_gib_fails_four_times_with_15_and_a_half_free() {
    let (mut driver, thread) = ready("2x16GiB,free=15.5GiB");
    let answers: Vec<i32> = (33..=37)
        .rev()
        .map(|n| code(driver.alloc(thread, 1 << n)))
        .collect();
    assert_eq!(answers, [2, 2, 2, 2, 0]);
}

#[test]
fn small_blocks_count_in_steps_of_512() {
    let (mut driver, thread) = ready("2x16GiB");
    let a = driver.alloc(thread, 1).unwrap();
    let b = driver.alloc(thread, 513).unwrap();
    assert_eq!(used(&driver), 512 + 1024);
    assert_eq!((a % 512, b % 512, b - a), (0, 0, 512));
}

#[test]
fn bad_frees_answer_1_and_change_nothing() {
    let (mut driver, thread) = ready("2x16GiB");
    let p = driver.alloc(thread, MIB).unwrap();
    assert_eq!(code(driver.free(thread, 0)), 0);
    assert_eq!(code(driver.free(thread, 0xdead_0000)), 1);
    assert_eq!(code(driver.free(thread, p + 256)), 1);
    assert_eq!(used(&driver), MIB);
    assert_eq!(code(driver.free(thread, p)), 0);
    assert_eq!(code(driver.free(thread, p)), 1);
    assert_eq!(used(&driver), 0);
}

#[test]
fn allocating_needs_a_context_and_a_size_and_freeing_needs_neither() {
    let (mut driver, thread) = ready("2x16GiB");
    let p = driver.alloc(thread, MIB).unwrap();
    assert_eq!(code(driver.alloc(thread, 0)), 1);
    assert_eq!(code(driver.alloc(Thread(9), MIB)), 201);
    assert_eq!(code(driver.free(Thread(9), p)), 0);
}

#[test]
fn a_block_is_freed_from_another_context_and_charged_to_its_own_device() {
    let (mut driver, thread) = ready("2x16GiB");
    let p = driver.alloc(thread, MIB).unwrap();
    driver.create_context(thread, 1, 0).unwrap();
    assert_eq!(code(driver.free(thread, p)), 0);
    assert_eq!(
        (driver.free_memory(0), driver.free_memory(1)),
        (16 * GIB, 16 * GIB)
    );
}

#[test]
fn narrow_addresses_have_32_bits_and_any_free_takes_them() {
    let (mut driver, thread) = ready("2x16GiB");
    let narrow = driver.alloc_narrow(thread, 4 << 20).unwrap();
    let wide = driver.alloc(thread, 4 * MIB).unwrap();
    assert!(wide > u32::MAX.into());
    assert_eq!(used(&driver), 8 * MIB);
    driver.free(thread, narrow.into()).unwrap();
    assert_eq!(driver.alloc_narrow(thread, 4 << 20), Ok(narrow));
}

#[test]
fn pitched_memory_is_pitch_times_height() {
    let (mut driver, thread) = ready("2x16GiB");
    let pitched = driver.alloc_pitched(thread, 1000, 100, 4, false).unwrap();
    assert_eq!((pitched.pitch, used(&driver)), (1024, 102_400));
    driver.alloc_pitched(thread, 1000, 1000, 16, false).unwrap();
    assert_eq!(used(&driver), 102_400 + 1_024_000);
    assert_eq!(code(driver.alloc_pitched(thread, 1000, 100, 3, false)), 1);
    assert_eq!(code(driver.alloc_pitched(thread, 0, 100, 4, false)), 1);
}

#[test]
fn managed_memory_may_exceed_the_device() {
    let (mut driver, thread) = ready("2x16GiB");
    let p = driver.alloc_managed(thread, 24 * GIB, 1).unwrap();
    assert_eq!(used(&driver), 0);
    assert_eq!(code(driver.alloc_managed(thread, MIB, 0)), 1);
    assert_eq!(code(driver.free(thread, p)), 0);
    assert_eq!(code(driver.free(thread, p)), 1);
}

#[test]
fn a_reset_frees_linear_and_managed_memory_but_not_what_pools_gave() {
    let (mut driver, thread) = ready("2x16GiB");
    let linear = driver.alloc(thread, 5 * MIB).unwrap();
    let managed = driver.alloc_managed(thread, MIB, 1).unwrap();
    let ordered = driver
        .alloc_async(thread, 8 * MIB, None, Stream::LEGACY)
        .unwrap();
    driver.reset_primary(thread, 0).unwrap();
    assert_eq!(used(&driver), 32 * MIB);
    assert_eq!(code(driver.free(thread, linear)), 1);
    assert_eq!(code(driver.free(thread, managed)), 1);
    assert_eq!(code(driver.free(thread, ordered)), 0);
    assert_eq!(code(driver.alloc(thread, MIB)), 709);
    driver.retain_primary(0).unwrap();
    assert_eq!(code(driver.alloc(thread, MIB)), 0);
}

#[test]
fn destroying_a_context_frees_only_its_own() {
    let (mut driver, thread) = ready("2x16GiB");
    let first = driver.create_context(thread, 0, 0).unwrap();
    driver.alloc(thread, 4 * MIB).unwrap();
    driver.create_context(thread, 0, 0).unwrap();
    driver.alloc(thread, 6 * MIB).unwrap();
    assert_eq!(used(&driver), 10 * MIB);
    driver.destroy_context(thread, first).unwrap();
    assert_eq!(used(&driver), 6 * MIB);
}

#[test]
fn families_may_be_crossed() {
    let (mut driver, thread) = ready("2x16GiB");
    let linear = driver.alloc(thread, MIB).unwrap();
    let ordered = driver
        .alloc_async(thread, MIB, None, Stream::LEGACY)
        .unwrap();
    assert_eq!(code(driver.free_async(thread, linear, Stream::LEGACY)), 0);
    assert_eq!(code(driver.free(thread, ordered)), 0);
    assert_eq!(code(driver.free_async(thread, ordered, Stream::LEGACY)), 1);
}
