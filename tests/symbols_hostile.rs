//! Names from traces made by hand: of code made at run time, of files that are damaged or no files at all, and of thousands
//! of addresses that an independent witness names too.

mod support;

use oomhook_trace::Encoder;
use oomhook_trace::header::{Header, Process};
use oomhook_trace::record::{EndKind, Event, Library, Record, Space, What};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::naming::{build_id, frames_in, json, notes, reported, run, sample, text};
use support::{Bench, oomhook, root};

/// A trace made by hand: one block, whose stack has all frames that are wanted.
struct Story {
    header: Header,
    records: Vec<Record>,
    stack: Vec<u32>,
}

impl Story {
    fn new() -> Story {
        let process = Process {
            host: "node7".into(),
            pid: 42,
            command: vec!["/app/trainer".into()],
            start_unix_ns: now_ns(),
            ..Process::default()
        };
        let header = Header {
            process,
            ..Header::default()
        };
        let call = Record::Call {
            id: 1,
            name: "cudaMalloc".into(),
        };
        Story {
            header,
            records: vec![call],
            stack: Vec::new(),
        }
    }

    /// Frames of a library, by the addresses of their calls; of none, if there is no path.
    fn frames(mut self, path: Option<&str>, build_id: &[u8], addresses: &[u64]) -> Story {
        let id = self.records.len() as u32;
        if let Some(path) = path {
            self.records.push(Record::Library(Library {
                id,
                path: path.into(),
                build_id: build_id.into(),
                start: 0,
                end: 0,
                bias: 0,
                time_ns: 0,
            }));
        }
        for address in addresses {
            let frame = self.stack.len() as u32 + 1;
            self.stack.push(frame);
            self.records.push(Record::Frame {
                id: frame,
                library: if path.is_some() { id } else { 0 },
                offset: address + 1,
            });
        }
        self
    }

    fn write(mut self, folder: &Path) -> PathBuf {
        let happens = |time_ns, stack, what| {
            Record::Event(Event {
                time_ns,
                thread: 0,
                device: Some(0),
                call: 1,
                stack,
                what,
            })
        };
        let alloc = What::Alloc {
            space: Space::Device,
            address: 4096,
            bytes: 5 << 20,
            requested: 5 << 20,
            context: 1,
            stream: 0,
            pool: 0,
        };
        let end = What::End {
            kind: EndKind::Exit,
            code: Some(0),
            signal: None,
        };
        self.records.extend([
            Record::Stack {
                id: 1,
                frames: self.stack,
            },
            happens(1, 1, alloc),
            happens(2, 0, end),
        ]);
        let mut bytes = self.header.encode().expect("a header");
        let mut encoder = Encoder::default();
        for record in &self.records {
            encoder.put(record);
        }
        encoder.finish_chunk(&mut bytes);
        let path = folder.join("made.trace");
        fs::write(&path, bytes).expect("a file");
        path
    }
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_nanos() as u64
}

/// Functions of a file as `nm` has them: address, size.
fn functions(file: &Path) -> Vec<(u64, u64)> {
    let out = run(Command::new("nm").args(["-S", "--defined-only"]).arg(file));
    let hex = |word: &str| u64::from_str_radix(word, 16).ok();
    let functions = out.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_function = words.len() >= 4 && matches!(words[2], "t" | "T" | "w" | "W");
        is_function.then(|| Some((hex(words[0])?, hex(words[1])?)))?
    });
    functions.filter(|(_, size)| *size > 0).collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let bytes = digits
        .as_bytes()
        .chunks(2)
        .map(|two| std::str::from_utf8(two).expect("digits"));
    bytes
        .map(|two| u8::from_str_radix(two, 16).expect("digits"))
        .collect()
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[test]
fn code_made_at_run_time_is_named_by_its_own_map_and_no_other() {
    let folder = Bench::shared().new_folder();
    let map = b"junk\n7f0000001000 40 py::step:/app/train.py\n7f0000001000\n7f00zz 1 x\n\xff\xfe\n7f0000002000 10 v8\x1b[31m::\x07red\n";
    let mut map = map.to_vec();
    map.extend_from_slice(format!("7f0000003000 10 {}\n", "long".repeat(2500)).as_bytes());
    let addresses = [
        0x7f00_0000_1010,
        0x7f00_0000_1040,
        0x7f00_0000_2000,
        0x7f00_0000_3001,
    ];
    let pid = std::process::id();
    let made = |host: &str, start_ns: u64| {
        let mut story = Story::new().frames(None, &[], &addresses);
        story.header.process.pid = pid;
        story.header.process.host = host.into();
        story.header.process.start_unix_ns = start_ns;
        story.write(&folder)
    };
    let named = |report: &Value, library: &str| -> Vec<Option<String>> {
        frames_in(report, library)
            .into_iter()
            .map(|says| says.0)
            .collect()
    };
    let is_named = |report: &Value| {
        let names = named(report, "[jit]");
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names[0].as_deref(), Some("py::step:/app/train.py"));
        assert_eq!(names[1].as_deref(), Some("v8\\u{1b}[31m::\\u{7}red"));
        let long = names[2].as_deref().expect("a name");
        assert!(long.len() <= 4000 && long.starts_with("longlong") && long.ends_with("long"));
        assert_eq!(named(report, "unknown"), [None]);
        assert_eq!(notes(report), Vec::<String>::new());
    };
    // Below the copy of another machine's files.
    let root = folder.join("root");
    fs::create_dir_all(root.join("tmp")).expect("folders");
    fs::write(root.join(format!("tmp/perf-{pid}.map")), &map).expect("a map");
    let options = ["--sysroot", text(&root)];
    let elsewhere = made("node7", now_ns());
    is_named(&json(&elsewhere, &options));
    let out = reported(&elsewhere, &[&["--by", "stack"], &options[..]].concat());
    assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out}");
    assert_eq!(named(&json(&elsewhere, &[]), "unknown").len(), 4);
    // On this machine.
    let here = PathBuf::from(format!("/tmp/perf-{pid}.map"));
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim_end();
    struct Gone(PathBuf);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }
    let _gone = Gone(here.clone());
    fs::write(&here, &map).expect("a map");
    let hour = 3_600_000_000_000;
    let now = now_ns();
    is_named(&json(&made(host, now - 1_000_000_000), &[]));
    for (host, began, why) in [
        ("node7", now, "another machine"),
        (host, now + hour, "another one of that number"),
        (host, now - hour, "another one of that number"),
    ] {
        let report = json(&made(host, began), &[]);
        assert_eq!(named(&report, "unknown"), vec![None; 4]);
        let said = notes(&report);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert!(said[0].starts_with(text(&here)), "{said:?}");
    }
    fs::remove_file(&here).expect("it goes");
    run(Command::new("mkfifo").arg(&here));
    let report = json(&made(host, now_ns() - 1_000_000_000), &[]);
    assert!(
        notes(&report)[0].contains("cannot be read as a regular file"),
        "{report:#}"
    );
}

#[test]
fn what_is_no_library_is_named_in_a_note() {
    let folder = Bench::shared().new_folder();
    let path = |name: &str| folder.join(name);
    run(Command::new("mkfifo").arg(path("pipe.so")));
    fs::create_dir(path("folder.so")).expect("a folder");
    fs::write(path("empty.so"), "").expect("a file");
    fs::write(path("text.so"), "no library\n".repeat(1000)).expect("a file");
    let mut huge = fs::File::create(path("huge.so")).expect("a file");
    huge.set_len(1 << 40).expect("a hole");
    std::io::Write::write_all(&mut huge, b"\x7fELF\x02\x01\x01").expect("written");
    let strange = format!("{}\x1b]0;title\x07.so", text(&path("strange")));
    let mut story = Story::new();
    let names = ["pipe.so", "folder.so", "empty.so", "text.so", "huge.so"];
    let paths: Vec<String> = names
        .iter()
        .map(|name| text(&path(name)).to_owned())
        .collect();
    let others = [
        "/dev/zero".to_owned(),
        strange,
        "linux-vdso.so.1".to_owned(),
        format!("/{}", "x/".repeat(5000)),
    ];
    for path in paths.iter().chain(&others) {
        story = story.frames(Some(path), &[7; 20], &[0x100]);
    }
    story.records.push(Record::Thread {
        id: 0,
        tid: 7,
        name: "worker\x1b[2J".into(),
    });
    let trace = story.write(&folder);
    let report = json(&trace, &[]);
    assert_eq!(report["leaks"][0]["thread"], "worker\\u{1b}[2J");
    let said = notes(&report);
    let starts = [
        format!("{} is not what ran", paths[4]),
        format!("{} and {} are damaged, or no ELF file", paths[2], paths[3]),
        format!(
            "{}, {} and /dev/zero are no regular files",
            paths[0], paths[1]
        ),
        format!("/{}..", "x/".repeat(39)),
        format!(
            "not on this machine: {}\\u{{1b}}]0;title\\u{{7}}.so;",
            text(&path("strange"))
        ),
    ];
    assert_eq!(said.len(), starts.len(), "{said:#?}");
    for (said, start) in said.iter().zip(&starts) {
        assert!(said.starts_with(start.as_str()), "{start}\n{said}");
        assert!(
            said.len() < 1000 && !said.chars().any(char::is_control),
            "{said}"
        );
    }
    let threads = reported(&trace, &["--by", "thread"]);
    assert!(threads.contains("worker\\u{1b}[2J (tid 7)"), "{threads}");
    let frames = frames_in(&report, "strange\\u{1b}]0;title\\u{7}.so");
    assert_eq!(frames, [(None, None)]);
    let out = reported(&trace, &["--by", "stack"]);
    assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out}");
}

#[test]
fn names_are_fit_to_be_shown() {
    let (folder, program) = sample(&[]);
    let long = format!("_Z1f{}i", "P".repeat(12_000));
    let mut rename = Command::new("objcopy");
    rename
        .arg("--redefine-sym")
        .arg("_ZL5trainv=evil\x1b[2J\r\u{202e}name");
    rename.arg("--redefine-sym").arg(format!("main={long}"));
    run(rename.arg("--strip-debug").arg(&program));
    let addresses: Vec<u64> = functions(&program)
        .iter()
        .map(|(start, _)| *start)
        .collect();
    let id = bytes_of(&build_id(&program));
    let trace = Story::new()
        .frames(Some(text(&program)), &id, &addresses)
        .write(&folder);
    let names: Vec<String> = frames_in(&json(&trace, &[]), "app")
        .into_iter()
        .filter_map(|says| says.0)
        .collect();
    assert!(
        names.contains(&"evil\\u{1b}[2J\\u{d}\\u{202e}name".to_owned()),
        "{names:?}"
    );
    let long = names
        .iter()
        .find(|name| name.starts_with("_Z1fPPP"))
        .expect("the long one");
    assert!(long.len() <= 4000 && long.contains("PP..PP") && long.ends_with("PPi"));
    // A name of C is no mangled type.
    assert!(names.contains(&"cudaMalloc".to_owned()), "{names:?}");
}

#[test]
fn a_library_opened_by_a_relative_path_is_looked_for_in_the_current_folder() {
    let (folder, program) = sample(&[]);
    let id = bytes_of(&build_id(&program));
    let (start, _) = functions(&program)[0];
    let trace = Story::new()
        .frames(Some("./app"), &id, &[start])
        .write(&folder);
    let named = |from: &Path| {
        let mut command = oomhook();
        command.args(["report", "--json"]).arg(&trace);
        let report: Value = serde_json::from_str(&run(command.current_dir(from))).expect("JSON");
        (frames_in(&report, "app")[0].0.is_some(), notes(&report))
    };
    assert_eq!(named(&folder), (true, Vec::new()));
    let (has_name, said) = named(Path::new("/"));
    assert!(!has_name && said.len() == 1, "{said:?}");
    assert!(
        said[0].starts_with("not on this machine: ./app; "),
        "{said:?}"
    );
}

#[test]
fn absurd_debug_information_is_survived() {
    let folder = Bench::shared().new_folder();
    for depth in ["10", "1000000"] {
        let library = folder.join(format!("nested{depth}.so"));
        let mut build = Command::new("cc");
        build.args([
            "-shared",
            "-Wl,--build-id",
            &format!("-Wa,--defsym,DEPTH={depth}"),
            "-o",
        ]);
        run(build
            .arg(&library)
            .arg(root().join("tests/programs/nested.s")));
        let id = bytes_of(&build_id(&library));
        let starts: Vec<u64> = functions(&library)
            .iter()
            .map(|(start, _)| *start)
            .collect();
        let trace = Story::new()
            .frames(Some(text(&library)), &id, &starts)
            .write(&folder);
        let report = json(&trace, &[]);
        let mut names = frames_in(&report, &format!("nested{depth}.so"));
        names.retain(|says| says.0.is_some());
        names.sort();
        let wanted = ["circular", "deep"].map(|name| (Some(name.to_owned()), None));
        assert_eq!(names, wanted, "{depth}");
        // What the debug information has driven mad was asked for the symbol table alone.
        let said = notes(&report);
        assert_eq!(said.len(), usize::from(depth != "10"), "{said:?}");
        let start = format!("{} is damaged", library.display());
        assert!(said.iter().all(|note| note.starts_with(&start)), "{said:?}");
    }
}

/// Damages a file: cut somewhere, or some of its bytes changed, in its headers more often than elsewhere.
fn damaged(whole: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let length = bytes.len() as u64;
    let sections = u64::from_le_bytes(whole[40..48].try_into().expect("eight bytes"));
    match dice.below(4) {
        0 => bytes.truncate(dice.below(length) as usize),
        kind => {
            for _ in 0..=dice.below(8) {
                let at = match kind {
                    1 => dice.below(0x400),
                    2 => sections + dice.below(length - sections),
                    _ => dice.below(length),
                };
                bytes[at as usize] = dice.below(256) as u8;
            }
        }
    }
    bytes
}

#[test]
fn damaged_files_are_survived() {
    let (folder, program) = sample(&[]);
    let packed = folder.join("packed");
    run(Command::new("objcopy")
        .arg("--compress-debug-sections=zlib")
        .arg(&program)
        .arg(&packed));
    let id = bytes_of(&build_id(&program));
    let addresses: Vec<u64> = functions(&program)
        .iter()
        .map(|(start, size)| start + size / 2)
        .collect();
    let mut dice = Dice(20_261_129);
    let mut named = 0;
    for round in 0..12 {
        let mut story = Story::new();
        for number in 0..25 {
            let whole =
                fs::read(if number % 2 == 0 { &program } else { &packed }).expect("the file");
            let path = folder.join(format!("damaged-{round}-{number}.so"));
            fs::write(&path, damaged(&whole, &mut dice)).expect("written");
            // What is damaged may look like another build: then it is asked all the same, as one without build-id.
            let known: &[u8] = if dice.below(2) == 0 { &id } else { &[] };
            story = story.frames(Some(text(&path)), known, &addresses);
        }
        // Later than all of them were written.
        story.header.process.start_unix_ns = now_ns() + 3_600_000_000_000;
        let report = json(&story.write(&folder), &[]);
        let frames = report["leaks"][0]["stack"].as_array().expect("a stack");
        assert!(frames.len() >= 25 * addresses.len());
        named += frames
            .iter()
            .filter(|frame| frame["function"].is_string())
            .count();
    }
    // The test would prove little if nothing of the files were read.
    assert!(named > 300 * addresses.len() / 4, "{named}");
}

/// Function, file and line as `addr2line` has them, innermost first, for each address.
fn witness(file: &Path, addresses: &[u64]) -> Vec<Vec<(String, String, Option<u64>)>> {
    let list = Bench::shared().path("addresses");
    let lines: Vec<String> = addresses
        .iter()
        .map(|address| format!("{address:#x}\n"))
        .collect();
    fs::write(&list, lines.concat()).expect("a list");
    let mut command = Command::new("addr2line");
    command.arg("-afie").arg(file);
    let out = run(command.stdin(fs::File::open(&list).expect("the list")));
    let mut frames: Vec<Vec<_>> = Vec::new();
    let mut lines = out.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            frames.push(Vec::new());
            continue;
        }
        let place = lines.next().expect("a place");
        let place = place.split(" (discriminator").next().expect("a place");
        let (file, number) = place.rsplit_once(':').expect("a line");
        let file = file.rsplit('/').next().expect("a name");
        let frame = (
            line.to_owned(),
            file.to_owned(),
            number.parse().ok().filter(|line| *line > 0),
        );
        frames.last_mut().expect("an address").push(frame);
    }
    frames
}

#[test]
fn an_independent_witness_agrees() {
    let library = &support::artefacts().library;
    let mut dice = Dice(7);
    let mut functions = functions(library);
    functions.sort_unstable();
    functions.dedup();
    let addresses: Vec<u64> = (0..3000)
        .map(|_| {
            let (start, size) = functions[dice.below(functions.len() as u64) as usize];
            start + dice.below(size)
        })
        .collect();
    let folder = Bench::shared().new_folder();
    let id = bytes_of(&build_id(library));
    let trace = Story::new()
        .frames(Some(text(library)), &id, &addresses)
        .write(&folder);
    let report = json(&trace, &[]);
    assert_eq!(notes(&report), Vec::<String>::new());
    // Ours are one list: frames of one address follow each other.
    let frames = report["leaks"][0]["stack"].as_array().expect("a stack");
    let mut frames = frames.iter();
    let theirs = witness(library, &addresses);
    assert_eq!(theirs.len(), addresses.len());
    let (mut agree, mut named) = (0, 0);
    let mut differences = Vec::new();
    for (address, theirs) in addresses.iter().zip(&theirs) {
        let mut ours = Vec::new();
        let mut has_name = true;
        for _ in theirs {
            let Some(frame) = frames.next() else { break };
            assert_eq!(frame["offset"].as_u64(), Some(address + 1), "{theirs:?}");
            let file = frame["file"].as_str().unwrap_or("??");
            let file = file.rsplit('/').next().expect("a name");
            ours.push((file.to_owned(), frame["line"].as_u64()));
            has_name &= frame["function"].is_string();
        }
        named += usize::from(has_name);
        // Without a line, binutils shows the name of the unit or nothing, we the file.
        let theirs: Vec<_> = theirs
            .iter()
            .map(|(_, file, line)| line.map(|line| (file.clone(), line)))
            .collect();
        let ours: Vec<_> = ours
            .into_iter()
            .map(|(file, line)| line.map(|line| (file, line)))
            .collect();
        match ours == theirs {
            true => agree += 1,
            false => differences.push((address, ours, theirs)),
        }
    }
    eprintln!("{agree} of {} agree", addresses.len());
    assert_eq!(named, addresses.len());
    assert!(differences.is_empty(), "{differences:#x?}");
}
