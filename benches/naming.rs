//! What it takes to name 5000 frames of a library, all of them different: `oomhook report` on a trace made for it.
//!
//! `cargo bench --bench naming -- LIBRARY...` (without one: the preloaded library itself, built with debug information)

#[path = "../tests/support/artefacts.rs"]
mod artefacts;

use oomhook_trace::Encoder;
use oomhook_trace::header::{Header, Process};
use oomhook_trace::record::{Event, Library, Record, Space, What};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const FRAMES: usize = 5000;
const ROUNDS: usize = 5;

fn main() {
    let named = std::env::args_os()
        .skip(1)
        .filter(|word| !word.to_string_lossy().starts_with("--"));
    let mut libraries: Vec<PathBuf> = named.map(PathBuf::from).collect();
    if libraries.is_empty() {
        libraries.push(artefacts::release().library);
    }
    println!("{FRAMES} frames, seconds, median of {ROUNDS}");
    for library in libraries {
        let library = fs::canonicalize(&library).expect("the library");
        let functions = functions(&library);
        let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("naming.trace");
        fs::write(&trace, trace_of(&library, &functions)).expect("a file");
        let mut times: Vec<f64> = (0..ROUNDS).map(|_| report(&trace)).collect();
        times.sort_by(f64::total_cmp);
        println!(
            "{:>8.2}  {} ({} functions)",
            times[ROUNDS / 2],
            library.display(),
            functions.len()
        );
    }
}

/// Functions of a file as `nm` has them: address, size.
fn functions(file: &Path) -> Vec<(u64, u64)> {
    let output = Command::new("nm")
        .args(["-S", "--defined-only"])
        .arg(file)
        .output();
    let output = output.expect("nm");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let functions = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_function = words.len() >= 4 && matches!(words[2], "t" | "T" | "w" | "W");
        is_function.then(|| Some((hex(words[0])?, hex(words[1])?)))?
    });
    functions.filter(|(_, size)| *size > 0).collect()
}

fn build_id(file: &Path) -> Vec<u8> {
    let output = Command::new("readelf").arg("-n").arg(file).output();
    let text = String::from_utf8_lossy(&output.expect("readelf").stdout).into_owned();
    let digits = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "))
        .expect("a build-id");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn trace_of(library: &Path, functions: &[(u64, u64)]) -> Vec<u8> {
    let header = Header {
        process: Process {
            command: vec!["bench".into()],
            ..Process::default()
        },
        ..Header::default()
    };
    let mut encoder = Encoder::default();
    encoder.put(&Record::Call {
        id: 1,
        name: "cudaMalloc".into(),
    });
    encoder.put(&Record::Library(Library {
        id: 1,
        path: library.to_string_lossy().into_owned(),
        build_id: build_id(library),
        start: 0,
        end: 0,
        bias: 0,
        time_ns: 0,
    }));
    let mut random = 7u64;
    let mut below = |end: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for id in 1..=FRAMES as u32 {
        let (start, size) = functions[below(functions.len() as u64) as usize];
        encoder.put(&Record::Frame {
            id,
            library: 1,
            offset: start + below(size) + 1,
        });
    }
    for (at, frames) in (1..=FRAMES as u32)
        .collect::<Vec<_>>()
        .chunks(32)
        .enumerate()
    {
        let id = at as u32 + 1;
        encoder.put(&Record::Stack {
            id,
            frames: frames.into(),
        });
        encoder.put(&Record::Event(Event {
            time_ns: u64::from(id),
            thread: 0,
            device: Some(0),
            call: 1,
            stack: id,
            what: What::Alloc {
                space: Space::Device,
                address: u64::from(id) << 12,
                bytes: 4096,
                requested: 4096,
                context: 1,
                stream: 0,
                pool: 0,
            },
        }));
    }
    let mut bytes = header.encode().expect("a header");
    encoder.finish_chunk(&mut bytes);
    bytes
}

fn report(trace: &Path) -> f64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomhook"));
    command.args(["report", "--json"]).arg(trace);
    let begun = Instant::now();
    let status = command.stdout(Stdio::null()).status().expect("it starts");
    assert!(status.success());
    begun.elapsed().as_secs_f64()
}
