//! The end of the trace: the thread that ends the process leaves word of it, the writer closes the trace and hands its books over.

use super::super::{cancel, memory, report};
use oomhook_ledger::Ledger;
use oomhook_trace::Header;
use oomhook_trace::record::EndKind;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// The end of the process, when it has come: the writer takes it, writes the closing record and hands over its books.
static ENDING: AtomicPtr<Ending> = AtomicPtr::new(std::ptr::null_mut());
static BOOKS: AtomicPtr<Books> = AtomicPtr::new(std::ptr::null_mut());

/// How the process ends.
pub struct Ending {
    /// In which way.
    pub kind: EndKind,
    /// Exit code, if known.
    pub code: Option<u8>,
    /// The thread that ends it.
    pub thread: u32,
}

/// Set when our threads were the last ones.
static IS_LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// True if the process is being ended by glibc in its last thread, which is the writer's.
pub fn is_left_alone() -> bool {
    IS_LEFT_ALONE.load(Ordering::Acquire)
}

/// The end of a process whose threads have all ended.
pub(super) const LEFT_ALONE: Ending = Ending {
    kind: EndKind::Exit,
    code: Some(0),
    thread: 0,
};

/// What a report may take: names of functions are read from large tables.
const REPORT_NEEDS: usize = 48 << 20;

/// What the writer knows at the end.
pub struct Books {
    /// The header as it was written.
    pub header: Header,
    /// The whole story.
    pub ledger: Ledger,
    /// Where the trace is; `None` if there is no file.
    pub path: Option<std::path::PathBuf>,
}

impl Books {
    /// What a report is made of; nothing if there is too little memory for one.
    pub fn for_report(&self) -> Option<report::Books<'_>> {
        memory::can_have(REPORT_NEEDS).then(|| report::Books {
            header: &self.header,
            ledger: &self.ledger,
            path: self.path.clone(),
        })
    }
}

/// The end, when it has come.
pub(super) fn asked() -> Option<&'static Ending> {
    // SAFETY: published by `finish`, which never frees it then.
    unsafe { ENDING.load(Ordering::Acquire).as_ref() }
}

/// Gives the books to whoever ends the process.
pub(super) fn hand_over(books: Books) {
    BOOKS.store(Box::into_raw(Box::new(books)), Ordering::Release);
}

/// Our threads are the last ones: glibc ends the process with them.
pub(super) fn leave_alone() {
    IS_LEFT_ALONE.store(true, Ordering::Release);
}

/// Ends the trace and takes the books; `None` if the writer does not answer in time.
pub fn finish(ending: Ending, patience: Duration) -> Option<Box<Books>> {
    let ending = Box::into_raw(Box::new(ending));
    let first = ENDING.compare_exchange(
        std::ptr::null_mut(),
        ending,
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    if first.is_err() {
        // SAFETY: it was not published.
        drop(unsafe { Box::from_raw(ending) });
        return None;
    }
    let deadline = Instant::now() + patience;
    loop {
        let books = BOOKS.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !books.is_null() {
            // SAFETY: leaked by the writer, and taken here by the swap alone.
            return Some(unsafe { Box::from_raw(books) });
        }
        if Instant::now() >= deadline {
            return None;
        }
        cancel::sleep(Duration::from_micros(200));
    }
}
