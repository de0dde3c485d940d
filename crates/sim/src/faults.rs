//! Failures and delays that a test orders by environment.

use crate::codes::Code;
use crate::settings::{bad, duration};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One order: what happens at the N-th call of a symbol.
#[derive(Debug)]
struct Order<T> {
    symbol: String,
    /// `None`: at every call.
    nth: Option<u64>,
    what: T,
    calls: AtomicU64,
}

impl<T> Order<T> {
    /// Counts a call of the symbol and says whether the order applies to it.
    fn applies(&self, symbol: &str) -> bool {
        if self.symbol != symbol {
            return false;
        }
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.nth.is_none_or(|nth| nth == call)
    }
}

/// All orders of `OOMHOOK_SIM_FAIL` and `OOMHOOK_SIM_STALL`.
#[derive(Debug, Default)]
pub struct Faults {
    fail: Vec<Order<Code>>,
    stall: Vec<Order<Duration>>,
}

impl Faults {
    /// Reads both settings; `complain` gets one sentence for each that is malformed.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        mut complain: impl FnMut(String),
    ) -> Faults {
        let mut faults = Faults::default();
        if let Some(text) = variable("OOMHOOK_SIM_FAIL") {
            let code = |what: &str| what.parse().ok().map(Code);
            match orders(&text, code) {
                Some(orders) => faults.fail = orders,
                None => complain(bad("OOMHOOK_SIM_FAIL", &text, "cuMemAlloc_v2#3=2,…")),
            }
        }
        if let Some(text) = variable("OOMHOOK_SIM_STALL") {
            match orders(&text, duration) {
                Some(orders) => faults.stall = orders,
                None => complain(bad("OOMHOOK_SIM_STALL", &text, "cuMemFree_v2#1=50ms,…")),
            }
        }
        faults
    }

    /// Counts a call and says what it is to do instead of, and after, its work.
    pub fn meet(&self, symbol: &str) -> (Option<Code>, Option<Duration>) {
        if self.fail.is_empty() && self.stall.is_empty() {
            return (None, None);
        }
        // Every order counts every call, so no search may stop early.
        let fails = self.fail.iter().filter(|order| order.applies(symbol));
        let code = fails.fold(None, |first, order| first.or(Some(order.what)));
        let stalls = self.stall.iter().filter(|order| order.applies(symbol));
        let stall = stalls.fold(None, |first, order| first.or(Some(order.what)));
        (code, stall)
    }
}

/// A comma list of `SYMBOL#N=WHAT`.
fn orders<T>(text: &str, what: impl Fn(&str) -> Option<T>) -> Option<Vec<Order<T>>> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (call, result) = part.split_once('=')?;
            let (symbol, nth) = call.split_once('#')?;
            let nth = match nth.trim() {
                "*" => None,
                nth => Some(nth.parse().ok().filter(|&nth| nth > 0)?),
            };
            Some(Order {
                symbol: symbol.trim().to_owned(),
                nth,
                what: what(result.trim())?,
                calls: AtomicU64::new(0),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(fail: &str, stall: &str) -> (Faults, usize) {
        let mut complaints = 0;
        let faults = Faults::read(
            |name| {
                let text = if name.ends_with("FAIL") { fail } else { stall };
                Some(text.to_owned())
            },
            |_| complaints += 1,
        );
        (faults, complaints)
    }

    #[test]
    fn the_nth_call_fails_and_only_that_one() {
        let (faults, _) = faults("cuMemFree_v2#2=1,cuMemFree_v2#3=999,cuLaunchKernel#*=2", "");
        let code = |symbol| faults.meet(symbol).0.map(|code| code.0);
        assert_eq!(code("cuMemFree_v2"), None);
        assert_eq!(code("cuMemFree"), None);
        assert_eq!(code("cuMemFree_v2"), Some(1));
        assert_eq!(code("cuMemFree_v2"), Some(999));
        assert_eq!(code("cuMemFree_v2"), None);
        assert_eq!(code("cuLaunchKernel"), Some(2));
        assert_eq!(code("cuLaunchKernel"), Some(2));
    }

    #[test]
    fn a_stall_has_its_own_count() {
        let (faults, _) = faults("", "cuMemFree_v2#1=50ms");
        assert_eq!(
            faults.meet("cuMemFree_v2"),
            (None, Some(Duration::from_millis(50)))
        );
        assert_eq!(faults.meet("cuMemFree_v2"), (None, None));
    }

    #[test]
    fn malformed_orders_are_named_and_left_out() {
        for text in [
            "cuMemFree_v2",
            "cuMemFree_v2#0=1",
            "cuMemFree_v2#1",
            "#=",
            "f#1=x",
        ] {
            assert_eq!(faults(text, text).1, 2, "{text}");
        }
    }
}
