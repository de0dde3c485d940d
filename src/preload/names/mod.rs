//! Function, file and line in this very process, for the text report at its end: what the `backtrace` crate finds in the
//! files of the loaded objects. While the process runs on, names come from `quick`.

mod quick;

pub use quick::Quick;

use super::libraries::{self, Object};
use oomhook_report::symbols::{Symbol, Symbols};
use oomhook_trace::record::Library;
use std::ffi::c_void;

/// Names addresses of this process.
pub struct InProcess {
    loaded: Vec<Object>,
}

impl InProcess {
    /// Looks at what is loaded now: an address in a library that has gone since must not get the name of whatever lies
    /// there today.
    pub fn new() -> InProcess {
        InProcess {
            loaded: libraries::loaded_now(),
        }
    }

    fn is_loaded(&self, library: &Library) -> bool {
        self.loaded.iter().any(|object| {
            (object.start, object.end, &object.build_id)
                == (library.start, library.end, &library.build_id)
        })
    }
}

impl Symbols for InProcess {
    fn resolve(&mut self, library: Option<&Library>, address: u64) -> Vec<Symbol> {
        if library.is_some_and(|library| !self.is_loaded(library)) {
            return Vec::new();
        }
        let bias = library.map_or(0, |library| library.bias);
        // The crate takes return addresses and subtracts one itself; here that has been done.
        let address = address.wrapping_add(bias).wrapping_add(1) as usize;
        let mut symbols = Vec::new();
        backtrace::resolve(
            std::ptr::without_provenance_mut::<c_void>(address),
            |found| {
                symbols.push(Symbol {
                    function: found.name().map(|name| shown(&name)),
                    file: found
                        .filename()
                        .map(|path| path.to_string_lossy().into_owned()),
                    line: found.lineno(),
                });
            },
        );
        symbols
    }
}

/// The demangled name, without the hash that Rust puts behind.
fn shown(name: &backtrace::SymbolName<'_>) -> String {
    // Only what says that it is mangled: `i` is a fine name for a C function, and `int` as a mangled one.
    match name.as_str() {
        Some(plain) if !plain.starts_with("_Z") && !plain.starts_with("_R") => plain.to_owned(),
        _ => format!("{name:#}"),
    }
}
