//! `cuGetProcAddress`: from a base name, a version and a flag to an exported function.

use super::{Row, entries, rows};
use crate::codes::{Answer, Code, number, require};
use crate::pointer::{Out, Text};
use std::ffi::c_int;

/// Flag 2: the per-thread default stream is wanted.
const PER_THREAD: u64 = 2;

/// `CUdriverProcAddressQueryResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Found = 0,
    NotFound = 1,
    VersionNotSufficient = 2,
}

/// What a query gives; an unknown name is no failure.
fn resolve(driver: c_int, name: &[u8], version: c_int, flags: u64) -> Answer<(usize, Status)> {
    require(version <= driver && flags <= PER_THREAD)?;
    if name.is_empty() && version == 0 {
        return Ok((0, Status::Found));
    }
    let mut known = false;
    let mut best: Option<Row> = None;
    for row in rows().filter(|row| row.base.as_bytes() == name) {
        known = true;
        if row.since > version || row.per_thread && flags != PER_THREAD {
            continue;
        }
        let rank = |row: Row| (row.per_thread, row.since);
        if best.is_none_or(|best| rank(row) > rank(best)) {
            best = Some(row);
        }
    }
    Ok(match best {
        Some(row) => (row.address as usize, Status::Found),
        None if known => (0, Status::VersionNotSufficient),
        None => (0, Status::NotFound),
    })
}

/// The same through the gate; a failure leaves NULL, which is what a program would see anyway.
fn query(
    call: crate::gate::Call,
    name: Text,
    function: Out<usize>,
    version: c_int,
    flags: u64,
    status: Out<c_int>,
) -> c_int {
    let answer = call.pass(|driver, _| {
        let name = name.get().ok_or(Code::INVALID_VALUE)?;
        require(function.is_set())?;
        resolve(driver.version, name.to_bytes(), version, flags)
    });
    function.put(answer.map_or(0, |(address, _)| address));
    status.put(answer.map_or(Status::NotFound, |(_, status)| status) as c_int);
    number(&answer)
}

entries! {
    "cuGetProcAddress" 11030 => fn cuGetProcAddress(call, name: Text, function: Out<usize>, version: c_int, flags: u64) {
        query(call, name, function, version, flags, Out::none())
    }
    "cuGetProcAddress" 12000 => fn cuGetProcAddress_v2(call, name: Text, function: Out<usize>, version: c_int, flags: u64, status: Out<c_int>) {
        query(call, name, function, version, flags, status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, version: c_int, flags: u64) -> Option<&'static str> {
        let (address, status) = resolve(13000, name.as_bytes(), version, flags).unwrap();
        assert_eq!(address != 0, status == Status::Found, "{name}");
        rows()
            .find(|row| row.address as usize == address)
            .map(|row| row.symbol)
    }

    #[test]
    fn the_version_selects_the_newest_function_that_is_old_enough() {
        for (name, wanted) in [
            ("cuMemAlloc", "cuMemAlloc_v2"),
            ("cuMemFree", "cuMemFree_v2"),
            ("cuMemAllocAsync", "cuMemAllocAsync"),
            ("cuMemFreeAsync", "cuMemFreeAsync"),
            ("cuMemCreate", "cuMemCreate"),
            ("cuMemRelease", "cuMemRelease"),
            ("cuMemHostAlloc", "cuMemHostAlloc"),
            ("cuMemAllocManaged", "cuMemAllocManaged"),
            ("cuGetProcAddress", "cuGetProcAddress_v2"),
            ("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2"),
        ] {
            assert_eq!(symbol(name, 13000, 0), Some(wanted));
        }
        assert_eq!(symbol("cuMemAlloc", 2000, 0), Some("cuMemAlloc"));
        assert_eq!(symbol("cuMemAlloc", 3010, 0), Some("cuMemAlloc"));
        assert_eq!(symbol("cuMemAlloc", 3020, 0), Some("cuMemAlloc_v2"));
        assert_eq!(
            symbol("cuDevicePrimaryCtxReset", 7000, 0),
            Some("cuDevicePrimaryCtxReset")
        );
        assert_eq!(
            symbol("cuGetProcAddress", 11030, 0),
            Some("cuGetProcAddress")
        );
        assert_eq!(
            symbol("cuGetProcAddress", 12000, 0),
            Some("cuGetProcAddress_v2")
        );
    }

    #[test]
    fn the_per_thread_flag_prefers_the_twin_and_falls_back() {
        assert_eq!(
            symbol("cuMemAllocAsync", 11020, 2),
            Some("cuMemAllocAsync_ptsz")
        );
        assert_eq!(symbol("cuMemAllocAsync", 11020, 1), Some("cuMemAllocAsync"));
        assert_eq!(symbol("cuMemAlloc", 3020, 2), Some("cuMemAlloc_v2"));
        assert_eq!(
            symbol("cuStreamBeginCapture", 10010, 2),
            Some("cuStreamBeginCapture_v2_ptsz")
        );
    }

    #[test]
    fn unknown_and_suffixed_names_are_no_failure() {
        for name in [
            "cuNothing",
            "cuMemAlloc_v2",
            "cudaMalloc",
            "cuMemAllocAsync_ptsz",
        ] {
            assert_eq!(
                resolve(13000, name.as_bytes(), 13000, 0),
                Ok((0, Status::NotFound))
            );
        }
        let early = resolve(13000, b"cuMemAllocAsync", 11010, 0);
        assert_eq!(early, Ok((0, Status::VersionNotSufficient)));
    }

    #[test]
    fn the_empty_name_passes_and_a_newer_version_does_not() {
        assert_eq!(resolve(13000, b"", 0, 0), Ok((0, Status::Found)));
        assert_eq!(
            resolve(13000, b"cuMemAlloc", 13010, 0),
            Err(Code::INVALID_VALUE)
        );
        assert_eq!(
            resolve(13000, b"cuMemAlloc", 13000, 3),
            Err(Code::INVALID_VALUE)
        );
    }

    #[test]
    fn the_exported_function_takes_a_null_status_and_comes_before_init() {
        let mut address = 7;
        let name = Text::of(c"cuMemAlloc");
        let mut nothing = Out::<c_int>::none();
        // SAFETY: all pointers are live or NULL.
        let code = unsafe { cuGetProcAddress_v2(name, Out::of(&mut address), 3020, 0, nothing) };
        assert_eq!(code, 0);
        assert_eq!(
            rows()
                .find(|row| row.address as usize == address)
                .unwrap()
                .symbol,
            "cuMemAlloc_v2"
        );
        let mut status = 9;
        nothing = Out::of(&mut status);
        // SAFETY: all pointers are live.
        let code = unsafe {
            cuGetProcAddress_v2(Text::of(c"no"), Out::of(&mut address), 3020, 0, nothing)
        };
        assert_eq!((code, address, status), (0, 0, 1));
    }
}
