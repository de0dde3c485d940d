//! `oomhook env`: the lines name the library by its full path, and a missing library is said plainly.

use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn env(command: &Path, library: Option<&Path>) -> (i32, String, String) {
    let mut run = Command::new(command);
    run.arg("env").env_remove("OOMHOOK_LIB");
    if let Some(library) = library {
        run.env("OOMHOOK_LIB", library);
    }
    let output = run.output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().expect("an exit code");
    (code, text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_library_is_found_by_variable_beside_the_command_and_in_lib() {
    let command = Path::new(env!("CARGO_BIN_EXE_oomhook"));
    let folder = TempDir::new().expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    std::fs::create_dir_all(root.join("bin")).expect("a folder");
    std::fs::create_dir_all(root.join("lib/oomhook")).expect("a folder");
    let copy = root.join("bin/oomhook");
    std::fs::copy(command, &copy).expect("a copy");

    let (code, out, err) = env(&copy, None);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(
        err.starts_with("oomhook env: liboomhook.so is missing"),
        "{err}"
    );
    assert!(err.contains("OOMHOOK_LIB"), "{err}");

    // The nearest wins.
    for place in ["lib/oomhook", "lib", "bin"] {
        let library = root.join(place).join("liboomhook.so");
        std::fs::write(&library, b"").expect("a file");
        let (code, out, err) = env(&copy, None);
        assert_eq!((code, err.as_str()), (0, ""));
        let export = format!(
            "export LD_PRELOAD={}${{LD_PRELOAD:+:$LD_PRELOAD}}\n",
            library.display()
        );
        assert!(out.contains(&export), "{out}");
        for word in ["srun", "docker run", "Kubernetes"] {
            assert!(out.contains(word), "{word}");
        }
    }
    let other = root.join("other.so");
    std::fs::write(&other, b"").expect("a file");
    let (_, out, _) = env(&copy, Some(&other));
    assert!(
        out.contains(&format!("LD_PRELOAD={}$", other.display())),
        "{out}"
    );
    let (code, _, err) = env(&copy, Some(&root.join("none.so")));
    assert_eq!(code, 2);
    assert!(err.contains("none.so is no file"), "{err}");
}
