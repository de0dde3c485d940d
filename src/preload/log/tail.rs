//! The end of the file that stdout or stderr is: what stdio wrote there went past us. Read by the writer when memory runs
//! out and at the end of the process; what stands in stdio's buffers still is not there, and nobody is made to flush.
//!
//! Several processes may write to one file (the ranks of a job): what is read there may be another's line.

use super::clean;
use crate::preload::place;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes read at most.
const MOST: u64 = 64 << 10;
/// Lines read at most.
const MOST_LINES: usize = 64;
/// Lines remembered that came by `write`.
const REMEMBERED: usize = 4096;

/// Prints of our own lines, the latest: they are in the file as well.
static OWN: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
static NEXT_OWN: AtomicUsize = AtomicUsize::new(0);

/// Never 0, which stands for none.
fn print(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash | 1
}

/// We said this ourselves: no line of the program's.
pub fn said(text: &str) {
    for line in text.lines() {
        if let Some(line) = clean::text(line.as_bytes()) {
            let at = NEXT_OWN.fetch_add(1, Ordering::Relaxed) % OWN.len();
            OWN[at].store(print(&line), Ordering::Relaxed);
        }
    }
}

fn is_own(print: u64) -> bool {
    OWN.iter().any(|own| own.load(Ordering::Relaxed) == print)
}

/// Lines that came by `write`, for files in which they stand as well.
#[derive(Default)]
pub struct Seen {
    order: VecDeque<u64>,
    counts: HashMap<u64, u32>,
}

impl Seen {
    /// Remembers a line.
    pub fn add(&mut self, text: &str) {
        let print = print(text);
        self.order.push_back(print);
        *self.counts.entry(print).or_default() += 1;
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, print: u64) -> bool {
        let Some(count) = self.counts.get_mut(&print) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&print);
        }
        true
    }

    /// True if the line was seen; each is found as often as it was seen.
    fn take(&mut self, print: u64) -> bool {
        // Its place in the order stays; it is forgotten there in vain.
        self.forget(print)
    }
}

/// One of the two files, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    device: u64,
    inode: u64,
    read_to: u64,
}

/// The files that stdout and stderr are, if they are regular ones.
#[derive(Default)]
pub struct Tails {
    known: [Option<Known>; 2],
}

fn status(stream: u8) -> Option<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `status` is valid for writes; zeroes are a valid value.
    unsafe {
        (libc::fstat(i32::from(stream), status.as_mut_ptr()) == 0).then(|| status.assume_init())
    }
}

/// True for a stream that gets each line at once: stderr, and a terminal.
pub fn is_at_once(stream: u8) -> bool {
    let is_character =
        || status(stream).is_some_and(|status| status.st_mode & libc::S_IFMT == libc::S_IFCHR);
    stream == 2 || is_character()
}

fn regular(stream: u8) -> Option<Known> {
    let status = status(stream)?;
    (status.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(Known {
        device: status.st_dev,
        inode: status.st_ino,
        read_to: status.st_size as u64,
    })
}

fn is_same(one: &Known, other: &Known) -> bool {
    (one.device, one.inode) == (other.device, other.inode)
}

/// The file of a stream, from `from` to `to`. It is open for writing only, most often: it is opened once more.
fn read(stream: u8, known: &Known, from: u64, to: u64) -> Option<Vec<u8>> {
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{stream}"))
        .and_then(place::above_standard)
        .ok()?;
    // The number may stand for another file by now.
    let about = file.metadata().ok()?;
    if (about.dev(), about.ino()) != (known.device, known.inode) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(to - from).ok()?];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], from + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(length);
    Some(bytes)
}

impl Tails {
    /// As the files are when the recording begins.
    pub fn begin() -> Tails {
        Tails {
            known: [regular(1), regular(2)],
        }
    }

    /// The lines that came into the files since the last look and were not seen, the oldest first.
    pub fn look(&mut self, seen: &mut [Seen; 2], mut tell: impl FnMut(u8, String)) {
        for stream in [1u8, 2] {
            let at = usize::from(stream) - 1;
            let Some(now) = regular(stream) else {
                self.known[at] = None;
                continue;
            };
            let both = stream == 2 && self.known[0].is_some_and(|first| is_same(&first, &now));
            if both {
                // Read already, as the other stream.
                self.known[at] = self.known[0];
                continue;
            }
            let known = self.known[at].filter(|known| is_same(known, &now));
            let begun = known.map_or(0, |known| known.read_to);
            // A file that has become shorter begins anew.
            let begun = if begun > now.read_to { 0 } else { begun };
            let from = begun.max(now.read_to.saturating_sub(MOST));
            let bytes = read(stream, &now, from, now.read_to).unwrap_or_default();
            let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
                self.known[at] = Some(Known {
                    read_to: from,
                    ..now
                });
                continue;
            };
            let mut whole = &bytes[..end];
            if from > begun {
                // The first one begins somewhere before.
                let first = whole.iter().position(|byte| *byte == b'\n');
                whole = first.map_or(&[][..], |at| &whole[at + 1..]);
            }
            self.known[at] = Some(Known {
                read_to: from + end as u64 + 1,
                ..now
            });
            let same = regular(3 - stream).is_some_and(|other| is_same(&other, &now));
            let lines = whole.split(|byte| *byte == b'\n').filter_map(kept);
            let unseen: Vec<String> = lines
                .filter(|text| {
                    let print = print(text);
                    let is_seen = seen[at].take(print) || same && seen[1 - at].take(print);
                    !is_seen && !text.starts_with("oomhook: ") && !is_own(print)
                })
                .collect();
            let skip = unseen.len().saturating_sub(MOST_LINES);
            for text in unseen.into_iter().skip(skip) {
                tell(stream, text);
            }
        }
    }
}

/// What is kept of a line of the file, cut as those are that come by `write`.
fn kept(line: &[u8]) -> Option<String> {
    let mut states = line.rsplit(|byte| *byte == b'\r');
    let last = states.find(|state| !state.is_empty())?;
    clean::text(&last[..last.len().min(super::lines::LONGEST)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_found_as_often_as_it_was_seen() {
        let mut seen = Seen::default();
        for text in ["a", "b", "a"] {
            seen.add(text);
        }
        assert!(seen.take(print("a")) && seen.take(print("a")));
        assert!(!seen.take(print("a")) && !seen.take(print("c")));
        for number in 0..3 * REMEMBERED {
            seen.add(&number.to_string());
        }
        assert!(seen.order.len() <= REMEMBERED && seen.counts.len() <= REMEMBERED);
        assert!(!seen.take(print("b")));
    }

    #[test]
    fn of_a_line_in_a_file_the_last_state_is_kept() {
        let text = |line: &[u8]| kept(line).unwrap_or_default();
        assert_eq!(text(b"plain"), "plain");
        assert_eq!(text(b"\r1%\r2%\r3%"), "3%");
        assert_eq!(text(b"dos\r"), "dos");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn what_we_said_is_not_the_programs() {
        said("oomhook: a line\n  and another one\n");
        assert!(is_own(print("  and another one")));
        assert!(!is_own(print("a line of the program")));
    }
}
