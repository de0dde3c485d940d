//! The trace's open file. A program that closes every descriptor (daemons do) closes this one, too, and its number may
//! then stand for a file of the program's: no byte of ours may go there, nor may it be closed as if it were ours.

use super::super::place;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that is appended to as long as it is the one that was opened.
pub struct Sink {
    /// `None` only while being dropped.
    file: Option<File>,
    path: PathBuf,
    identity: Identity,
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(metadata: &Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

impl Sink {
    /// Takes a new file, reached by `path`.
    pub fn new(file: File, path: PathBuf) -> io::Result<Sink> {
        let identity = identity(&file.metadata()?);
        Ok(Sink {
            file: Some(file),
            path,
            identity,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes with one write (more only if the system takes less at once).
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file()?.write_all(bytes)
    }

    /// The open file; opened again if the program has closed it.
    pub fn file(&mut self) -> io::Result<&File> {
        if !self.is_the_file() {
            let again = self.open_again()?;
            self.let_go();
            self.file = Some(again);
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Goes on with another file, which has taken the place of this one.
    pub fn replace(&mut self, file: File) -> io::Result<()> {
        let identity = identity(&file.metadata()?);
        if !self.is_the_file() {
            self.let_go();
        }
        self.identity = identity;
        self.file = Some(file);
        Ok(())
    }

    /// The file, open for reading.
    pub fn read_back(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.path)?;
        if identity(&file.metadata()?) == self.identity {
            Ok(file)
        } else {
            Err(io::Error::other("another file has taken its place"))
        }
    }

    /// True if the descriptor still stands for the file.
    pub fn is_the_file(&self) -> bool {
        let metadata = self.file.as_ref().map(File::metadata);
        matches!(metadata, Some(Ok(metadata)) if identity(&metadata) == self.identity)
    }

    fn open_again(&self) -> io::Result<File> {
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.path)
            .and_then(place::above_standard)?;
        if identity(&file.metadata()?) == self.identity {
            Ok(file)
        } else {
            let text = "the program has closed it, and another file has taken its place";
            Err(io::Error::other(text))
        }
    }

    /// Forgets the descriptor without closing it.
    fn let_go(&mut self) {
        let _ = self.file.take().map(File::into_raw_fd);
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if !self.is_the_file() {
            self.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_descriptor_that_stands_for_another_file_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let file = File::create(&ours).expect("a file");
        let number = file.as_raw_fd();
        let mut sink = Sink::new(file, ours.clone()).expect("a sink");
        sink.append(b"one ").expect("room");
        let other = File::create(&theirs).expect("a file");
        // SAFETY: both are open; the number then stands for the other file, as if the program had closed and opened.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        sink.append(b"two").expect("room");
        drop(sink);
        // SAFETY: a number, which may or may not be open.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert_ne!(flags, -1, "it is still open");
        assert_eq!(std::fs::read(&ours).expect("the file"), b"one two");
        assert_eq!(std::fs::read(&theirs).expect("the file"), b"");
        // SAFETY: left over from above, and nobody's.
        unsafe { libc::close(number) };
    }

    #[test]
    fn a_file_that_is_gone_is_not_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ours");
        let file = File::create(&path).expect("a file");
        let number = file.as_raw_fd();
        let mut sink = Sink::new(file, path.clone()).expect("a sink");
        let other = File::create(folder.path().join("theirs")).expect("a file");
        // SAFETY: as above.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        std::fs::remove_file(&path).expect("the file can go");
        assert!(sink.append(b"two").is_err());
        assert!(!path.exists());
        drop(sink);
        // SAFETY: as above.
        unsafe { libc::close(number) };
    }
}
