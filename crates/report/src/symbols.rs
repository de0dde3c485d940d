//! What the outside must know: address to function, file, line.

use oomhook_trace::record::Library;

/// One function at an address; several if others were inlined there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Demangled name.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
}

/// Names addresses.
pub trait Symbols {
    /// The functions at an ELF address of a library, innermost inlined first; empty if nothing is known. The address
    /// lies inside the call already (callers have subtracted one from the return address).
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol>;

    /// What the reader should be told about the names (a file that is not the one that ran).
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Knows no name: frames are libraries and offsets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSymbols;

impl Symbols for NoSymbols {
    fn resolve(&mut self, _library: Option<&Library>, _address: u64) -> Vec<Symbol> {
        Vec::new()
    }
}
