//! Whose an allocation is where nothing has a name: in a stripped program with the runtime inside.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use support::naming::run;
use support::{Bench, MIB, Route};

/// The function that holds a file's address, by an independent witness.
fn function_at(program: &Path, address: u64) -> String {
    let output = Command::new("addr2line")
        .args(["-f", "-e"])
        .arg(program)
        .arg(format!("{address:#x}"))
        .output();
    let text = String::from_utf8(output.expect("addr2line").stdout).expect("text");
    text.lines().next().expect("a function").to_owned()
}

#[test]
fn a_nameless_runtime_in_the_program_is_passed_over() {
    let bench = Bench::shared();
    let program = bench.build("two_sites.c", Route::Static, &["-O2"]);
    let stripped = bench.path("two_sites");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(&program));
    let ran = bench.run(&stripped, &[], &[]);
    ran.says(0, "").is("/totals/allocs", 3);
    let mut sites = BTreeMap::new();
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        assert_eq!(leak["site_estimated"], true, "{leak:#}");
        assert_eq!(leak["library"], "two_sites");
        let at = leak["site_frame"].as_u64().expect("a site") as usize;
        let offset = leak["stack"][at]["offset"].as_u64().expect("an offset");
        let function = function_at(&program, offset - 1);
        *sites.entry(function).or_insert(0) += leak["bytes"].as_u64().expect("bytes");
    }
    let wanted = BTreeMap::from([("first".into(), 6 * MIB), ("second".into(), MIB)]);
    assert_eq!(sites, wanted);
    let notes = ran.report["notes"].to_string();
    assert!(notes.contains("two_sites has no names"), "{notes}");
}

#[test]
fn with_names_nothing_is_estimated() {
    let bench = Bench::shared();
    let program = bench.build("two_sites.c", Route::Static, &["-O2"]);
    let ran = bench.run(&program, &[], &[]);
    ran.leaks_are(&[
        ("first", 3 * MIB, 1),
        ("first", 3 * MIB, 1),
        ("second", MIB, 1),
    ]);
    for leak in ran.report["leaks"].as_array().expect("leaks") {
        assert_eq!(leak["site_estimated"], false);
    }
}
