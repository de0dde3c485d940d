//! What each mode of capture allows, and how a refused call ends it.

use super::super::{Driver, PoolAttribute, Thread, ready};
use super::*;

const MIB: u64 = 1 << 20;

fn capturing(mode: Mode) -> (Driver, Thread, Stream) {
    let (mut driver, thread) = ready("2x16GiB");
    let handle = driver.create_stream(thread, 1, 0).unwrap();
    let stream = Stream {
        handle,
        per_thread: false,
    };
    driver.begin_capture(thread, stream, mode, None).unwrap();
    (driver, thread, stream)
}

#[test]
fn allocating_breaks_a_capture_unless_it_is_relaxed() {
    for mode in [Mode::Global, Mode::ThreadLocal] {
        let (mut driver, thread, stream) = capturing(mode);
        assert_eq!(driver.alloc(thread, MIB).unwrap_err().0, 900);
        assert_eq!(driver.free_memory(0), 16 << 30);
        assert_eq!(
            driver.capture_info(thread, stream).unwrap().status,
            Status::Invalidated
        );
        assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 901);
        assert!(driver.alloc(thread, MIB).is_ok());
    }
    let (mut driver, thread, stream) = capturing(Mode::Relaxed);
    assert!(driver.alloc(thread, MIB).is_ok());
    assert!(driver.end_capture(thread, stream).is_ok());
}

#[test]
fn pool_attributes_and_waits_are_refused_too() {
    let calls: [fn(&mut Driver, Thread) -> Answer<()>; 3] = [
        |driver, thread| {
            let pool = driver.default_pool(0)?;
            driver
                .pool_attribute(thread, pool, PoolAttribute::Used)
                .map(|_| ())
        },
        |driver, thread| driver.synchronise_context(thread),
        |driver, thread| driver.alloc_host(thread, 4096, 0).map(|_| ()),
    ];
    for call in calls {
        let (mut driver, thread, stream) = capturing(Mode::ThreadLocal);
        assert_eq!(call(&mut driver, thread).unwrap_err().0, 900);
        assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 901);
    }
}

#[test]
fn another_thread_is_refused_by_a_global_capture_only() {
    for (mode, code) in [
        (Mode::Global, 900),
        (Mode::ThreadLocal, 0),
        (Mode::Relaxed, 0),
    ] {
        let (mut driver, thread, _) = capturing(mode);
        let other = Thread(2);
        let context = driver.current(thread).unwrap();
        driver.set_current(other, context).unwrap();
        let answer = driver.alloc(other, MIB);
        assert_eq!(crate::codes::number(&answer), code, "{mode:?}");
    }
}

#[test]
fn a_thread_that_relaxes_itself_may_allocate() {
    let (mut driver, thread, stream) = capturing(Mode::Global);
    assert_eq!(driver.exchange_mode(thread, Mode::Relaxed), Mode::Global);
    assert!(driver.alloc(thread, MIB).is_ok());
    assert_eq!(driver.exchange_mode(thread, Mode::Global), Mode::Relaxed);
    assert!(driver.end_capture(thread, stream).is_ok());
}

#[test]
fn a_captured_allocation_takes_no_memory() {
    let (mut driver, thread, stream) = capturing(Mode::ThreadLocal);
    let p = driver.alloc_async(thread, 16 * MIB, None, stream).unwrap();
    driver.free_async(thread, p, stream).unwrap();
    assert_eq!(driver.free_async(thread, p, stream).unwrap_err().0, 1);
    let graph = driver.end_capture(thread, stream).unwrap();
    assert_eq!(driver.free_memory(0), 16 << 30);
    driver.destroy_graph(graph).unwrap();
    assert_eq!(driver.destroy_graph(graph).unwrap_err().0, 1);
}

#[test]
fn waiting_for_the_captured_stream_breaks_the_capture() {
    let (mut driver, thread, stream) = capturing(Mode::Relaxed);
    assert_eq!(
        driver.synchronise_stream(thread, stream).unwrap_err().0,
        900
    );
    assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 901);
    assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 401);
}

#[test]
fn an_event_draws_a_second_stream_into_the_capture() {
    let (mut driver, thread, stream) = capturing(Mode::ThreadLocal);
    let handle = driver.create_stream(thread, 1, 0).unwrap();
    let second = Stream {
        handle,
        per_thread: false,
    };
    let event = driver.create_event(thread).unwrap();
    driver.record_event(thread, event, stream).unwrap();
    driver.wait_event(thread, second, event).unwrap();
    let info = driver.capture_info(thread, stream).unwrap();
    assert_eq!(driver.capture_info(thread, second), Ok(info));
    driver.end_capture(thread, stream).unwrap();
    assert_eq!(
        driver.capture_info(thread, second).unwrap().status,
        Status::None
    );
}

#[test]
fn the_legacy_stream_breaks_the_capture_of_a_blocking_stream() {
    let (mut driver, thread) = ready("2x16GiB");
    let handle = driver.create_stream(thread, 0, 0).unwrap();
    let stream = Stream {
        handle,
        per_thread: false,
    };
    assert_eq!(
        driver
            .begin_capture(thread, Stream::LEGACY, Mode::Relaxed, None)
            .unwrap_err()
            .0,
        900
    );
    driver
        .begin_capture(thread, stream, Mode::Relaxed, None)
        .unwrap();
    assert_eq!(
        driver.capture_info(thread, Stream::LEGACY).unwrap_err().0,
        906
    );
    assert_eq!(
        driver.capture_info(thread, stream).unwrap().status,
        Status::Active
    );
    assert_eq!(
        driver.enqueue(thread, Stream::LEGACY, 0).unwrap_err().0,
        906
    );
    assert_eq!(driver.end_capture(thread, stream).unwrap_err().0, 901);
}

#[test]
fn only_the_capturing_thread_ends_a_capture_that_is_not_relaxed() {
    let (mut driver, thread, stream) = capturing(Mode::ThreadLocal);
    assert_eq!(driver.end_capture(Thread(2), stream).unwrap_err().0, 908);
    assert!(driver.end_capture(thread, stream).is_ok());
}
