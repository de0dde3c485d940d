//! The thread that waits for the disk, so that nobody else has to. It may fall behind by so many bytes; then the file
//! ends, and the ledger goes on without it.

use super::super::bell::Bell;
use super::super::cancel;
use super::super::thread;
use super::keep::Keeper;
use super::presence::Presence;
use super::sink::Sink;
use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Most bytes that wait for the disk.
pub const MOST_BEHIND: u64 = 64 << 20;

/// Nobody may ring for so long; then it is looked who asks.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Sleep where the file has ended.
const NAP: Duration = Duration::from_millis(3);

enum Message {
    Append(Vec<u8>),
    /// What comes next opens a segment.
    Segment,
    /// Everything before is in the file.
    Flushed(u64),
}

/// What the two sides share.
#[derive(Default)]
struct Shared {
    /// Bytes that wait.
    behind: AtomicU64,
    /// Rung for each message.
    bell: Bell,
}

/// The near side: never waits.
pub struct Disk {
    sender: Sender<Message>,
    failures: Receiver<String>,
    shared: Arc<Shared>,
}

impl Disk {
    /// Starts the thread for a file that has its header. Signals are blocked in the caller, and so in the thread.
    /// `flushed` is set to each ticket of `flush` whose bytes are in the file.
    pub fn start(
        sink: Sink,
        keeper: Keeper,
        presence: Presence,
        length: u64,
        flushed: &'static AtomicU64,
    ) -> io::Result<Disk> {
        let (sender, messages) = unbounded();
        let (report, failures) = unbounded();
        let shared = Arc::new(Shared::default());
        let far = shared.clone();
        thread::spawn(c"oomhook-file", 512 << 10, move || {
            let (mut sink, mut presence) = (sink, presence);
            let work = AssertUnwindSafe(|| {
                serve(
                    &messages,
                    &mut sink,
                    keeper,
                    &mut presence,
                    &far,
                    length,
                    flushed,
                )
            });
            let failed = match std::panic::catch_unwind(work) {
                Ok(served) => served.err(),
                Err(_) => Some("an error inside oomhook".to_owned()),
            };
            if let Some(error) = failed {
                // The near side is gone only at the end of the process.
                let _ = report.send(error);
                // The file has ended, the process has not.
                while !super::is_left_alone() {
                    presence.keep(&mut sink);
                    cancel::sleep(NAP);
                }
            }
        })?;
        Ok(Disk {
            sender,
            failures,
            shared,
        })
    }

    /// Hands bytes over. An error says why the file has ended.
    pub fn append(&self, bytes: Vec<u8>, opens_segment: bool) -> Result<(), String> {
        if let Ok(failure) = self.failures.try_recv() {
            return Err(failure);
        }
        let more = bytes.len() as u64;
        let behind = self.shared.behind.fetch_add(more, Ordering::AcqRel) + more;
        if behind > MOST_BEHIND {
            return Err(format!("the disk is {} MiB behind", MOST_BEHIND >> 20));
        }
        let gone = |_| "the file's thread is gone".to_owned();
        if opens_segment {
            self.sender.send(Message::Segment).map_err(gone)?;
        }
        self.sender.send(Message::Append(bytes)).map_err(gone)?;
        self.shared.bell.ring();
        Ok(())
    }

    /// Why the file has ended, if it has.
    pub fn failure(&self) -> Option<String> {
        self.failures.try_recv().ok()
    }

    /// Asks for a ticket to be served once all that was handed over is in the file.
    pub fn flush(&self, ticket: u64) {
        let _ = self.sender.send(Message::Flushed(ticket));
        self.shared.bell.ring();
    }

    /// Waits until everything is in the file; false if that takes longer than `patience`.
    pub fn drain(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.shared.behind.load(Ordering::Acquire) > 0 {
            if Instant::now() >= deadline {
                return false;
            }
            if !self.failures.is_empty() {
                return true;
            }
            cancel::sleep(Duration::from_micros(100));
        }
        true
    }
}

fn serve(
    messages: &Receiver<Message>,
    sink: &mut Sink,
    mut keeper: Keeper,
    presence: &mut Presence,
    shared: &Shared,
    mut length: u64,
    flushed: &AtomicU64,
) -> Result<(), String> {
    loop {
        presence.attend(sink);
        let rung = shared.bell.rung();
        let message = match messages.try_recv() {
            Ok(message) => message,
            Err(TryRecvError::Empty) => {
                shared.bell.wait(rung, LONGEST_WAIT);
                continue;
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        match message {
            Message::Append(bytes) => {
                sink.append(&bytes).map_err(|error| plain(&error))?;
                length += bytes.len() as u64;
                if keeper.is_due(length) {
                    length = keeper
                        .compact(sink, length, |new| presence.show(new))
                        .map_err(|error| plain(&error))?;
                }
                shared
                    .behind
                    .fetch_sub(bytes.len() as u64, Ordering::AcqRel);
            }
            Message::Segment => keeper.segment_at(length),
            Message::Flushed(ticket) => {
                presence.flushed(ticket, sink);
                flushed.store(ticket, Ordering::Release);
            }
        }
    }
}

/// The system's words without the number behind them.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error") {
        Some(at) => text[..at].into(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    static FLUSHED: AtomicU64 = AtomicU64::new(0);

    fn start(sink: Sink) -> Disk {
        let (keeper, presence) = (Keeper::new(None, Vec::new()), Presence::new(false));
        Disk::start(sink, keeper, presence, 0, &FLUSHED).expect("a thread")
    }

    #[test]
    fn what_was_handed_over_is_in_the_file_when_the_ticket_is_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.trace");
        let file = std::fs::File::create(&path).expect("a file");
        let sink = Sink::new(file, path.clone()).expect("a sink");
        let disk = start(sink);
        for number in 0..100u8 {
            disk.append(vec![number; 1000], number == 50).expect("room");
        }
        disk.flush(7);
        assert!(disk.drain(Duration::from_secs(20)));
        while FLUSHED.load(Ordering::Acquire) != 7 {
            std::thread::yield_now();
        }
        let bytes = std::fs::read(&path).expect("the file");
        assert!(
            bytes
                .chunks(1000)
                .zip(0..100u8)
                .all(|(chunk, number)| chunk == [number; 1000])
        );
        assert_eq!(bytes.len(), 100_000);
    }

    #[test]
    fn a_place_that_takes_nothing_holds_up_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
        // SAFETY: a NUL-terminated path.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        // A pipe that nobody empties: the second write waits for ever.
        let pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("a pipe");
        let sink = Sink::new(pipe, path).expect("a sink");
        let disk = start(sink);
        let chunk = 1 << 20;
        let taken = (0..200).position(|_| disk.append(vec![0; chunk], false).is_err());
        assert_eq!(taken, Some(64), "64 MiB wait, then the file ends");
        assert!(!disk.drain(Duration::from_millis(20)));
    }
}
