//! SIGKILL comes without a word: what was written until then is all there is, and it is consistent.

mod support;

#[path = "support/kills.rs"]
mod kills;

use kills::{Loss, kill};
use std::fs;
use support::{Bench, Route};

const KILLS: usize = 50;

#[test]
fn a_trace_of_a_killed_process_opens_and_lacks_its_last_moments_only() {
    let bench = Bench::shared();
    let program = bench.build("killed.c", Route::Driver, &[]);
    let mut seed = u64::from(std::process::id()) | 1 << 40;
    eprintln!("seed {seed}");
    let mut losses: Vec<Loss> = (0..KILLS)
        .map(|_| {
            let mut run = bench.start(&program, &[]);
            let loss = kill(&mut run.command, &run.folder, 20_000, &mut seed);
            fs::remove_dir_all(&run.folder).expect("the folder can go");
            loss
        })
        .collect();
    losses.sort_by_key(|loss| loss.time_ns);
    let worst = losses[KILLS - 1];
    eprintln!("median {:?}, worst {worst:?}", losses[KILLS / 2]);
    // How much a busy machine may delay a thread is measured by the bench of this name. More than this is no delay.
    assert!(worst.time_ns < 2_000_000_000, "{worst:?}");
    assert!(losses.iter().all(|loss| loss.of > 8));
}
