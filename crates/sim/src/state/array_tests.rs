//! What arrays take of a device, and what takes memory later.

use super::super::ready;
use super::*;
use crate::abi::{AllocationProp, LOCATION_DEVICE, Location};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn float(width: usize, height: usize, channels: u32, flags: u32) -> Shape {
    Shape {
        width,
        height,
        depth: 0,
        format: 0x20,
        channels,
        flags,
    }
}

fn used(driver: &Driver) -> u64 {
    driver.total(0) - driver.free_memory(0)
}

#[test]
fn arrays_and_mipmaps_take_their_bytes_until_they_are_destroyed() {
    let (mut driver, thread) = ready("2x16GiB");
    let array = driver.create_array(thread, float(256, 256, 4, 0)).unwrap();
    assert_eq!(used(&driver), 1_048_576);
    let mipmap = driver
        .create_mipmap(thread, float(256, 256, 1, 0), 9)
        .unwrap();
    assert_eq!(used(&driver), 1_048_576 + 349_524);
    assert_eq!(
        driver.destroy_array(thread, array, true).unwrap_err().0,
        400
    );
    driver.destroy_array(thread, array, false).unwrap();
    assert_eq!(
        driver.destroy_array(thread, array, false).unwrap_err().0,
        400
    );
    driver.destroy_array(thread, mipmap, true).unwrap();
    assert_eq!(used(&driver), 0);
}

#[test]
fn a_level_is_an_array_that_goes_with_its_mipmap() {
    let (mut driver, thread) = ready("2x16GiB");
    let shape = float(256, 128, 1, 0);
    let mipmap = driver.create_mipmap(thread, shape, 99).unwrap();
    let level = driver.mipmap_level(mipmap, 8).unwrap();
    assert_eq!(driver.mipmap_level(mipmap, 8), Ok(level));
    assert_eq!(driver.mipmap_level(mipmap, 9).unwrap_err().0, 1);
    let shape = driver.array_shape(level).unwrap();
    assert_eq!((shape.width, shape.height, shape.depth), (1, 1, 0));
    assert_eq!(
        driver.destroy_array(thread, level, false).unwrap_err().0,
        400
    );
    driver.destroy_array(thread, mipmap, true).unwrap();
    assert_eq!(driver.array_shape(level).unwrap_err().0, 400);
}

#[test]
fn a_reset_frees_arrays_and_a_full_device_refuses_them() {
    let (mut driver, thread) = ready("2x16GiB");
    driver.create_array(thread, float(256, 256, 1, 0)).unwrap();
    driver.reset_primary(thread, 0).unwrap();
    assert_eq!(used(&driver), 0);
    driver.retain_primary(0).unwrap();
    driver.alloc(thread, 16 * GIB - MIB).unwrap();
    let shape = float(1024, 1024, 1, 0);
    assert_eq!(driver.create_array(thread, shape).unwrap_err().0, 2);
}

#[test]
fn only_arrays_that_get_their_memory_later_say_what_they_want() {
    let (mut driver, thread) = ready("2x16GiB");
    for (flags, answer) in [
        (0, Err(Code::INVALID_VALUE)),
        (SPARSE, Err(Code::INVALID_VALUE)),
    ] {
        let array = driver
            .create_array(thread, float(256, 256, 1, flags))
            .unwrap();
        let wants = driver.array_requirements(array, 0, false);
        assert_eq!(wants.map(|wants| wants.size), answer);
    }
    let before = used(&driver);
    let shape = float(256, 256, 1, DEFERRED);
    let array = driver.create_array(thread, shape).unwrap();
    assert_eq!(
        driver.array_requirements(array, 0, false).unwrap().size,
        262_144
    );
    let mipmap = driver.create_mipmap(thread, shape, 9).unwrap();
    let wants = driver.array_requirements(mipmap, 0, true).unwrap();
    assert_eq!((wants.size, wants.alignment), (393_216, 65_536));
    assert_eq!(used(&driver), before);
}

#[test]
fn memory_that_is_mapped_into_an_array_lives_as_long() {
    let (mut driver, thread) = ready("2x16GiB");
    let location = Location {
        kind: LOCATION_DEVICE,
        id: 0,
    };
    let prop = AllocationProp {
        kind: 1,
        handle_types: 0,
        location,
        win32: 0,
        flags: 0,
    };
    let memory = driver.create_physical(prop, 2 * MIB, 0).unwrap();
    let sparse = driver
        .create_array(thread, float(256, 256, 1, SPARSE))
        .unwrap();
    let plain = driver.create_array(thread, float(1, 1, 1, 0)).unwrap();
    let mut info = MapInfo {
        resource_kind: 0,
        resource: plain,
        part_kind: 0,
        part: Part([0; 8]),
        operation: 1,
        memory_kind: 0,
        memory,
        offset: 0,
        devices: 1,
        flags: 0,
        reserved: [0; 2],
    };
    assert_eq!(
        driver
            .map_array(thread, Stream::LEGACY, info)
            .unwrap_err()
            .0,
        1
    );
    info.resource = sparse;
    driver.map_array(thread, Stream::LEGACY, info).unwrap();
    driver.map_array(thread, Stream::LEGACY, info).unwrap();
    driver.release_physical(memory).unwrap();
    assert_eq!(used(&driver), 2 * MIB + 4);
    info.operation = 2;
    driver.map_array(thread, Stream::LEGACY, info).unwrap();
    assert_eq!(used(&driver), 4);
}
