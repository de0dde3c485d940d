//! The writer: one thread that takes events from the channel, gives them names and numbers, appends them to the trace
//! and feeds the ledger, so that a report is ready at any instant.
//!
//! It polls: a parked receiver would cost every sparse send a futex call (17 µs). It never takes the loader's lock
//! (no dlopen, dlsym, dladdr): a constructor running inside dlopen may be the one that waits for it.

mod definitions;
mod disk;
mod ending;
mod failures;
mod file;
mod header;
pub mod hold;
mod keep;
mod now;
mod presence;
mod sink;
mod tickets;
mod translate;

pub use disk::plain;
pub use ending::{Books, Ending, finish, is_left_alone};
pub use failures::framework_gave_up;
pub use file::names;
pub use tickets::{catch_up, flush_at_the_end, hurry, is_in_a_hurry, may_wait, tell_of_a_failure};

use super::cancel;
use super::captures::graphs;
use super::channel::TAKEN;
use super::config::Keep;
use super::log::Listener;
use super::pretend;
use super::process;
use super::raw::{Kind, Raw};
use super::state::{self, Recorder};
use super::{nvml, report, thread};
use crossbeam_channel::{Receiver, TryRecvError};
use definitions::Definitions;
use failures::Failures;
use file::Output;
use hold::Seeming;
use oomhook_ledger::Ledger;
use oomhook_ledger::oom::OUT_OF_MEMORY;
use oomhook_report::sentences::signal;
use oomhook_trace::record::{Deed, DeedKind, EndKind};
use oomhook_trace::{Encoder, Event, Header, Record, What};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Sleep while the channel is empty: where the process waits for each event, busy, and after a while without events.
const SHORT_NAP: Duration = Duration::from_micros(50);
const NAP: Duration = Duration::from_millis(1);
const LONG_NAP: Duration = Duration::from_millis(3);
/// Empty looks after which the naps get longer.
const IDLE_LOOKS: u32 = 250;
/// Empty looks between two looks at whether the program's threads have all ended (about 100 ms).
const ALONE_LOOKS: u32 = 32;
/// An event waits no longer than this for its chunk.
const FLUSH_AFTER: Duration = Duration::from_millis(2);
/// A chunk is made when so many bytes wait.
const CHUNK: usize = 256 << 10;
/// As `FLUSH_AFTER`, where the file lies on another machine.
const FLUSH_AFTER_ON_NETWORK: Duration = Duration::from_secs(1);
/// A segment ends after so many bytes; earlier where only few bytes are kept.
const SEGMENT: u64 = 64 << 20;
const SMALLEST_SEGMENT: u64 = 16 << 10;
/// Segments that a bounded file should hold at least.
const SEGMENTS_KEPT: u64 = 16;
/// How often peaks are compared, and by how much one must be higher than the one before to be looked at.
const LOOK_AT_PEAKS: Duration = Duration::from_millis(100);
const LEAST_NEW_PEAK: u64 = 16 << 20;
/// How often it is looked whether the program has recovered from a failure.
const LOOK_AT_FAILURES: Duration = Duration::from_millis(100);
/// How long the end may wait for the file.
const DRAIN: Duration = Duration::from_secs(3);

/// Opens the trace and starts the writer's thread. The file is there, with its header, before the first event: what the
/// path and the header depend on (the folder, the environment) is the program's to change the moment we return, and its
/// first act may be to end.
pub fn spawn(recorder: &'static Recorder, receiver: Receiver<Raw>) -> io::Result<()> {
    let writer = Writer::new(recorder);
    thread::spawn(c"oomhook-writer", 1 << 20, move || run(writer, &receiver))
}

fn run(mut writer: Writer, receiver: &Receiver<Raw>) {
    let work = AssertUnwindSafe(|| writer.work(receiver));
    if std::panic::catch_unwind(work).is_err() {
        state::switch_off("an error inside oomhook; recording stops here, the program goes on");
    }
}

/// A call ran out of memory, or a framework's cache gave up.
fn is_out_of_memory(raw: &Raw) -> bool {
    let of_driver = raw.kind == Kind::AllocFailed && raw.d == u64::from(OUT_OF_MEMORY);
    of_driver || raw.kind == Kind::TensorFailed
}

struct Writer {
    recorder: &'static Recorder,
    header: Header,
    definitions: Definitions,
    encoder: Encoder,
    ledger: Ledger,
    output: Output,
    /// Chunks made and not yet in the file.
    bytes: Vec<u8>,
    /// When the oldest event of the chunk in the making was taken.
    oldest: Option<Instant>,
    /// Bytes of the segment in the making.
    in_segment: u64,
    /// Bytes after which a segment ends.
    segment: u64,
    /// How long an event may wait for its chunk.
    flush_after: Duration,
    /// Only the state at the end is written, no events.
    summary: bool,
    /// The highest peak at which the devices were looked at, and when it was compared.
    peak_seen: u64,
    peaks_at: Instant,
    /// What is said of failures, and when they were looked at.
    failures: Failures,
    looked_at: Instant,
    /// The program's own lines.
    listener: Listener,
    /// What was said of the room for stacks.
    shortage: Option<&'static str>,
    /// Highest flush ticket that was passed on.
    served: u64,
    /// The flush ticket at which a report is to be made, if one was asked for.
    report_at: Option<u64>,
}

impl Writer {
    fn new(recorder: &'static Recorder) -> Writer {
        let header = header::make(recorder);
        let output = Output::open(recorder, &header, &tickets::SERVED);
        let segment = match recorder.config.keep {
            Keep::Bytes(bytes) => (bytes / SEGMENTS_KEPT).clamp(SMALLEST_SEGMENT, SEGMENT),
            _ => SEGMENT,
        };
        let flush_after = if output.is_on_network() {
            FLUSH_AFTER_ON_NETWORK
        } else {
            FLUSH_AFTER
        };
        Writer {
            recorder,
            definitions: Definitions::default(),
            encoder: Encoder::default(),
            ledger: Ledger::default(),
            bytes: Vec::new(),
            oldest: None,
            in_segment: 0,
            segment,
            flush_after,
            summary: recorder.config.keep == Keep::Summary,
            peak_seen: 0,
            peaks_at: Instant::now(),
            failures: Failures::default(),
            looked_at: Instant::now(),
            listener: Listener::begin(recorder.config.log),
            shortage: None,
            served: 0,
            report_at: None,
            header,
            output,
        }
    }

    fn work(&mut self, receiver: &Receiver<Raw>) {
        let mut looks = 0;
        let mut unchecked = 0;
        // The flush ticket in hand, and how many events must be taken before it is served.
        let mut serving: Option<(u64, u64)> = None;
        let mut taken = 0u64;
        loop {
            match receiver.try_recv() {
                Ok(raw) => {
                    taken += 1;
                    TAKEN.store(taken, Ordering::Relaxed);
                    looks = 0;
                    self.take(&raw);
                    unchecked += 1;
                    if unchecked < 64 {
                        continue;
                    }
                }
                Err(TryRecvError::Empty) => {
                    serving = serving.map(|(ticket, _)| (ticket, taken));
                    looks += 1;
                }
                Err(TryRecvError::Disconnected) => return,
            }
            unchecked = 0;
            self.count_launches();
            self.hear_signal();
            if serving.is_none() {
                let wanted = tickets::newest();
                if wanted > self.served {
                    serving = Some((wanted, taken + receiver.len() as u64));
                }
            }
            if let Some((ticket, until)) = serving
                && taken >= until
            {
                self.bring_words();
                self.flush();
                self.tell_at_once();
                self.bring_state();
                self.report_now(ticket);
                self.served = ticket;
                if !self.output.flush(ticket) {
                    tickets::SERVED.store(ticket, Ordering::Release);
                }
                serving = None;
            } else if self.is_due() {
                self.flush();
            }
            if self.peaks_at.elapsed() > LOOK_AT_PEAKS {
                self.peaks_at = Instant::now();
                self.look_at_peaks();
            }
            if self.failures.is_waiting()
                && (self.looked_at.elapsed() > LOOK_AT_FAILURES || failures::is_urgent())
            {
                self.looked_at = Instant::now();
                self.look_at_failures();
            }
            if looks > 0 {
                // Whatever was sent before the end is in by now: the channel has been seen empty after it.
                if let Some(ending) = ending::asked()
                    && receiver.is_empty()
                {
                    self.close(ending);
                    return self.look_after_the_end(ending.thread);
                }
                if let Some(end) = hold::asked() {
                    self.close_for_now(receiver, end);
                    taken = TAKEN.load(Ordering::Relaxed);
                    continue;
                }
                if process::hangs() && receiver.is_empty() {
                    self.close(&Ending {
                        kind: EndKind::Exit,
                        code: process::exit_code(),
                        thread: 0,
                    });
                    process::end_at_once();
                }
                if looks % ALONE_LOOKS == 0 && looks >= IDLE_LOOKS && thread::are_alone() {
                    // glibc ends the process with its last thread, as by `exit(0)`: ours must not keep it.
                    ending::leave_alone();
                    nvml::leave();
                    self.close(&ending::LEFT_ALONE);
                    return;
                }
                cancel::sleep(match looks {
                    _ if is_in_a_hurry() => SHORT_NAP,
                    0..IDLE_LOOKS => NAP,
                    _ => LONG_NAP,
                });
            }
        }
    }

    fn is_due(&self) -> bool {
        self.encoder.waiting() >= CHUNK
            || self
                .oldest
                .is_some_and(|oldest| oldest.elapsed() >= self.flush_after)
    }

    fn take(&mut self, raw: &Raw) {
        if raw.kind == Kind::Boxed {
            // SAFETY: each boxed event is taken from the channel once.
            let record = match unsafe { raw.unbox() } {
                Record::Code(code) => self.definitions.code(code),
                record => Some(record),
            };
            if let Some(record) = record {
                self.emit(&record);
            }
            return;
        }
        if raw.kind == Kind::Output {
            self.listener.hear(raw);
            return self.tell_lines();
        }
        if is_out_of_memory(raw) {
            // What the program had said before comes before.
            self.listener.tell_all(self.recorder.now(), false);
            self.tell_lines();
        }
        let (stack, call) = {
            let Writer {
                definitions,
                recorder,
                ..
            } = self;
            (definitions.stack(recorder, raw), definitions.call(raw.call))
        };
        for record in self.definitions.take_new() {
            self.emit(&record);
        }
        if let Some(record) = translate::record(raw, stack, call) {
            self.emit(&record);
        }
        if raw.kind == Kind::AllocFailed && raw.d == u64::from(OUT_OF_MEMORY) {
            self.failures.failed();
        }
    }

    fn tell_lines(&mut self) {
        for line in self.listener.take() {
            self.emit(&Record::LogLine(line));
        }
    }

    /// All that the program has said, for the last time.
    fn tell_last_lines(&mut self) {
        self.listener.tell_all(self.recorder.now(), true);
        self.tell_lines();
        if let Some(text) = self.listener.note() {
            self.note(text);
        }
    }

    /// Has the devices looked at when this process has reached a new peak.
    fn look_at_peaks(&mut self) {
        let devices = self.ledger.devices().iter();
        let peak: u64 = devices.map(|(_, usage)| usage.peak.bytes).sum();
        if peak > self.peak_seen + (self.peak_seen / 100).max(LEAST_NEW_PEAK) {
            self.peak_seen = peak;
            nvml::ask();
        }
    }

    fn tell_at_once(&mut self) {
        let mut failures = std::mem::take(&mut self.failures);
        failures.tell_at_once(self.recorder, &self.books());
        self.failures = failures;
    }

    /// Says what is to be said of failures by now.
    fn look_at_failures(&mut self) {
        self.tell_at_once();
        let mut failures = std::mem::take(&mut self.failures);
        failures.settle(self.recorder, &self.books());
        self.failures = failures;
    }

    fn emit(&mut self, record: &Record) {
        if self.oldest.is_none() {
            self.oldest = Some(Instant::now());
        }
        self.ledger.apply(record);
        if self.output.is_open() && !self.summary {
            self.encoder.put(record);
        }
    }

    fn note(&mut self, text: String) {
        let time_ns = self.recorder.now();
        self.emit(&Record::Note { time_ns, text });
    }

    fn flush(&mut self) {
        if pretend::is_on() {
            pretend::publish(&self.ledger);
        }
        self.end_chunk();
        if self.in_segment >= self.segment && self.output.is_open() {
            self.begin_segment();
        }
    }

    fn end_chunk(&mut self) {
        self.oldest = None;
        self.encoder.finish_chunk(&mut self.bytes);
        self.in_segment += self.bytes.len() as u64;
        self.output.append(&mut self.bytes, false);
        self.tell();
    }

    /// Passes on what happened to the file and to the table of stacks.
    fn tell(&mut self) {
        let shortage = self.recorder.stacks.shortage();
        if shortage != self.shortage {
            self.shortage = shortage;
            self.note(shortage.unwrap_or_default().to_owned());
        }
        for text in self.output.take_notes() {
            state::say(&text);
            self.note(text);
        }
    }

    /// Opens a segment with a checkpoint: from here on a reader needs nothing of what came before.
    fn begin_segment(&mut self) {
        let failed = match self.ledger.checkpoint() {
            Ok((state, records)) => {
                let records = records.map(std::borrow::Cow::Owned);
                self.encoder.begin_segment(&state, records, &mut self.bytes);
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            // The trace goes on without: it can then be read from its beginning only.
            self.note(format!("a checkpoint could not be written: {error}"));
        }
        self.output.append(&mut self.bytes, true);
        self.in_segment = 0;
    }

    /// Writes the closing record.
    /// Takes in how many graphs were launched meanwhile.
    fn count_launches(&mut self) {
        let value = graphs::take_launches();
        if value > 0 {
            self.emit(&Record::Deed(Deed {
                time_ns: self.recorder.now(),
                thread: 0,
                device: None,
                call: 0,
                stack: 0,
                kind: Some(DeedKind::Launches),
                subject: 0,
                value,
                other: 0,
            }));
        }
    }

    fn put_end(&mut self, thread: u32, what: What) {
        self.count_launches();
        let event = Event {
            time_ns: self.recorder.now(),
            thread,
            device: None,
            call: 0,
            stack: 0,
            what,
        };
        let only_summary = std::mem::replace(&mut self.summary, false);
        if only_summary {
            self.begin_segment();
        }
        self.emit(&Record::Event(event));
        // No segment after this: the closing record is the last one of the file.
        self.end_chunk();
        self.output.drain(DRAIN);
        self.summary = only_summary;
    }

    /// Closes the trace and prints the report, and waits for what comes of it: nothing more, or a process that lives on.
    fn close_for_now(&mut self, receiver: &Receiver<Raw>, end: Seeming) {
        // A sender that was past the gate when it was shut has its event in by then.
        cancel::sleep(NAP);
        while let Ok(raw) = receiver.try_recv() {
            TAKEN.fetch_add(1, Ordering::Relaxed);
            self.take(&raw);
        }
        self.tell_last_lines();
        let what = What::End {
            kind: end.kind,
            code: None,
            signal: end.signal,
        };
        self.put_end(end.thread, what);
        hold::filed();
        report::print(self.recorder, &self.books());
        hold::reported();
        while hold::is_on(&end, self.recorder) {
            cancel::sleep(NAP);
        }
        process::watch_signals_again();
        // The note stands behind the closing record and so denies it.
        self.note(match end.signal {
            Some(number) => format!("the process lived on after {}", signal(number)),
            None => "the process lived on after an exec that failed".to_owned(),
        });
    }

    /// What a report is made of.
    fn books(&self) -> report::Books<'_> {
        report::Books {
            header: &self.header,
            ledger: &self.ledger,
            path: self.output.path(),
        }
    }

    fn close(&mut self, ending: &Ending) {
        self.tell_last_lines();
        let what = What::End {
            kind: ending.kind,
            code: ending.code,
            signal: None,
        };
        self.put_end(ending.thread, what);
        self.tell();
        ending::hand_over(Books {
            header: self.header.clone(),
            ledger: std::mem::take(&mut self.ledger),
            path: self.output.path(),
        });
    }

    /// Waits until the thread that ends the process has printed its report. If it hangs, ends the process; if a signal ends
    /// it meanwhile, says so behind what was said before.
    fn look_after_the_end(&mut self, thread: u32) {
        while process::is_ending() {
            if process::hangs() {
                process::end_at_once();
            }
            if let Some(end) = hold::asked() {
                if end.thread == thread || end.signal.is_some_and(process::is_fault) {
                    let what = What::End {
                        kind: end.kind,
                        code: None,
                        signal: end.signal,
                    };
                    self.put_end(end.thread, what);
                    hold::filed();
                    hold::reported();
                } else {
                    // Another thread's, from just before: it is put off until the report is there.
                    hold::put_off();
                }
            }
            cancel::sleep(NAP);
        }
    }
}
