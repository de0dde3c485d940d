//! Kills a busy program at random moments and looks at what its trace has lost.
#![allow(dead_code, reason = "the test and the bench use a part of it each")]

use oomhook_ledger::replay;
use oomhook_trace::{Item, Reader, Record};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Threads of the program.
const THREADS: usize = 4;

/// What a thread of the program had done when it was killed.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    allocs: u64,
    frees: u64,
    when: u64,
}

/// What a kill has cost.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// From the latest event of the trace to the latest call that had returned, in nanoseconds.
    pub time_ns: u64,
    /// Calls that had returned and are not in the trace.
    pub events: u64,
    /// Calls that had returned.
    pub of: u64,
}

fn read(file: &Path) -> Vec<Done> {
    let bytes = fs::read(file).expect("the file");
    let numbers: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight bytes")))
        .collect();
    numbers
        .chunks_exact(3)
        .map(|of| Done {
            allocs: of[0],
            frees: of[1],
            when: of[2],
        })
        .collect()
}

/// A number that looks random.
pub fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// Runs the program (`command` names it, the library and the trace's pattern), kills it at a random moment, and compares.
/// Panics if the trace cannot be read, or says what was not.
pub fn kill(command: &mut Command, folder: &Path, pause_ns: u64, seed: &mut u64) -> Loss {
    let file = folder.join("done");
    fs::write(&file, vec![0; THREADS * 24]).expect("a file");
    command.arg(&file).arg(pause_ns.to_string());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    while read(&file).iter().any(|done| done.frees == 0) {
        assert!(
            child.try_wait().expect("it runs").is_none(),
            "it has ended by itself"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(Duration::from_micros(random(seed) % 40_000));
    child.kill().expect("it can be killed");
    let status = child.wait().expect("it ends");
    assert_eq!(status.signal(), Some(9), "{status}");
    compare(folder, &read(&file))
}

fn compare(folder: &Path, done: &[Done]) -> Loss {
    let traces: Vec<_> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "trace"))
        .collect();
    assert_eq!(traces.len(), 1, "{traces:?}");
    let open = || Reader::new(BufReader::new(File::open(&traces[0]).expect("the trace")));
    let replayed = replay(open().expect("a trace"));
    // The kernel may stop in the middle of a write.
    let is_cut = |damage: &String| damage.contains("the file is cut inside a chunk");
    assert!(
        replayed.damage.len() <= 1 && replayed.damage.iter().all(is_cut),
        "{:?}",
        replayed.damage
    );
    let ledger = &replayed.ledger;
    let anomalies = ledger.anomalies();
    let bad = anomalies.unknown_free + anomalies.double_free + anomalies.interior_free;
    assert_eq!((bad, ledger.totals().replaced), (0, 0));
    let mut recorded = 0;
    for (id, usage) in ledger.threads() {
        let name = ledger.definitions().thread(id).expect("it").name.clone();
        let Some(number) = name.strip_prefix("busy-") else {
            continue;
        };
        let done = done[number.parse::<usize>().expect("a number")];
        // A call may be recorded and not have returned. A free is recorded before it happens.
        assert!(
            usage.allocs <= done.allocs + 1 && usage.frees <= done.frees + 1,
            "{name}: {usage:?} of {done:?}"
        );
        // Nothing is missing in the middle: each thread takes and gives back in turn.
        assert!(
            usage.allocs == usage.frees || usage.allocs == usage.frees + 1,
            "{name}: {usage:?}"
        );
        recorded += usage.allocs.min(done.allocs) + usage.frees.min(done.frees);
    }
    let live = ledger.totals().allocs - ledger.totals().frees;
    assert!(live <= THREADS as u64, "{live} blocks live");
    let mut last_ns = 0;
    for item in open().expect("a trace") {
        if let Item::Record(Record::Event(event)) = item {
            last_ns = last_ns.max(event.time_ns);
        }
    }
    let last = replayed.header.process.start_unix_ns + last_ns;
    let latest = done.iter().map(|done| done.when).max().unwrap_or(0);
    let of = done
        .iter()
        .map(|done| done.allocs + done.frees)
        .sum::<u64>();
    Loss {
        time_ns: latest.saturating_sub(last),
        events: of - recorded,
        of,
    }
}
