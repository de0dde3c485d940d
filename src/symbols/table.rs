//! The functions of a file by their address ranges. An address in none of them has no name: the nearest symbol below
//! would be a guess.

use object::{Object, ObjectSymbol, ObjectSymbolTable, ReadCache, SymbolKind};
use std::fs::File;

/// Functions, sorted by address.
pub struct Table {
    symbols: Vec<(u64, u64, String)>,
    /// The file's build-id; empty if it has none.
    pub build_id: Vec<u8>,
    /// It has all functions, not only the exported ones.
    pub is_complete: bool,
}

impl Table {
    /// Reads a file's symbols; `None` if it is no object file.
    pub fn read(file: File) -> Option<Table> {
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache).ok()?;
        let build_id = object
            .build_id()
            .ok()
            .flatten()
            .unwrap_or_default()
            .to_vec();
        let full = object
            .symbol_table()
            .filter(|table| table.symbols().next().is_some());
        let is_complete = full.is_some();
        let mut symbols = Vec::new();
        if let Some(table) = full.or_else(|| object.dynamic_symbol_table()) {
            let functions = table.symbols().filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.size() > 0 && symbol.is_definition()
            });
            symbols.extend(functions.filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some((symbol.address(), symbol.size(), name))
            }));
        }
        symbols.sort_unstable();
        // Of several names of one function the last (exported ones are no worse than others) would do as well.
        symbols.dedup_by_key(|(address, ..)| *address);
        Some(Table {
            symbols,
            build_id,
            is_complete,
        })
    }

    /// The function that covers an address.
    pub fn find(&self, address: u64) -> Option<&str> {
        let at = self
            .symbols
            .partition_point(|(start, ..)| *start <= address)
            .checked_sub(1)?;
        let (start, size, name) = &self.symbols[at];
        (address - start < *size).then_some(name.as_str())
    }
}
