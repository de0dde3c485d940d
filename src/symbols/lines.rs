//! Debug information: file, line and the functions that were inlined.

use super::elf::Elf;
use super::name::demangled;
use addr2line::Loader;
use oomhook_report::Symbol;
use std::path::Path;

/// The debug information of a file.
pub struct Lines(Loader);

/// Packed debug information may take so much memory (what is not packed is mapped, and takes none of its own).
const MOST_UNPACKED: u64 = 4 << 30;
/// No compiler inlines this deep.
const DEEPEST: usize = 256;

impl Lines {
    /// Opens debug information; `None` if it is damaged.
    pub fn open(elf: &Elf, common: Option<&Path>) -> Option<Lines> {
        Loader::new_with_sup(&elf.path, common).ok().map(Lines)
    }

    /// True if a file's debug information is more than this machine should take in.
    pub fn are_too_large(elf: &Elf) -> bool {
        elf.unpacked > MOST_UNPACKED
    }

    /// The functions at an address, innermost inlined first. What is damaged ends the answer.
    pub fn find(&self, address: u64) -> Vec<Symbol> {
        let mut symbols = Vec::new();
        let Ok(mut frames) = self.0.find_frames(address) else {
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
            if symbols.len() == DEEPEST {
                break;
            }
        }
        symbols
    }
}
