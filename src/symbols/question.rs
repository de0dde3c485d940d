//! What is asked of the process that reads other people's files, and what it answers: one line of JSON each.

use super::file::File;
use super::locate::{Locator, Trouble, Wanted};
use oomhook_report::Symbol;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What is asked: the functions at an address of a library.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Question {
    /// The library, by a number of the caller's.
    pub number: usize,
    /// What was recorded of it.
    pub wanted: Wanted,
    /// The address.
    pub address: u64,
    /// Symbol tables alone: reading debug information has failed before.
    pub without_lines: bool,
}

/// What is answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The functions, innermost inlined first.
    pub names: Vec<Name>,
    /// What the user should know.
    pub trouble: Option<Trouble>,
    /// Nothing of this library will ever have a name.
    pub is_final: bool,
}

/// A function, as it is passed on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Name {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
}

impl From<Symbol> for Name {
    fn from(symbol: Symbol) -> Name {
        Name {
            function: symbol.function,
            file: symbol.file,
            line: symbol.line,
        }
    }
}

impl From<Name> for Symbol {
    fn from(name: Name) -> Symbol {
        Symbol {
            function: name.function,
            file: name.file,
            line: name.line,
        }
    }
}

impl From<Trouble> for Answer {
    fn from(trouble: Trouble) -> Answer {
        Answer {
            names: Vec::new(),
            trouble: Some(trouble),
            is_final: true,
        }
    }
}

/// The files that were opened so far.
#[derive(Default)]
pub struct Shelf {
    locator: Locator,
    files: HashMap<usize, Result<File, Trouble>>,
}

impl Shelf {
    /// Looks for files with this.
    pub fn new(locator: Locator) -> Shelf {
        Shelf {
            locator,
            files: HashMap::new(),
        }
    }

    /// Answers a question.
    pub fn answer(&mut self, question: &Question) -> Answer {
        let file = self
            .files
            .entry(question.number)
            .or_insert_with(|| File::open(&self.locator, &question.wanted, question.without_lines));
        match file {
            Ok(file) => {
                let symbols = file.name(question.address);
                Answer {
                    names: symbols.into_iter().map(Name::from).collect(),
                    trouble: file.trouble.clone(),
                    is_final: false,
                }
            }
            Err(trouble) => trouble.clone().into(),
        }
    }
}
