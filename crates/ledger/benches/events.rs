//! Nanoseconds that the ledger takes for an allocation and its free: `cargo bench -p oomhook-ledger`.

#[path = "../tests/common/mod.rs"]
mod common;

use common::Story;
use std::time::Instant;

fn run(story: &mut Story, rounds: u64) -> u64 {
    let start = Instant::now();
    for i in 0..rounds {
        let address = 0x7f00_0000_0000 + (i % 64) * 512;
        story.records.clear();
        story.malloc(1 + (i % 100) as u32, address, 256);
        story.free(200, address);
    }
    start.elapsed().as_nanos() as u64 / rounds
}

fn main() {
    let mut story = Story::new();
    run(&mut story, 100_000);
    println!(
        "{} ns for an allocation and its free",
        run(&mut story, 2_000_000)
    );
}
