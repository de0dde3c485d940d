//! Address to function, file and line, by build-id: debug information with inlined functions where there is some, symbol
//! tables otherwise. A file that is not the one that ran is not asked.

mod elf;
mod file;
mod lines;
mod locate;
mod name;
mod perf;
mod places;
mod progress;
mod question;
mod reader;
mod serve;
mod table;
mod told;

use locate::{Trouble, Wanted};
use oomhook_report::{Symbol, Symbols};
use oomhook_trace::Header;
use oomhook_trace::record::Library;
use perf::{PerfMap, Process, Unused};
pub use places::Places;
use progress::Progress;
use question::Question;
use reader::Reader;
pub use serve::serve;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// Names addresses by the files of the libraries, and those of code made at run time by the process's own map.
#[derive(Default)]
pub struct Files {
    places: Places,
    reader: Reader,
    progress: Progress,
    numbers: HashMap<Key, usize>,
    libraries: Vec<Known>,
    process: Option<Process>,
    code: Option<Result<PerfMap, Unused>>,
    asked: BTreeSet<usize>,
}

/// What tells libraries apart: path, build-id, extent, and for those without build-id the beginning of the process.
type Key = (String, Vec<u8>, u64, Option<SystemTime>);

/// What is known of a library.
struct Known {
    wanted: Wanted,
    path: String,
    names: HashMap<u64, Vec<Symbol>>,
    trouble: Option<Trouble>,
    // Nothing to be expected of it.
    is_silent: bool,
}

impl Symbols for Files {
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol> {
        match library {
            Some(library) => {
                let number = self.number(library);
                self.asked.insert(number);
                self.name(number, address)
            }
            None => self.made_at_run_time(address),
        }
    }

    fn notes(&mut self) -> Vec<String> {
        self.progress.clear();
        let asked = self.asked.iter().filter_map(|number| {
            let known = self.libraries.get(*number)?;
            Some((known.path.as_str(), known.trouble.as_ref()?))
        });
        let mut notes = told::notes(asked);
        if let Some(Err(unused)) = &self.code {
            notes.extend(told::unused_map(unused));
        }
        notes
    }
}

impl Files {
    /// Looks in these places as well.
    pub fn new(places: Places) -> Files {
        Files {
            reader: Reader::new(places.clone()),
            places,
            ..Files::default()
        }
    }

    /// What comes is of this process; it lasted so long if it has ended.
    pub fn begin(&mut self, header: &Header, lasted: Option<Duration>) {
        self.process = Some(Process::of(header, lasted));
        self.code = None;
        self.asked.clear();
    }

    fn number(&mut self, library: &Library) -> usize {
        let began = self.process.as_ref().map(|process| process.began);
        let since = began.filter(|_| library.build_id.is_empty());
        let span = library.end.saturating_sub(library.start);
        let key = (library.path.clone(), library.build_id.clone(), span, since);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        // A file that was deleted while it ran may have been put there again.
        let path = library.path.as_str();
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        self.libraries.push(Known {
            wanted: Wanted {
                path: PathBuf::from(path),
                build_id: library.build_id.clone(),
                span,
                since: since.unwrap_or_else(SystemTime::now),
            },
            path: path.to_owned(),
            names: HashMap::new(),
            trouble: None,
            // The loader names things that are no files (linux-vdso.so.1). What was opened by a path that begins in some
            // folder may lie in the current one: its build-id tells.
            is_silent: !path.contains('/'),
        });
        self.numbers.insert(key, self.libraries.len() - 1);
        self.libraries.len() - 1
    }

    fn name(&mut self, number: usize, address: u64) -> Vec<Symbol> {
        let Some(known) = self.libraries.get_mut(number) else {
            return Vec::new();
        };
        if known.is_silent {
            return Vec::new();
        }
        if let Some(names) = known.names.get(&address) {
            return names.clone();
        }
        let began = Instant::now();
        let question = Question {
            number,
            wanted: known.wanted.clone(),
            address,
            without_lines: false,
        };
        let frames = known.names.len() + 1;
        let progress = &mut self.progress;
        let answer = self.reader.ask(question, || {
            progress.tell(&known.path, frames, began);
        });
        progress.tell(&known.path, frames, began);
        progress.took(began.elapsed());
        known.is_silent = answer.is_final;
        known.trouble = answer.trouble;
        let symbols: Vec<Symbol> = answer.names.into_iter().map(Symbol::from).collect();
        known.names.insert(address, symbols.clone());
        symbols
    }

    fn made_at_run_time(&mut self, address: u64) -> Vec<Symbol> {
        let Some(process) = &self.process else {
            return Vec::new();
        };
        let code = self
            .code
            .get_or_insert_with(|| PerfMap::of(process, &self.places));
        let name = code.as_ref().ok().and_then(|map| map.find(address));
        let symbol = name.map(|name| Symbol {
            function: Some(name::demangled(name)),
            ..Symbol::default()
        });
        symbol.into_iter().collect()
    }
}
