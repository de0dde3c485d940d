//! Looks at what is to be launched: is it there, can it be executed, and will the loader put a library into it?

use super::Failure;
use object::read::elf::FileHeader;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A program that exists and can be executed.
pub struct Program {
    path: PathBuf,
}

/// Commands that start the real work elsewhere, and what to do instead.
const ELSEWHERE: [(&str, &str); 9] = [
    (
        "docker",
        "docker starts the work in a container: put oomhook inside it (`oomhook env` shows the lines)",
    ),
    (
        "podman",
        "podman starts the work in a container: put oomhook inside it (`oomhook env` shows the lines)",
    ),
    (
        "nerdctl",
        "nerdctl starts the work in a container: put oomhook inside it (`oomhook env` shows the lines)",
    ),
    (
        "kubectl",
        "kubectl starts the work in a pod: put oomhook into its image (`oomhook env` shows the lines)",
    ),
    (
        "ssh",
        "ssh starts the work on another machine: run `oomhook run` there",
    ),
    (
        "sudo",
        "sudo drops LD_PRELOAD: write `sudo oomhook run -- CMD`",
    ),
    (
        "su",
        "su drops LD_PRELOAD: run `oomhook run` inside the new shell",
    ),
    (
        "doas",
        "doas drops LD_PRELOAD: write `doas oomhook run -- CMD`",
    ),
    (
        "sbatch",
        "sbatch only queues a job: put `oomhook run` before the command inside the job's script",
    ),
];

/// Finds the program as execvp would.
pub fn find(name: &OsStr) -> Result<Program, Failure> {
    let shown = name.to_string_lossy();
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![PathBuf::from(name)]
    } else {
        let path =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        std::env::split_paths(&path)
            .map(|folder| folder.join(name))
            .collect()
    };
    let mut refused = None;
    for path in candidates {
        let Ok(metadata) = path.metadata() else {
            continue;
        };
        if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
            return match interpreter_of(&path).filter(|interpreter| !interpreter.exists()) {
                Some(interpreter) => Err(Failure {
                    code: 127,
                    text: if interpreter.as_os_str().as_bytes().ends_with(b"\r") {
                        format!(
                            "{}: the first line ends as lines do on Windows, so its interpreter is not found; convert the \
                             script (`sed -i 's/\\r$//' {shown}`)",
                            path.display()
                        )
                    } else {
                        format!(
                            "{} is a script for {}, which is missing: install it, correct the script's first line, or name \
                         an interpreter (as in `oomhook run -- sh {shown}`)",
                            path.display(),
                            interpreter.display()
                        )
                    },
                }),
                None => Ok(Program { path }),
            };
        }
        refused.get_or_insert((path, metadata.file_type()));
    }
    Err(match refused {
        Some((path, kind)) => Failure {
            code: 126,
            text: match () {
                () if kind.is_dir() => format!("{} is a folder, no program", path.display()),
                () if !kind.is_file() => format!("{} is no file, and no program", path.display()),
                () => format!(
                    "{} is not executable: `chmod +x` it{}",
                    path.display(),
                    by_interpreter(&path, &shown)
                ),
            },
        },
        None => Failure {
            code: 127,
            text: format!("{shown}: no such program; check the name and PATH"),
        },
    })
}

/// How else a script can be started, by the ending of its name.
fn by_interpreter(path: &Path, shown: &str) -> String {
    let interpreter = match path.extension().and_then(OsStr::to_str) {
        Some("py") => "python",
        Some("sh") => "sh",
        _ => return String::new(),
    };
    format!(", or name its interpreter (as in `oomhook run -- {interpreter} {shown}`)")
}

impl Program {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the kernel loads: the interpreter of a script, else the file itself.
    pub fn image(&self) -> PathBuf {
        interpreter_of(&self.path).unwrap_or_else(|| self.path.clone())
    }

    /// The sanitizers' runtimes that the program is linked with.
    pub fn sanitizers(&self) -> Vec<String> {
        let mut names = needs(&self.image()).map_or_else(Vec::new, |needs| needs.libraries);
        names.retain(|name| SANITIZERS.iter().any(|known| name.starts_with(known)));
        names
    }

    /// What to do instead, if it only starts the work elsewhere.
    pub fn elsewhere(&self) -> Option<&'static str> {
        let name = self.path.file_name().unwrap_or_default();
        let mut known = ELSEWHERE.iter();
        known
            .find(|(known, _)| name == OsStr::new(known))
            .map(|(_, advice)| *advice)
    }

    /// Reasons why the library will not get into this program, or not see its work. It is run all the same.
    pub fn warnings(&self, command: &[OsString]) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.elsewhere().map(str::to_owned));
        let shown = command[0].to_string_lossy();
        if let Ok(metadata) = self.path.metadata()
            && metadata.mode() & 0o6000 != 0
        {
            warnings.push(format!(
                "{shown} is setuid or setgid: the loader ignores LD_PRELOAD there, so nothing will be recorded"
            ));
        }
        warnings.extend(cannot_start(&self.path, &shown));
        let image = self.image();
        if let Some(machine) = other_machine(&image) {
            warnings.push(format!(
                "{shown} is built for {machine}, and the library for {}: nothing will be recorded; it takes a library built \
                 for the same",
                std::env::consts::ARCH
            ));
        }
        let needs = needs(&image);
        if needs.as_ref().is_some_and(|needs| needs.uses_musl) {
            warnings.push(format!(
                "{shown} runs on musl, and the library on glibc: nothing will be recorded; take a build for glibc (another \
                 image of the container, say)"
            ));
        }
        if needs.is_some_and(|needs| needs.is_static) {
            warnings.push(format!(
                "{shown} is statically linked: LD_PRELOAD has no effect there, so nothing will be recorded; link it \
                 dynamically (a static CUDA runtime is fine)"
            ));
        }
        warnings
    }
}

/// The interpreter of a script (`#!`), else nothing.
pub fn interpreter_of(path: &Path) -> Option<PathBuf> {
    let line = first_line(path)?;
    let interpreter = line.split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    (!interpreter.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(interpreter)))
}

/// What a script's first line gives to its interpreter.
pub fn argument_of_interpreter(path: &Path) -> Option<OsString> {
    let line = first_line(path)?;
    let at = line.iter().position(|byte| matches!(byte, b' ' | b'\t'))?;
    let argument = line[at..].trim_ascii();
    (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned())
}

/// A script's first line, without its `#!`.
fn first_line(path: &Path) -> Option<Vec<u8>> {
    let mut start = [0u8; 256];
    let length = File::open(path)
        .and_then(|mut file| file.read(&mut start))
        .unwrap_or(0);
    let line = start[..length].strip_prefix(b"#!")?;
    let mut line = line.split(|byte| *byte == b'\n').next()?;
    // The kernel knows no other blanks.
    while let Some((b' ' | b'\t', rest)) = line.split_first() {
        line = rest;
    }
    while let Some((b' ' | b'\t', rest)) = line.split_last() {
        line = rest;
    }
    Some(line.to_vec())
}

/// Why the kernel will not start a file that may be executed. What it is by its contents can only be said if it can be read.
fn cannot_start(path: &Path, shown: &str) -> Option<String> {
    /// The header of a 64-bit ELF file; of a 32-bit one, 52.
    const HEADER: usize = 52;
    let mut start = Vec::new();
    let file = File::open(path).ok()?;
    file.take(64).read_to_end(&mut start).ok()?;
    if start.starts_with(b"\x7fELF") {
        let is_whole = start.len() >= HEADER && (start[4] != 2 || needs(path).is_some());
        return (!is_whole).then(|| {
            format!("{shown} is damaged: an ELF file that ends early, so it cannot be started")
        });
    }
    if start.starts_with(b"#!") {
        let interpreter = interpreter_of(path);
        let Some(interpreter) = interpreter else {
            return Some(format!(
                "{shown}: the first line names no interpreter (`#!` and nothing behind it), so it cannot be started"
            ));
        };
        let is_itself = interpreter.canonicalize().ok() == path.canonicalize().ok();
        return is_itself.then(|| {
            format!(
                "{shown} names itself as its interpreter in the first line, so it cannot be started"
            )
        });
    }
    Some(format!(
        "{shown} is neither a program nor a script with `#!` and an interpreter in its first line, so only a shell can start \
         it: write `oomhook run -- sh {shown}`"
    ))
}

/// The machine that an ELF file is built for, if it is another one than this library's.
fn other_machine(path: &Path) -> Option<String> {
    const OURS: u16 = if cfg!(target_arch = "aarch64") {
        object::elf::EM_AARCH64.0
    } else {
        object::elf::EM_X86_64.0
    };
    let mut start = [0u8; 20];
    File::open(path).ok()?.read_exact(&mut start).ok()?;
    start.strip_prefix(b"\x7fELF")?;
    let (has_64_bits, is_little) = (start[4] == 2, start[5] == 1);
    let number = [start[18], start[19]];
    let machine = match is_little {
        true => u16::from_le_bytes(number),
        false => u16::from_be_bytes(number),
    };
    if has_64_bits && is_little && machine == OURS {
        return None;
    }
    Some(match machine {
        3 => "32-bit x86".to_owned(),
        40 => "32-bit ARM".to_owned(),
        62 => "x86_64".to_owned(),
        183 => "aarch64".to_owned(),
        other => format!("another machine (ELF number {other})"),
    })
}

/// What an ELF program asks of the loader.
pub struct Needs {
    /// No loader at all.
    is_static: bool,
    /// The loader is musl's.
    uses_musl: bool,
    /// These libraries.
    pub libraries: Vec<String>,
}

/// Runtimes of sanitizers that must be the first library of a process.
const SANITIZERS: [&str; 8] = [
    "libasan.so",
    "libhwasan.so",
    "libtsan.so",
    "liblsan.so",
    "libclang_rt.asan",
    "libclang_rt.hwasan",
    "libclang_rt.tsan",
    "libclang_rt.lsan",
];

/// Reads it; `None` where the file is no 64-bit ELF.
pub fn needs(path: &Path) -> Option<Needs> {
    type Elf = object::elf::FileHeader64<object::Endianness>;
    use object::read::elf::{Dyn, ProgramHeader};
    let data = object::ReadCache::new(File::open(path).ok()?);
    let header = Elf::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    let has = |kind| segments.iter().any(|one| one.p_type(endian) == kind);
    let loader = segments
        .iter()
        .find_map(|one| one.interpreter(endian, &data).ok().flatten());
    let is_musl = |loader: &[u8]| loader.windows(7).any(|part| part == b"ld-musl");
    let mut needs = Needs {
        is_static: !has(object::elf::PT_INTERP),
        uses_musl: loader.is_some_and(is_musl),
        libraries: Vec::new(),
    };
    let sections = header.sections(endian, &data).ok();
    let dynamic = sections.and_then(|sections| {
        let (entries, link) = sections.dynamic(endian, &data).ok()??;
        let strings = sections.strings(endian, &data, link).ok()?;
        Some((entries, strings))
    });
    for entry in dynamic.iter().flat_map(|(entries, _)| entries.iter()) {
        if entry.tag(endian) == object::elf::DT_NEEDED
            && let Some((_, strings)) = &dynamic
            && let Ok(name) = entry.string(endian, *strings)
        {
            needs
                .libraries
                .push(String::from_utf8_lossy(name).into_owned());
        }
    }
    Some(needs)
}
