//! Names: of inlined functions, from separate debug files, from a copy of another machine's files; and none where a file
//! is not the one that ran.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::naming::{Says, build_id, frames_in, json, notes, reported, run, sample, text};
use support::{Bench, Ran, oomhook, root};

/// The line of the program on which a comment stands.
fn line(comment: &str) -> u64 {
    let source = root().join("tests/programs/inlined.cpp");
    let source = fs::read_to_string(source).expect("the source");
    let wanted = format!("/* {comment} */");
    let at = source.lines().position(|line| line.contains(&wanted));
    at.expect("the comment") as u64 + 1
}

/// What the program's own frames say, from the leaking call to main.
fn named() -> Vec<Says> {
    let wanted = [
        ("cache::Pool<float>::grow(unsigned long)", "in grow"),
        ("cache::fill(cache::Pool<float>&)", "in fill"),
        ("train()", "in train"),
        ("main", "in main"),
    ];
    let start = (Some("_start".to_owned()), None);
    let says = wanted.map(|(name, comment)| (Some(name.to_owned()), Some(line(comment))));
    says.into_iter().chain([start]).collect()
}

#[track_caller]
fn watch(program: &Path) -> Ran {
    let ran = Bench::shared().run(program, &[], &[]);
    ran.is("/leaks/0/bytes", 5 << 20).says(0, "");
    ran
}

/// Moves the debug information of a program to a file of its own.
fn separate(program: &Path, debug: &Path) {
    let objcopy = || Command::new("objcopy");
    run(objcopy().arg("--only-keep-debug").arg(program).arg(debug));
    run(objcopy().arg("--strip-all").arg(program));
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    run(objcopy().arg(link).arg(program));
}

/// Frames of the sample without names: offsets and its build-id, in JSON and in the text of stacks.
#[track_caller]
fn is_nameless(trace: &Path, build_id: &str, options: &[&str]) -> Vec<String> {
    let report = json(trace, options);
    let frames = frames_in(&report, "app");
    assert!(frames.len() >= 3, "{frames:?}");
    assert!(
        frames.iter().all(|says| *says == (None, None)),
        "{frames:?}"
    );
    let frames = report["leaks"][0]["stack"].as_array().expect("a stack");
    let frame = frames
        .iter()
        .find(|frame| frame["library"] == "app")
        .expect("a frame");
    assert_eq!(frame["build_id"], build_id);
    let offset = frame["offset"].as_u64().expect("an offset");
    let out = reported(
        trace,
        &[&["--by", "stack", "--at", "exit"], options].concat(),
    );
    let wanted = format!("        app+{offset:#x} (build-id {build_id})\n");
    assert!(out.contains(&wanted), "{wanted}{out}");
    notes(&report)
}

#[test]
fn the_line_of_an_inlined_call_is_named() {
    let (_, program) = sample(&[]);
    let ran = watch(&program);
    assert_eq!(frames_in(&ran.report, "app")[1..], named()[..]);
    ran.leaks_are(&[("cache::Pool<float>::grow", 5 << 20, 1)]);
    assert_eq!(notes(&ran.report), Vec::<String>::new());
    let out = reported(&ran.trace, &[]);
    let site = format!("inlined.cpp:{} cache::Pool<float>::grow", line("in grow"));
    assert!(out.contains(&site), "{out}");
}

#[test]
fn packed_and_older_and_split_debug_information_is_read() {
    for flags in [
        &["-gz=zlib"][..],
        &["-gdwarf-4"],
        &["-gdwarf-4", "-fdebug-types-section"],
        &["-gsplit-dwarf"],
    ] {
        let (_, program) = sample(flags);
        let ran = watch(&program);
        assert_eq!(frames_in(&ran.report, "app")[1..], named()[..], "{flags:?}");
    }
    // This form of packing is younger than some compilers.
    let (_, program) = sample(&[]);
    let packed = Command::new("objcopy")
        .arg("--compress-debug-sections=zstd")
        .arg(&program)
        .output();
    if packed.expect("objcopy").status.success() {
        assert_eq!(frames_in(&watch(&program).report, "app")[1..], named()[..]);
    }
}

#[test]
fn without_its_split_half_debug_information_still_has_functions_and_lines() {
    let bench = Bench::shared();
    let folder = bench.new_folder();
    let program = folder.join("app");
    let mut compile = Command::new("c++");
    compile.args(["-g", "-gsplit-dwarf", "-O2", "-Wl,--build-id", "-I"]);
    compile
        .arg(root().join("crates/sim/include"))
        .arg("-o")
        .arg(&program);
    compile
        .arg(root().join("tests/programs/inlined.cpp"))
        .arg(bench.static_runtime());
    run(compile.args(["-ldl", "-lpthread"]).current_dir(&folder));
    let split = fs::read_dir(&folder).expect("the folder").flatten();
    let split: Vec<PathBuf> = split
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "dwo"))
        .collect();
    assert_eq!(split.len(), 1, "{split:?}");
    fs::remove_file(&split[0]).expect("it goes");
    let ran = watch(&program);
    assert_eq!(
        frames_in(&ran.report, "app")[1..],
        [
            (Some("train()".to_owned()), Some(line("in grow"))),
            (Some("main".to_owned()), Some(line("in main"))),
            (Some("_start".to_owned()), None),
        ]
    );
}

#[test]
fn a_stripped_program_shows_offsets_until_its_debug_file_is_found() {
    let (folder, program) = sample(&[]);
    let id = build_id(&program);
    let elsewhere = Bench::shared().new_folder();
    let debug = elsewhere.join("app.debug");
    separate(&program, &debug);
    let ran = watch(&program);
    assert_eq!(is_nameless(&ran.trace, &id, &[]), Vec::<String>::new());
    // Where debuggers look, and anywhere below a folder that is named.
    let by_id = format!("{}/{}.debug", &id[..2], &id[2..]);
    let tree = elsewhere.join("tree");
    let none: &[&str] = &[];
    let with = ["--debug-dir", text(&tree)];
    for (place, options) in [
        (folder.join("app.debug"), none),
        (folder.join(".debug/app.debug"), none),
        (tree.join("a/b/c/app.debug"), &with),
        (tree.join("some/app"), &with),
        (tree.join(".build-id").join(&by_id), &with),
        (tree.join(&by_id), &with),
        (tree.join(&id).join("debuginfo"), &with),
    ] {
        fs::create_dir_all(place.parent().expect("a folder")).expect("folders");
        fs::copy(&debug, &place).expect("a copy");
        let report = json(&ran.trace, options);
        assert_eq!(frames_in(&report, "app")[1..], named()[..], "{place:?}");
        assert_eq!(notes(&report), Vec::<String>::new());
        assert_eq!(report["leaks"][0]["site"], "cache::Pool<float>::grow");
        fs::remove_file(&place).expect("it goes");
    }
    // The file of another build has the name, and is not it.
    let (_, other) = sample(&["-DOTHER=77"]);
    let theirs = folder.join("app.debug");
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(&other)
        .arg(&theirs));
    let said = is_nameless(&ran.trace, &id, &[]);
    assert_eq!(said.len(), 1, "{said:?}");
    let start = format!("{} is of another build than what ran", theirs.display());
    assert!(said[0].starts_with(&start), "{said:?}");
    // The right one elsewhere is found all the same.
    fs::create_dir_all(&tree).expect("a folder");
    fs::copy(&debug, tree.join("app.debug")).expect("a copy");
    let report = json(&ran.trace, &with);
    assert_eq!(frames_in(&report, "app")[1..], named()[..]);
    assert_eq!(notes(&report), Vec::<String>::new());
}

#[test]
fn debug_information_that_files_share_is_no_trouble() {
    if Command::new("dwz").arg("--version").output().is_err() {
        eprintln!("skipped: dwz is not installed");
        return;
    }
    let (folder, program) = sample(&["-gdwarf-4"]);
    let (_, second) = sample(&["-gdwarf-4", "-DOTHER=5"]);
    let common = folder.join("common.dwz");
    let mut dwz = Command::new("dwz");
    run(dwz.arg("-m").arg(&common).arg(&program).arg(&second));
    let ran = watch(&program);
    // As addr2line of binutils has it: functions and innermost lines, and nothing of what was inlined.
    let wanted = [
        (Some("train()".to_owned()), Some(line("in grow"))),
        (Some("main".to_owned()), Some(line("in main"))),
    ];
    assert_eq!(frames_in(&ran.report, "app")[1..3], wanted);
    let tree = folder.join("tree");
    fs::create_dir(&tree).expect("a folder");
    fs::rename(&common, tree.join("common.dwz")).expect("moved");
    for options in [&[][..], &["--debug-dir", text(&tree)]] {
        let report = json(&ran.trace, options);
        assert_eq!(frames_in(&report, "app")[1..3], wanted);
        assert_eq!(notes(&report), Vec::<String>::new());
    }
}

#[test]
fn on_another_machine_a_copy_of_the_files_gives_names() {
    let (folder, program) = sample(&[]);
    let id = build_id(&program);
    let ran = watch(&program);
    let root = folder.join("root");
    let copy = root.join(program.strip_prefix("/").expect("absolute"));
    fs::create_dir_all(copy.parent().expect("a folder")).expect("folders");
    fs::rename(&program, &copy).expect("moved");
    let said = is_nameless(&ran.trace, &id, &[]);
    let start = format!(
        "not on this machine: {}; its frames are offsets",
        program.display()
    );
    assert!(said.len() == 1 && said[0].starts_with(&start), "{said:?}");
    // The whole report is as it was there; so it is with a folder in which the program lies somewhere.
    let report = json(&ran.trace, &["--sysroot", text(&root)]);
    assert_eq!(report, ran.report);
    let report = json(&ran.trace, &["--debug-dir", text(&root)]);
    assert_eq!(report, ran.report);
    // A debug file alone does as well.
    let debug = folder.join("debug");
    fs::create_dir(&debug).expect("a folder");
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .arg(&copy)
        .arg(debug.join("app.debug")));
    let report = json(&ran.trace, &["--debug-dir", text(&debug)]);
    assert_eq!(frames_in(&report, "app"), frames_in(&ran.report, "app"));
    assert_eq!(notes(&report), Vec::<String>::new());
    // Leaks are judged and named by `check` with the same options.
    let gate = |options: &[&str]| {
        let mut command = oomhook();
        command
            .arg("check")
            .arg(&ran.trace)
            .arg("--fail-on-leak")
            .args(options);
        let output = command.output().expect("it starts");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(!gate(&[]).contains("grow"));
    assert!(gate(&["--sysroot", text(&root)]).contains("grow"));
}

#[test]
fn a_replaced_program_is_not_asked() {
    let (_, program) = sample(&[]);
    let id = build_id(&program);
    let ran = watch(&program);
    let (_, other) = sample(&["-DOTHER=99"]);
    assert_ne!(build_id(&other), id);
    fs::rename(&other, &program).expect("moved");
    let said = is_nameless(&ran.trace, &id, &[]);
    let start = format!(
        "{} is not what ran (another build-id: replaced since",
        program.display()
    );
    assert!(said.len() == 1 && said[0].starts_with(&start), "{said:?}");
    let out = reported(&ran.trace, &[]);
    assert!(out.contains("note: ") && !out.contains("grow"), "{out}");
}

#[test]
fn without_a_build_id_the_file_must_be_older_than_the_run() {
    let none = ["-Wl,--build-id=none"];
    let (folder, program) = sample(&none);
    let ran = watch(&program);
    assert_eq!(frames_in(&ran.report, "app")[1..], named()[..]);
    // Written again: the same bytes, which nothing proves.
    let bytes = fs::read(&program).expect("the program");
    fs::write(&program, &bytes).expect("written");
    let report = json(&ran.trace, &[]);
    assert!(
        frames_in(&report, "app")
            .iter()
            .all(|says| *says == (None, None))
    );
    let said = notes(&report);
    let start = format!(
        "{} was written after the recording began",
        program.display()
    );
    assert!(said.len() == 1 && said[0].starts_with(&start), "{said:?}");
    assert_eq!(json(&ran.trace, &["--sysroot", "/"]), ran.report);
    // Its debug file is told by checksum.
    let debug = folder.join("app.debug");
    separate(&program, &debug);
    let report = json(&ran.trace, &["--sysroot", "/"]);
    assert_eq!(frames_in(&report, "app"), frames_in(&ran.report, "app"));
    let mut bytes = fs::read(&debug).expect("the debug file");
    bytes.push(0);
    fs::write(&debug, bytes).expect("written");
    let report = json(&ran.trace, &["--sysroot", "/"]);
    assert_eq!(frames_in(&report, "app")[1], (None, None));
    assert!(notes(&report)[0].contains("app.debug is of another build"));
    // One that lies in memory otherwise is another one, whoever vouches for it.
    let (_, other) = sample(&["-DOTHER=99999", none[0]]);
    fs::rename(&other, &program).expect("moved");
    let report = json(&ran.trace, &["--sysroot", "/"]);
    assert_eq!(frames_in(&report, "app")[1], (None, None));
    assert!(notes(&report)[0].contains("is not what ran"));
}

#[test]
fn a_folder_that_is_not_there_is_wrong_usage() {
    for option in ["--debug-dir", "--sysroot"] {
        let mut command = oomhook();
        let output = command
            .args(["report", "x.trace", option, "/no/such/folder"])
            .output();
        let output = output.expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("/no/such/folder") && said.contains("No such file or directory"),
            "{said}"
        );
    }
}
