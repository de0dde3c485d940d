//! What names a library's addresses: its debug information and its symbol table together.

use super::lines::Lines;
use super::locate::{Locator, Trouble, Wanted, shown};
use super::name::demangled;
use super::table::Table;
use oomhook_report::Symbol;
use oomhook_report::attribution::bare_name;

/// A library that can be asked.
pub struct File {
    lines: Option<Lines>,
    table: Option<Table>,
    /// What the user should know of its names.
    pub trouble: Option<Trouble>,
}

impl File {
    /// Opens what there is; `without_lines`: debug information is left alone.
    ///
    /// # Errors
    /// When nothing names the library.
    pub fn open(locator: &Locator, wanted: &Wanted, without_lines: bool) -> Result<File, Trouble> {
        let found = locator.find(wanted)?;
        let mut trouble = found.trouble;
        let elves = || found.debug.iter().chain(&found.binary);
        let mut lines = None;
        let debug = elves().find(|elf| elf.has_debug);
        if let Some(elf) = debug.filter(|_| !without_lines) {
            if Lines::are_too_large(elf) {
                trouble = Some(Trouble::TooLarge(shown(&elf.path)));
            } else {
                lines = Lines::open(elf, found.common.as_deref());
                if lines.is_none() {
                    trouble = Some(Trouble::Damaged(shown(&elf.path)));
                }
            }
        }
        // All functions, if one of the files has them; else those that are exported.
        let full = elves().filter(|elf| elf.symtab.is_some());
        let exported = elves().filter(|elf| elf.symtab.is_none());
        let mut table = None;
        for elf in full.chain(exported) {
            match Table::read(elf) {
                Ok(Some(read)) => {
                    table = Some(read);
                    break;
                }
                Ok(None) => {}
                Err(_) => trouble = Some(Trouble::Damaged(shown(&elf.path))),
            }
        }
        Ok(File {
            lines,
            table,
            trouble,
        })
    }

    /// The functions at an address, innermost inlined first.
    pub fn name(&self, address: u64) -> Vec<Symbol> {
        let lines = self.lines.as_ref();
        let mut symbols = lines.map_or_else(Vec::new, |lines| lines.find(address));
        let table = self.table.as_ref().and_then(|table| table.find(address));
        let full = table.map(|name| demangled(&name));
        match symbols.last_mut() {
            // Debug information may have lines and no function (assembly, -gmlt), or a function's last name alone
            // (Rust's line tables): the symbol table has it with its scope.
            Some(outermost) => {
                let last = outermost.function.as_deref().unwrap_or_default();
                if full
                    .as_deref()
                    .is_some_and(|full| has_last_name(full, last))
                {
                    outermost.function = full;
                }
            }
            None => symbols.extend(full.map(|function| Symbol {
                function: Some(function),
                ..Symbol::default()
            })),
        }
        symbols
    }
}

/// True if `full` is `last` with its scope before it or its parameters behind it (any name, if `last` is empty).
fn has_last_name(full: &str, last: &str) -> bool {
    let ends = |full: &str| {
        full.strip_suffix(last)
            .is_some_and(|scope| scope.ends_with("::"))
    };
    let bare = bare_name(full);
    last.is_empty() || ends(full) || ends(bare) || (bare == last && full != last)
}

#[cfg(test)]
mod tests {
    use super::has_last_name;

    #[test]
    fn scope_and_parameters_are_added_and_nothing_else() {
        assert!(has_last_name("oomhook::cli::run", "run"));
        assert!(has_last_name(
            "app::(anonymous namespace)::fill(int)",
            "fill"
        ));
        assert!(has_last_name("fill(int)", "fill"));
        assert!(has_last_name("anything(int)", ""));
        for (full, last) in [
            ("run", "run"),
            ("rerun", "run"),
            ("a::rerun(int)", "run"),
            ("a::run(int)", "grow"),
        ] {
            assert!(!has_last_name(full, last), "{full} {last}");
        }
    }
}
