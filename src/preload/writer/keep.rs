//! Keeps a trace within its bound: when it has grown, its newest segments move to a new file that takes its place. Each
//! segment opens with a checkpoint, so what goes is history, never a total, a peak or a leak.

use super::super::place;
use super::sink::Sink;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where the segments of a file begin, and how long it may get.
pub struct Keeper {
    /// Most bytes of the file; `None` keeps everything.
    bound: Option<u64>,
    /// The header, which every file opens with.
    header: Vec<u8>,
    /// Offsets of the segments after the first.
    segments: Vec<u64>,
}

impl Keeper {
    /// For a file that so far has its header.
    pub fn new(bound: Option<u64>, header: Vec<u8>) -> Keeper {
        Keeper {
            bound,
            header,
            segments: Vec::new(),
        }
    }

    /// A segment begins at this offset.
    pub fn segment_at(&mut self, offset: u64) {
        self.segments.push(offset);
    }

    /// True when the file should give up its old segments: the copy of what stays must fit beside it within the bound.
    pub fn is_due(&self, length: u64) -> bool {
        self.bound.is_some_and(|bound| length > bound / 3 * 2) && self.cut(length).is_some()
    }

    /// Where what stays begins: the oldest segment within the last third of the bound, or else the newest one.
    fn cut(&self, length: u64) -> Option<u64> {
        let third = self.bound? / 3;
        let within = self.segments.iter().find(|start| length - **start <= third);
        within.or(self.segments.last()).copied()
    }

    /// Moves what stays to a new file in the old one's place; the new file's length. The new one is shown to `ready` before
    /// anybody can see it.
    pub fn compact(
        &mut self,
        sink: &mut Sink,
        length: u64,
        ready: impl FnOnce(&File),
    ) -> io::Result<u64> {
        let Some(cut) = self.cut(length) else {
            return Ok(length);
        };
        let path = sink.path().to_path_buf();
        // Closing it loses the locks on the old file, so it stays open until the new one has its place.
        let mut old = sink.read_back()?;
        let temporary = beside(&path);
        let new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&temporary)
            .and_then(place::above_standard)?;
        match self.fill(&mut old, new, cut, length) {
            Ok(file) => {
                ready(&file);
                std::fs::rename(&temporary, &path)?;
                sink.replace(file)?;
            }
            Err(error) => {
                // What is left of the attempt would only take the room that is missing.
                let _ = std::fs::remove_file(&temporary);
                return Err(error);
            }
        }
        let head = self.header.len() as u64;
        self.segments.retain(|start| *start >= cut);
        self.segments
            .iter_mut()
            .for_each(|start| *start = *start - cut + head);
        Ok(head + length - cut)
    }

    fn fill(&self, old: &mut File, mut new: File, cut: u64, length: u64) -> io::Result<File> {
        new.write_all(&self.header)?;
        old.seek(SeekFrom::Start(cut))?;
        let copied = io::copy(&mut old.take(length - cut), &mut new)?;
        if copied == length - cut {
            Ok(new)
        } else {
            Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the trace is shorter than it was",
            ))
        }
    }
}

/// A name of the same folder that no reader takes for a trace.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".part");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink(folder: &Path) -> Sink {
        let path = folder.join("a.trace");
        Sink::new(File::create(&path).expect("a file"), path).expect("a sink")
    }

    #[test]
    fn old_segments_go_and_the_file_stays_within_its_bound() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sink = sink(folder.path());
        let mut keeper = Keeper::new(Some(3000), b"head".to_vec());
        sink.append(b"head").expect("room");
        let mut length = 4u64;
        for number in 0..100u8 {
            if number > 0 {
                keeper.segment_at(length);
            }
            sink.append(&[number; 100]).expect("room");
            length += 100;
            if keeper.is_due(length) {
                length = keeper.compact(&mut sink, length, |_| {}).expect("room");
            }
            let bytes = std::fs::read(sink.path()).expect("the file");
            assert_eq!(bytes.len() as u64, length);
            assert!(length <= 2100, "{length}");
            assert!(bytes.starts_with(b"head"));
            // Whole segments, the newest last.
            assert_eq!((bytes.len() - 4) % 100, 0);
            assert_eq!(bytes[bytes.len() - 100..], [number; 100]);
            let first = bytes[4];
            assert!(
                bytes[4..]
                    .chunks(100)
                    .zip(first..)
                    .all(|(chunk, wanted)| chunk == [wanted; 100])
            );
        }
        assert_eq!(
            std::fs::read_dir(folder.path())
                .expect("the folder")
                .count(),
            1
        );
    }

    #[test]
    fn a_segment_larger_than_the_bound_stays_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut sink = sink(folder.path());
        let mut keeper = Keeper::new(Some(300), b"head".to_vec());
        sink.append(b"head").expect("room");
        sink.append(&[1; 500]).expect("room");
        assert!(!keeper.is_due(504), "nothing can go yet");
        keeper.segment_at(504);
        sink.append(&[2; 500]).expect("room");
        assert!(keeper.is_due(1004));
        assert_eq!(keeper.compact(&mut sink, 1004, |_| {}).expect("room"), 504);
        assert_eq!(std::fs::read(sink.path()).expect("the file")[4..], [2; 500]);
    }

    #[test]
    fn without_a_bound_nothing_goes() {
        let mut keeper = Keeper::new(None, Vec::new());
        keeper.segment_at(10);
        assert!(!keeper.is_due(u64::MAX));
    }
}
