//! Address to function, file and line, from the files on this machine: debug information with inlined functions where
//! there is some, symbol tables otherwise. A file that is not the one that ran is not asked.

mod table;

use oomhook_report::{Symbol, Symbols, sentences};
use oomhook_trace::record::Library;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use table::Table;

/// Names addresses by the files of the libraries.
#[derive(Default)]
pub struct Files {
    numbers: HashMap<(String, Vec<u8>), usize>,
    files: Vec<Option<File>>,
    known: HashMap<(usize, u64), Vec<Symbol>>,
    notes: Vec<String>,
}

/// What is known of one file.
struct File {
    debug: Option<addr2line::Loader>,
    table: Table,
}

impl Symbols for Files {
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol> {
        let Some(library) = library else {
            return Vec::new();
        };
        let number = self.number(library);
        if let Some(known) = self.known.get(&(number, address)) {
            return known.clone();
        }
        let file = self.files.get(number).and_then(Option::as_ref);
        let symbols = file.map(|file| file.name(address)).unwrap_or_default();
        self.known.insert((number, address), symbols.clone());
        symbols
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

impl Files {
    fn number(&mut self, library: &Library) -> usize {
        let key = (library.path.clone(), library.build_id.clone());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let file = match open(library) {
            Ok(file) => Some(file),
            Err(Unnamed::OtherBuild) => {
                self.notes.push(sentences::other_build(&library.path));
                None
            }
            Err(Unnamed::Missing) => None,
        };
        self.files.push(file);
        self.numbers.insert(key, self.files.len() - 1);
        self.files.len() - 1
    }
}

/// Why a library's addresses stay without names.
enum Unnamed {
    /// There is no such file, or it cannot be read.
    Missing,
    /// There is another file in its place.
    OtherBuild,
}

fn open(library: &Library) -> Result<File, Unnamed> {
    let path = Path::new(&library.path);
    // The loader names things that are no files (linux-vdso.so.1).
    if !path.is_absolute() {
        return Err(Unnamed::Missing);
    }
    let file = std::fs::File::open(path).map_err(|_| Unnamed::Missing)?;
    let read = Table::read(file).ok_or(Unnamed::Missing)?;
    if !library.build_id.is_empty() && read.build_id != library.build_id {
        return Err(Unnamed::OtherBuild);
    }
    // Debug information that was stripped into a file of its own is found by build-id.
    let separate = debug_file(&read.build_id).filter(|path| path.exists());
    let debug = addr2line::Loader::new(path).ok();
    let mut table = read;
    if !table.is_complete
        && let Some(full) = separate.and_then(|path| std::fs::File::open(path).ok())
        && let Some(full) = Table::read(full)
    {
        table = full;
    }
    Ok(File { debug, table })
}

fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug").into())
}

impl File {
    fn name(&self, address: u64) -> Vec<Symbol> {
        let mut symbols = self.inlined(address);
        let symbol = self.table.find(address).map(demangled);
        match symbols.last_mut() {
            // Debug information may have lines and no function (assembly, -gmlt), or a function's last name alone
            // (Rust's line tables): the symbol table has it with its scope.
            Some(outermost) => {
                let last = outermost.function.as_deref().unwrap_or_default();
                if symbol
                    .as_deref()
                    .is_some_and(|full| has_last_name(full, last))
                {
                    outermost.function = symbol;
                }
            }
            None => symbols.extend(symbol.map(|function| Symbol {
                function: Some(function),
                ..Symbol::default()
            })),
        }
        symbols
    }

    fn inlined(&self, address: u64) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        let Some(debug) = &self.debug else {
            return symbols;
        };
        let Ok(mut frames) = debug.find_frames(address) else {
            return symbols;
        };
        while let Ok(Some(frame)) = frames.next() {
            let location = frame.location;
            symbols.push(Symbol {
                function: frame
                    .function
                    .and_then(|name| Some(demangled(&name.raw_name().ok()?))),
                file: location
                    .as_ref()
                    .and_then(|location| location.file.map(str::to_owned)),
                line: location.and_then(|location| location.line),
            });
        }
        symbols
    }
}

/// True if `full` is `last` with its scope before it (any name, if `last` is empty).
fn has_last_name(full: &str, last: &str) -> bool {
    last.is_empty()
        || full
            .strip_suffix(last)
            .is_some_and(|scope| scope.ends_with("::"))
}

fn demangled(name: &str) -> String {
    // Versions are no part of a name (`cudaMalloc@@libcudart.so.13`).
    let name = name.split('@').next().unwrap_or(name);
    // A C function may be called `i` or `St`, which are types to a demangler of C++.
    let is_mangled = ["_Z", "__Z", "_R"]
        .iter()
        .any(|start| name.starts_with(start));
    if is_mangled {
        addr2line::demangle_auto(name.into(), None).into_owned()
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::demangled;

    #[test]
    fn names_of_c_stay_what_they_are() {
        for name in ["i", "f", "St", "w", "main", "a_Z1fv"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_Z4growi"), "grow(int)");
        assert_eq!(demangled("_ZN5cache4growEv@@V1"), "cache::grow()");
        assert_eq!(demangled("cudaMalloc@@libcudart.so.13"), "cudaMalloc");
    }
}
