//! Names of functions within a given time and without the loader: read from the symbol tables of the files. For the moment
//! when memory runs out, while the program waits for its error, and for the writer, which must not wait for the loader.

use super::shown;
use object::NativeEndian;
use object::elf::{
    FileHeader64, NT_GNU_BUILD_ID, SHT_DYNSYM, SHT_NOTE, SHT_SYMTAB, STT_FUNC, SectionType,
};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::read::{ReadCache, ReadRef};
use oomhook_report::symbols::{Symbol, Symbols};
use oomhook_trace::record::Library;
use std::collections::HashMap;
use std::fs::File;
use std::time::Instant;

type Header = FileHeader64<NativeEndian>;

/// A larger table of all symbols is passed over for the one of exported symbols.
const LARGEST_TABLE: u64 = 8 << 20;

/// Names addresses until a deadline.
pub struct Quick {
    deadline: Instant,
    files: HashMap<u32, Option<Table>>,
}

/// The functions of a file.
struct Table {
    file: ReadCache<File>,
    /// The table of symbols that they are from.
    kind: SectionType,
    functions: Vec<Function>,
}

/// Start, size and number of the symbol; sorted by start.
type Function = (u64, u64, u32);

impl Quick {
    /// Nothing is looked up any more after the deadline.
    pub fn until(deadline: Instant) -> Quick {
        Quick {
            deadline,
            files: HashMap::new(),
        }
    }
}

impl Symbols for Quick {
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol> {
        let Some(library) = library.filter(|_| Instant::now() < self.deadline) else {
            return Vec::new();
        };
        let table = self
            .files
            .entry(library.id)
            .or_insert_with(|| open(library));
        let name = table.as_ref().and_then(|table| table.name_at(address));
        name.map_or(Vec::new(), |name| {
            vec![Symbol {
                function: Some(name),
                file: None,
                line: None,
            }]
        })
    }
}

/// The file's functions, if it is still the one that was loaded.
fn open(library: &Library) -> Option<Table> {
    let file = ReadCache::new(File::open(&library.path).ok()?);
    if build_id(&file).is_some_and(|id| id != library.build_id) {
        return None;
    }
    let (kind, functions) = functions(&file)?;
    Some(Table {
        file,
        kind,
        functions,
    })
}

fn build_id(file: &ReadCache<File>) -> Option<Vec<u8>> {
    let header = Header::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    for section in sections.iter() {
        if section.sh_type(endian) != SHT_NOTE {
            continue;
        }
        let Ok(Some(mut notes)) = section.notes(endian, file) else {
            continue;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(endian) == NT_GNU_BUILD_ID {
                return Some(note.desc().to_vec());
            }
        }
    }
    None
}

fn functions(file: &ReadCache<File>) -> Option<(SectionType, Vec<Function>)> {
    let header = Header::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let is_small = |kind| {
        let mut all = sections.iter();
        let found = all.find(|section| section.sh_type(endian) == kind);
        let size = found.map_or(0, |section| section.sh_size(endian));
        (1..=LARGEST_TABLE).contains(&size)
    };
    let kind = if is_small(SHT_SYMTAB) {
        SHT_SYMTAB
    } else {
        SHT_DYNSYM
    };
    let symbols = sections.symbols(endian, file, kind).ok()?;
    let mut functions: Vec<Function> = (0u32..)
        .zip(symbols.symbols())
        .filter(|(_, symbol)| symbol.st_type() == STT_FUNC && symbol.st_size(endian) > 0)
        .map(|(number, symbol)| (symbol.st_value(endian), symbol.st_size(endian), number))
        .collect();
    functions.sort_unstable();
    Some((kind, functions))
}

impl Table {
    fn name_at(&self, address: u64) -> Option<String> {
        let after = self.functions.partition_point(|one| one.0 <= address);
        let (start, size, number) = *self.functions.get(after.checked_sub(1)?)?;
        if address - start >= size {
            return None;
        }
        let header = Header::parse(&self.file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, &self.file).ok()?;
        let symbols = sections.symbols(endian, &self.file, self.kind).ok()?;
        let symbol = symbols.symbols().get(number as usize)?;
        let name = symbol.name(endian, symbols.strings()).ok()?;
        Some(shown(&backtrace::SymbolName::new(name)))
    }
}

/// What the reader of a file must be able to do; named so that a change of the crate shows here.
const _: fn(&ReadCache<File>) = |file| {
    fn is_read_ref<'a>(_: impl ReadRef<'a>) {}
    is_read_ref(file);
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn this_program() -> (Library, u64) {
        let mut found = (Library::default_for_test(), 0);
        let here = this_program as fn() -> (Library, u64) as usize as u64;
        for object in super::super::libraries::loaded_now() {
            if (object.start..object.end).contains(&here) {
                found.0.path = std::env::current_exe()
                    .expect("a path")
                    .to_string_lossy()
                    .into_owned();
                found.0.build_id = object.build_id.clone();
                found.1 = here.wrapping_sub(object.bias);
            }
        }
        found
    }

    trait ForTest {
        fn default_for_test() -> Self;
    }

    impl ForTest for Library {
        fn default_for_test() -> Library {
            Library {
                id: 1,
                path: String::new(),
                build_id: Vec::new(),
                start: 0,
                end: 0,
                bias: 0,
                time_ns: 0,
            }
        }
    }

    #[test]
    fn functions_of_this_program_have_names_until_the_deadline() {
        let (library, address) = this_program();
        let soon = Instant::now() + Duration::from_secs(60);
        let named = Quick::until(soon).resolve(Some(&library), address);
        let dynamic_only = named.is_empty();
        // A test program's table of all symbols may be larger than what is read.
        if !dynamic_only {
            let name = named[0].function.as_deref().unwrap_or_default();
            assert!(name.contains("this_program"), "{name}");
        }
        let late = Quick::until(Instant::now()).resolve(Some(&library), address);
        assert!(late.is_empty());
        let mut other = library.clone();
        other.build_id = vec![1, 2, 3];
        let wrong = Quick::until(soon).resolve(Some(&other), address);
        assert!(wrong.is_empty() || library.build_id.is_empty());
    }

    #[test]
    fn exported_functions_of_libc_have_names() {
        let address = libc::getpid as *const () as usize as u64;
        let objects = super::super::libraries::loaded_now();
        let object = objects
            .iter()
            .find(|object| (object.start..object.end).contains(&address))
            .expect("libc");
        let library = Library {
            id: 2,
            path: object.path.clone(),
            build_id: object.build_id.clone(),
            start: object.start,
            end: object.end,
            bias: object.bias,
            time_ns: 0,
        };
        let soon = Instant::now() + Duration::from_secs(60);
        let named = Quick::until(soon).resolve(Some(&library), address - object.bias);
        let name = named.first().and_then(|symbol| symbol.function.clone());
        assert!(
            name.as_deref().is_some_and(|name| name.ends_with("getpid")),
            "{name:?}"
        );
    }
}
