//! The exported functions. One row makes the symbol and its line in the resolver's table.

mod array;
mod context;
mod copy;
mod device;
mod graph;
mod host;
mod ipc;
mod memory;
mod module;
mod object;
mod pool;
mod resolver;
mod share;
mod stream;
mod vmm;

use crate::codes::{Answer, Code};
pub use device::pci_name;

/// An exported function, as the resolver knows it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The name that a program asks for.
    pub base: &'static str,
    /// The name that is exported.
    #[cfg(test)]
    pub symbol: &'static str,
    /// The first version that means this function by the name.
    pub since: i32,
    /// Whether it is the one for programs whose default stream is per thread.
    pub per_thread: bool,
    pub address: *const (),
}

/// All rows.
pub fn rows() -> impl Iterator<Item = Row> {
    let files = [
        array::ROWS,
        context::ROWS,
        copy::ROWS,
        device::ROWS,
        graph::ROWS,
        host::ROWS,
        ipc::ROWS,
        memory::ROWS,
        module::ROWS,
        object::ROWS,
        pool::ROWS,
        resolver::ROWS,
        share::ROWS,
        stream::ROWS,
        vmm::ROWS,
    ];
    files.into_iter().flatten().copied()
}

/// Rows of the form `"base" since => fn symbol(call, arguments) { result }`. A function that has a twin
/// for the per-thread default stream names it: `"base" since / twin since => fn symbol(…)`.
macro_rules! entries {
    ($($base:literal $since:literal $(/ $own:ident $own_since:literal)? =>
        fn $symbol:ident $arguments:tt $body:block)*) => {
        $(
            entries!(@function $symbol, false, $arguments $body);
            $(entries!(@function $own, true, $arguments $body);)?
        )*
        pub(super) const ROWS: &[super::Row] = &[$(
            super::Row {
                base: $base,
                #[cfg(test)]
                symbol: stringify!($symbol),
                since: $since,
                per_thread: false,
                address: $symbol as *const (),
            },
            $(super::Row {
                base: $base,
                #[cfg(test)]
                symbol: stringify!($own),
                since: $own_since,
                per_thread: true,
                address: $own as *const (),
            },)?
        )*];
    };
    (@function $symbol:ident, $per_thread:literal,
        ($call:ident $(, $argument:ident: $type:ty)* $(,)?) $body:block) => {
        #[allow(non_snake_case, clippy::too_many_arguments)]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(super) unsafe extern "C" fn $symbol($($argument: $type),*) -> std::ffi::c_int {
            let $call = crate::gate::Call {
                symbol: stringify!($symbol),
                per_thread: $per_thread,
            };
            $body
        }
    };
}
use entries;

/// A result in the width that a function gives it.
fn fit<A, B: TryFrom<A>>(answer: Answer<A>) -> Answer<B> {
    B::try_from(answer?).map_err(|_| Code::INVALID_VALUE)
}

#[cfg(test)]
mod tests {
    use super::rows;
    use std::collections::BTreeSet;

    #[test]
    fn no_symbol_and_no_pair_of_name_and_version_stands_twice() {
        let symbols: BTreeSet<_> = rows().map(|row| row.symbol).collect();
        assert_eq!(symbols.len(), rows().count());
        let pairs: BTreeSet<_> = rows()
            .map(|row| (row.base, row.since, row.per_thread))
            .collect();
        assert_eq!(pairs.len(), rows().count());
    }

    #[test]
    fn every_symbol_begins_with_its_base_name() {
        for row in rows() {
            assert!(row.symbol.starts_with(row.base), "{}", row.symbol);
            let twin = row.symbol.ends_with("_ptsz") || row.symbol.ends_with("_ptds");
            assert_eq!(twin, row.per_thread, "{}", row.symbol);
        }
    }
}
