//! What is found in a process that ended well, device by device.

mod common;

use common::{MIB, World};
use oomhook_report::diagnosis::Cause;
use oomhook_report::text::{self, Style};
use oomhook_trace::Record;
use oomhook_trace::told::{Tensor, TensorWhat};

/// On each of these devices blocks stay, more and more of them, until the end.
fn more_and_more(devices: &[u8]) -> World {
    let mut world = World::new();
    let keep = world.from("keep()", "/src/keep.cpp", 7);
    let work = world.from("work()", "/src/work.cpp", 9);
    let (mut held, mut time_ns) = ([0; 8], 0);
    let mut tell = |world: &mut World, device: u8, stack: u32, what: TensorWhat| {
        time_ns += 1000;
        let held = &mut held[usize::from(device)];
        match what {
            TensorWhat::Alloc { bytes, .. } => *held += bytes,
            TensorWhat::Free { bytes, .. } => *held -= bytes,
            _ => {}
        }
        world.record(Record::Tensor(Tensor {
            time_ns,
            thread: 0,
            device,
            stack,
            what,
            allocated: *held,
            reserved: 1 << 30,
        }));
    };
    for turn in 0..200 {
        for device in devices {
            let (bytes, work_bytes) = (2 * MIB, MIB);
            let address = (u64::from(*device) << 40) + turn * 4 * MIB;
            tell(
                &mut world,
                *device,
                keep,
                TensorWhat::Alloc { address, bytes },
            );
            let (address, bytes) = (address + bytes, work_bytes);
            tell(
                &mut world,
                *device,
                work,
                TensorWhat::Alloc { address, bytes },
            );
            tell(&mut world, *device, 0, TensorWhat::Free { address, bytes });
        }
    }
    // The driver was asked as well, on each device.
    for device in devices {
        world.device = Some(*device);
        let address = world.malloc(work, MIB);
        world.free(work, address);
    }
    world.exits(0);
    world
}

#[test]
fn each_finding_names_its_device() {
    let report = more_and_more(&[0, 1]).report();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.class, finding.device))
        .collect();
    assert_eq!(
        found,
        [(Cause::Retention, Some(0)), (Cause::Retention, Some(1))]
    );
    let text = text::render(&report, &Style::default());
    let gpus: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  GPU "))
        .collect();
    assert_eq!(gpus, ["  GPU 0:", "  GPU 1:"], "{text}");
    let json = serde_json::to_value(&report.findings).expect("JSON");
    assert_eq!(json[1]["device"], 1);
}

#[test]
fn where_there_is_one_device_it_need_not_be_named() {
    let report = more_and_more(&[1]).report();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].device, Some(1));
    let text = text::render(&report, &Style::default());
    assert!(!text.contains("  GPU 1:"), "{text}");
}
