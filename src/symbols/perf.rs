//! Perf maps: what compilers at run time (V8, Julia, CPython with `-X perf`) say of their code in `/tmp/perf-PID.map`,
//! one function a line: start, size (both hexadecimal), name.

use super::elf::{Bad, open};
use super::places::Places;
use oomhook_trace::Header;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Of a longer file the beginning is read.
const MOST_BYTES: u64 = 128 << 20;
/// Longer lines are junk.
const LONGEST_LINE: usize = 16 << 10;
/// A process that ended cannot have written later than this.
const SLACK: Duration = Duration::from_secs(10);

/// A process that was watched.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its machine's name.
    pub host: String,
    /// Its user, if the trace says.
    pub user: Option<u32>,
    /// When the recording began.
    pub began: SystemTime,
    /// When it ended, if it did.
    pub ended: Option<SystemTime>,
}

impl Process {
    /// The process of a trace that lasted so long (`None`: it has not ended).
    pub fn of(header: &Header, lasted: Option<Duration>) -> Process {
        let began = SystemTime::UNIX_EPOCH + Duration::from_nanos(header.process.start_unix_ns);
        Process {
            pid: header.process.pid,
            host: header.process.host.clone(),
            user: header.process.user,
            began,
            ended: lasted.map(|lasted| began + lasted),
        }
    }
}

/// Why a map is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unused {
    /// There is none.
    Missing,
    /// The process ran on another machine, which has its own: this file is another process's.
    OtherMachine(PathBuf),
    /// It was written before the process began, or after it had ended: by another process of that number.
    OtherProcess(PathBuf),
    /// It is somebody else's.
    OtherOwner(PathBuf),
    /// It cannot be read.
    Unreadable(PathBuf),
}

/// The functions of a map.
#[derive(Debug, Default)]
pub struct PerfMap {
    // By start: end, and where the name is among the names.
    functions: BTreeMap<u64, (u64, u32, u32)>,
    names: String,
}

impl PerfMap {
    /// Reads the map of a process.
    ///
    /// # Errors
    /// When there is none that is its own.
    pub fn of(process: &Process, places: &Places) -> Result<PerfMap, Unused> {
        let path = PathBuf::from(format!("/tmp/perf-{}.map", process.pid));
        if let Some(path) = places.in_sysroot(&path) {
            // The user says whose it is.
            return PerfMap::read(&path);
        }
        let data = std::fs::metadata(&path).map_err(|_| Unused::Missing)?;
        let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if here.trim_end() != process.host {
            return Err(Unused::OtherMachine(path));
        }
        let written = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let is_late = process.ended.is_some_and(|ended| written > ended + SLACK);
        if written < process.began || is_late {
            return Err(Unused::OtherProcess(path));
        }
        // Whose files root reads may be anybody's: then the trace's owner is the one to believe.
        let user = process
            .user
            .unwrap_or_else(|| rustix::process::geteuid().as_raw());
        if data.uid() != 0 && data.uid() != user {
            return Err(Unused::OtherOwner(path));
        }
        PerfMap::read(&path)
    }

    /// Reads a map.
    fn read(path: &Path) -> Result<PerfMap, Unused> {
        let file = open(path).map_err(|bad| match bad {
            Bad::Missing => Unused::Missing,
            _ => Unused::Unreadable(path.into()),
        })?;
        Ok(PerfMap::parse(BufReader::new(file.take(MOST_BYTES))))
    }

    /// Takes in what are lines of a map; others are passed over.
    pub fn parse(mut from: impl BufRead) -> PerfMap {
        let mut map = PerfMap::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = from
                .by_ref()
                .take(LONGEST_LINE as u64)
                .read_until(b'\n', &mut line);
            match read {
                Ok(read) if read > 0 => {}
                _ => return map,
            }
            if line.last() != Some(&b'\n') && line.len() == LONGEST_LINE {
                // The rest of a line that is too long.
                if from.skip_until(b'\n').is_err() {
                    return map;
                }
                continue;
            }
            if let Some((start, end, name)) = parse_line(&line) {
                map.add(start, end, &name);
            }
        }
    }

    fn add(&mut self, start: u64, end: u64, name: &str) {
        let at = self.names.len();
        let Ok(at) = u32::try_from(at) else {
            return;
        };
        self.names.push_str(name);
        // Code may be thrown away and other code put in its place: what is written later holds.
        let gone: Vec<u64> = self
            .functions
            .range(start..end)
            .map(|(start, _)| *start)
            .collect();
        for start in gone {
            self.functions.remove(&start);
        }
        self.functions.insert(start, (end, at, name.len() as u32));
    }

    /// The function that covers an address.
    pub fn find(&self, address: u64) -> Option<&str> {
        let (_, (end, at, length)) = self.functions.range(..=address).next_back()?;
        let name = self.names.get(*at as usize..)?.get(..*length as usize)?;
        (address < *end).then_some(name)
    }
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, String)> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.trim_end().splitn(3, ' ');
    let mut number = || {
        let word = words.next()?;
        u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = words.next()?.trim_start();
    let end = start.checked_add(size)?;
    (size > 0 && !name.is_empty()).then(|| (start, end, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junk_is_passed_over_and_later_lines_hold() {
        let mut text = b"1000 20 py::train:/app/train.py\n".to_vec();
        text.extend_from_slice(b"\n\xff\xfe\x00\nzzzz 10 f\n2000\n2000 10\n2000 0 nothing\n");
        text.extend_from_slice(b"ffffffffffffffff 10 wraps\n-1 10 f\n3000 10 \n");
        text.extend_from_slice(&[b'4'; 100_000]);
        text.extend_from_slice(b"\n0x5000 0x10 with prefixes\n1010 8 newer\n6000 10 no end");
        let map = PerfMap::parse(&text[..]);
        assert_eq!(map.find(0x0fff), None);
        assert_eq!(map.find(0x1000), Some("py::train:/app/train.py"));
        assert_eq!(map.find(0x1010), Some("newer"));
        assert_eq!(map.find(0x1018), None);
        for nothing in [0x2000, 0x3000, u64::MAX] {
            assert_eq!(map.find(nothing), None);
        }
        assert_eq!(map.find(0x500f), Some("with prefixes"));
        assert_eq!(map.find(0x6000), Some("no end"));
        assert_eq!(map.functions.len(), 4);
    }
}
