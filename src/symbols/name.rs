//! Names as the compiler wrote them to names as people write them. Both mangling schemes have a way to say much with
//! little: what comes out is bounded.

use std::fmt::{self, Write};

/// Bytes that a demangled name may have; a longer one is cut.
const LONGEST: usize = 64 << 10;

/// The demangled name; what is not mangled stays as it is.
pub fn demangled(name: &str) -> String {
    // Versions are no part of a name (`cudaMalloc@@libcudart.so.13`).
    let name = name.split('@').next().unwrap_or(name);
    // The C library calls its own functions so (`__GI_exit`).
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    // A C function may be called `i` or `St`, which are types to a demangler of C++.
    let is_mangled = ["_Z", "__Z", "_R"]
        .iter()
        .any(|start| name.starts_with(start));
    let rust = || {
        bounded(|to| {
            write!(
                to,
                "{:#}",
                rustc_demangle::try_demangle(name).map_err(drop).ok()?
            )
            .ok()
        })
    };
    let cpp = || {
        let symbol = cpp_demangle::BorrowedSymbol::new(name.as_bytes()).ok()?;
        let options = cpp_demangle::DemangleOptions::default();
        bounded(|to| symbol.structured_demangle(to, &options).ok())
    };
    let found = is_mangled.then(|| rust().or_else(cpp)).flatten();
    found.unwrap_or_else(|| name.to_owned())
}

/// What `write` writes, cut where it becomes too long; `None` if it fails before.
fn bounded(write: impl FnOnce(&mut Bounded) -> Option<()>) -> Option<String> {
    let mut to = Bounded::default();
    let is_whole = write(&mut to).is_some();
    (is_whole || to.is_full).then_some(to.text)
}

#[derive(Default)]
struct Bounded {
    text: String,
    is_full: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.len() + text.len() > LONGEST {
            self.is_full = true;
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_stay_what_they_are() {
        for name in ["i", "f", "St", "w", "main", "a_Z1fv", "_Z", "_R", "_Zebra"] {
            assert_eq!(demangled(name), name);
        }
        assert_eq!(demangled("_Z4growi"), "grow(int)");
        assert_eq!(demangled("_ZN5cache4growEv@@V1"), "cache::grow()");
        assert_eq!(demangled("cudaMalloc@@libcudart.so.13"), "cudaMalloc");
        assert_eq!(demangled("__GI___libc_malloc"), "__libc_malloc");
    }

    #[test]
    fn both_schemes_of_rust_are_known() {
        assert_eq!(
            demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"),
            "core::fmt::Write::write_fmt"
        );
        assert_eq!(demangled("_RNvCs1234_7mycrate3foo"), "mycrate::foo");
    }

    #[test]
    fn a_small_name_that_unfolds_for_ever_is_cut() {
        // Each argument is a pair of the one before: twice as long.
        let mut name = String::from("_Z1fSt4pairIiiE");
        for number in 0..40u32 {
            let last = match number {
                0 => "S_".to_owned(),
                _ => format!(
                    "S{}_",
                    char::from_digit(number.min(35) - 1, 36)
                        .unwrap_or('0')
                        .to_ascii_uppercase()
                ),
            };
            name.push_str(&format!("St4pairI{last}{last}E"));
        }
        assert!(demangled(&name).len() <= LONGEST);
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert_eq!(demangled(&deep), deep);
    }
}
