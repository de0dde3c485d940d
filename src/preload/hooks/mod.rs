//! The intercepted functions: ONE table (`table`), from which `macros` makes everything else: hooks, exported symbols,
//! look-up by name, names in reports. A new function is one row in the table.

pub mod abi;
mod macros;
pub mod row;
pub mod table;

use row::{Layer, Row};
use std::ffi::CStr;

/// Number of a row over both layers: driver rows first, then runtime rows.
pub type RowId = u16;

/// Rows in all.
pub const ROWS: usize = table::DRIVER.len() + table::RUNTIME.len();

/// The row with this number.
#[inline]
pub fn row(id: RowId) -> &'static Row {
    let id = usize::from(id);
    match table::DRIVER.get(id) {
        Some(row) => row,
        None => &table::RUNTIME[id - table::DRIVER.len()],
    }
}

/// All rows with their numbers.
pub fn rows() -> impl Iterator<Item = (RowId, &'static Row)> {
    (0..ROWS as RowId).map(|id| (id, row(id)))
}

/// Slots of the look-up by name; a power of two well above the number of rows.
const BUCKETS: usize = 1024;
const _: () = assert!(ROWS * 2 < BUCKETS);

const EMPTY: RowId = RowId::MAX;

const fn hash(name: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < name.len() {
        hash = (hash ^ name[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    (hash ^ (hash >> 32)) as usize
}

/// Built by the compiler: `dlsym` may be called before anything of ours was initialised, by an allocator that must not
/// be re-entered, so the look-up can neither allocate nor wait.
static BY_NAME: [RowId; BUCKETS] = by_name();

const fn by_name() -> [RowId; BUCKETS] {
    let mut buckets = [EMPTY; BUCKETS];
    let mut id = 0;
    while id < ROWS {
        let name = table::NAMES[id].to_bytes();
        let mut at = hash(name) % BUCKETS;
        while buckets[at] != EMPTY {
            at = (at + 1) % BUCKETS;
        }
        buckets[at] = id as RowId;
        id += 1;
    }
    buckets
}

/// The row of an exported symbol; exact names only (a prefix would catch cuBLAS, cuDNN and `curl_*`).
pub fn find(name: &CStr) -> Option<(RowId, &'static Row)> {
    let bytes = name.to_bytes();
    if !bytes.starts_with(b"cu") {
        return None;
    }
    let mut at = hash(bytes) % BUCKETS;
    loop {
        let id = BY_NAME[at];
        if id == EMPTY {
            return None;
        }
        let row = row(id);
        if row.symbol == name {
            return Some((id, row));
        }
        at = (at + 1) % BUCKETS;
    }
}

/// True for the rows of the driver layer.
pub fn is_driver(row: &Row) -> bool {
    row.layer == Layer::Driver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name_and_no_other_name_is() {
        for (id, row) in rows() {
            assert_eq!(
                find(row.symbol).map(|(found, _)| found),
                Some(id),
                "{:?}",
                row.symbol
            );
        }
        for name in [
            c"cuMemAlloc_v",
            c"cuMemAlloc_v22",
            c"cublasCreate_v2",
            c"curl_easy_init",
            c"cu",
            c"",
        ] {
            assert!(find(name).is_none(), "{name:?}");
        }
    }

    #[test]
    fn no_name_stands_twice() {
        let mut names: Vec<_> = rows().map(|(_, row)| row.symbol).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn shown_names_carry_no_suffix() {
        for (_, row) in rows() {
            let symbol = row.symbol.to_str().expect("a name");
            assert!(
                symbol.starts_with(row.shown),
                "{symbol} is shown as {}",
                row.shown
            );
            let suffix = &symbol[row.shown.len()..];
            let known = [
                "", "_v2", "_v3", "_v4", "_ptsz", "_ptds", "_v2_ptsz", "_v3_ptsz",
            ];
            assert!(
                known.contains(&suffix),
                "{symbol} is shown as {}",
                row.shown
            );
        }
    }
}
