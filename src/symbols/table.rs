//! The functions of a file by their address ranges. An address in none of them has no name: the nearest symbol below
//! would be a guess. Names stay in the file until one is asked for: a large library has hundreds of thousands.

use super::elf::{Elf, Place};
use object::elf::{
    SHN_UNDEF, STB_LOCAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, SymbolBind, SymbolType,
};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Functions, sorted by address.
#[derive(Debug)]
pub struct Table {
    file: File,
    place: Place,
    functions: Vec<Function>,
}

/// A function in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Function {
    start: u64,
    end: u64,
    /// The highest end of this and all before it: how far back a function may lie that covers an address.
    reach: u64,
    /// Offset of its name among the names.
    name: u32,
    /// Of several names of one function the highest is taken: exported before weak before local.
    rank: u8,
}

/// Bytes of a symbol in the file.
const SYMBOL: usize = 24;
/// A file with more symbols than this is damaged.
const MOST_SYMBOLS: u64 = 16 << 20;
/// Longer names are cut here; what is shown is shorter still.
const LONGEST_NAME: usize = 64 << 10;
/// Functions that lie in others (hand-written assembly) are looked for among so many.
const NEAR: usize = 64;

impl Table {
    /// Reads a file's functions: all of them if the file has them, else the exported ones. `None` if there are none.
    ///
    /// # Errors
    /// When the table is not where the file says.
    pub fn read(elf: &Elf) -> io::Result<Option<Table>> {
        let Some(place) = elf.symtab.or(elf.dynsym) else {
            return Ok(None);
        };
        let file = elf.file.try_clone()?;
        let length = file.metadata()?.len();
        let is_inside = |offset: u64, size: u64| {
            offset
                .checked_add(size)
                .is_some_and(|end| end <= length && offset < end)
        };
        if !is_inside(place.offset, place.size)
            || !is_inside(place.names, place.names_size)
            || place.size / SYMBOL as u64 > MOST_SYMBOLS
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut functions = Vec::new();
        let mut chunk = vec![0; 4096 * SYMBOL];
        let mut at = 0;
        while at < place.size {
            let wanted = chunk.len().min((place.size - at) as usize);
            let chunk = &mut chunk[..wanted];
            file.read_exact_at(chunk, place.offset + at)?;
            functions.extend(chunk.chunks_exact(SYMBOL).filter_map(function));
            at += wanted as u64;
        }
        functions.shrink_to_fit();
        // The last of several at one address is the first that is looked at.
        functions.sort_unstable_by_key(|one| (one.start, one.rank, one.end, one.name));
        let mut reach = 0;
        for one in &mut functions {
            reach = reach.max(one.end);
            one.reach = reach;
        }
        Ok((!functions.is_empty()).then_some(Table {
            file,
            place,
            functions,
        }))
    }

    /// The name of the function that covers an address; the innermost, if several do.
    pub fn find(&self, address: u64) -> Option<String> {
        let after = self
            .functions
            .partition_point(|function| function.start <= address);
        let near = self.functions[..after].iter().rev().take(NEAR);
        let function = near
            .take_while(|function| function.reach > address)
            .find(|function| function.end > address)?;
        self.name(function.name)
    }

    fn name(&self, offset: u32) -> Option<String> {
        let left = self.place.names_size.checked_sub(u64::from(offset))?;
        let longest = LONGEST_NAME.min(left as usize);
        let mut bytes = vec![0; longest.min(256)];
        loop {
            let at = self.place.names + u64::from(offset);
            self.file.read_exact_at(&mut bytes, at).ok()?;
            let end = bytes.iter().position(|byte| *byte == 0);
            if end.is_some() || bytes.len() == longest {
                bytes.truncate(end.unwrap_or(longest));
                break;
            }
            bytes.resize((bytes.len() * 4).min(longest), 0);
        }
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A symbol, if it is a function that is defined here.
fn function(symbol: &[u8]) -> Option<Function> {
    let number = |at: usize, bytes: usize| {
        let bytes = symbol[at..at + bytes].iter().rev();
        bytes.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (kind, binding) = (SymbolType(symbol[4] & 15), SymbolBind(symbol[4] >> 4));
    let (start, size) = (number(8, 8), number(16, 8));
    let is_function = matches!(kind, STT_FUNC | STT_GNU_IFUNC);
    if !is_function || number(6, 2) == u64::from(SHN_UNDEF.0) || size == 0 {
        return None;
    }
    Some(Function {
        start,
        end: start.saturating_add(size),
        reach: 0,
        name: number(0, 4) as u32,
        rank: match binding {
            STB_LOCAL => 0,
            STB_WEAK => 1,
            _ => 2,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A table of (name, binding, kind, section, start, size), after names with a NUL before each.
    fn table(symbols: &[(&str, u8, u8, u16, u64, u64)]) -> (Elf, u64) {
        let mut names = vec![0];
        let mut bytes = Vec::new();
        for (name, binding, kind, section, start, size) in symbols {
            bytes.extend_from_slice(&(names.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&[binding << 4 | kind, 0]);
            bytes.extend_from_slice(&section.to_le_bytes());
            bytes.extend_from_slice(&start.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            names.extend_from_slice(name.as_bytes());
            names.push(0);
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("written");
        file.write_all(&names).expect("written");
        let place = Place {
            offset: 0,
            size: bytes.len() as u64,
            names: bytes.len() as u64,
            names_size: names.len() as u64,
        };
        let length = (bytes.len() + names.len()) as u64;
        let elf = Elf {
            path: "made".into(),
            file,
            written: None,
            build_id: Vec::new(),
            span: 0,
            symtab: Some(place),
            dynsym: None,
            has_debug: false,
            unpacked: 0,
            debug_link: None,
            alt_link: None,
        };
        (elf, length)
    }

    const SYMBOLS: [(&str, u8, u8, u16, u64, u64); 9] = [
        ("outer", 1, 2, 1, 0x1000, 0x100),
        ("inner", 0, 2, 1, 0x1040, 0x10),
        ("local_name", 0, 2, 1, 0x2000, 0x20),
        ("global_name", 1, 2, 1, 0x2000, 0x20),
        ("weak_name", 2, 2, 1, 0x2000, 0x20),
        ("chosen_at_start", 1, 10, 1, 0x3000, 8),
        ("data", 1, 1, 1, 0x4000, 8),
        ("imported", 1, 2, 0, 0x5000, 8),
        ("label", 1, 2, 1, 0x6000, 0),
    ];

    #[test]
    fn the_innermost_function_that_covers_an_address_is_found() {
        let table = Table::read(&table(&SYMBOLS).0).expect("it is whole");
        let table = table.expect("it has functions");
        for (address, wanted) in [
            (0x0fff, None),
            (0x1000, Some("outer")),
            (0x1040, Some("inner")),
            (0x104f, Some("inner")),
            (0x1050, Some("outer")),
            (0x10ff, Some("outer")),
            (0x1100, None),
            (0x2010, Some("global_name")),
            (0x3007, Some("chosen_at_start")),
            (0x4000, None),
            (0x5000, None),
            (0x6000, None),
            (u64::MAX, None),
        ] {
            assert_eq!(table.find(address).as_deref(), wanted, "{address:#x}");
        }
    }

    #[test]
    fn a_table_that_is_not_in_the_file_is_damage() {
        let (mut elf, length) = table(&SYMBOLS);
        let whole = elf.symtab.expect("a table");
        for place in [
            Place {
                offset: length,
                ..whole
            },
            Place {
                size: length + 1,
                ..whole
            },
            Place {
                size: u64::MAX,
                ..whole
            },
            Place {
                names: u64::MAX,
                ..whole
            },
            Place {
                names_size: length,
                ..whole
            },
        ] {
            elf.symtab = Some(place);
            assert!(Table::read(&elf).is_err(), "{place:?}");
        }
        elf.symtab = None;
        assert!(Table::read(&elf).expect("no damage").is_none());
    }
}
