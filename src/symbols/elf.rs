//! What is to be known of an ELF file before it is asked for names: which build it is, which tables it has, and which
//! files stand beside it. It reads headers only, whatever the file's size.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{ReadCache, ReadRef};
use rustix::fs::OFlags;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What is known of a file.
pub struct Elf {
    /// Where it is.
    pub path: PathBuf,
    /// The open file.
    pub file: File,
    /// When it was last written.
    pub written: Option<SystemTime>,
    /// Build-id; empty if it has none.
    pub build_id: Vec<u8>,
    /// Bytes from the lowest to the highest mapped address.
    pub span: u64,
    /// All functions.
    pub symtab: Option<Place>,
    /// The exported ones.
    pub dynsym: Option<Place>,
    /// It has debug information.
    pub has_debug: bool,
    /// Bytes that its packed debug information takes unpacked.
    pub unpacked: u64,
    /// Name and checksum of the file that its debug information was moved to.
    pub debug_link: Option<(PathBuf, u32)>,
    /// Path and build-id of a file that holds what several files' debug information has in common.
    pub alt_link: Option<(PathBuf, Vec<u8>)>,
}

/// Where a symbol table and its names are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First byte of the table.
    pub offset: u64,
    /// Its bytes.
    pub size: u64,
    /// First byte of the names.
    pub names: u64,
    /// Their bytes.
    pub names_size: u64,
}

/// Why a file tells nothing.
#[derive(Debug)]
pub enum Bad {
    /// There is none.
    Missing,
    /// A directory, a pipe, a device.
    NotAFile,
    /// The system refuses.
    Unreadable(std::io::Error),
    /// No ELF file, or a damaged one.
    Damaged,
}

/// Opens a regular file. Anything else might wait for ever.
pub fn open(path: &Path) -> Result<File, Bad> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Bad::Missing,
        _ => Bad::Unreadable(error),
    };
    if !std::fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Bad::NotAFile);
    }
    // What it is may have changed since: a pipe does not make this wait.
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(refused)?;
    match file.metadata().map_err(refused)?.is_file() {
        true => Ok(file),
        false => Err(Bad::NotAFile),
    }
}

impl Elf {
    /// Looks at a file.
    pub fn look(path: &Path) -> Result<Elf, Bad> {
        let file = open(path)?;
        let written = file.metadata().and_then(|data| data.modified()).ok();
        let again = file.try_clone().map_err(Bad::Unreadable)?;
        let cache = ReadCache::new(again);
        let mut elf = Elf {
            path: path.to_owned(),
            file,
            written,
            build_id: Vec::new(),
            span: 0,
            symtab: None,
            dynsym: None,
            has_debug: false,
            unpacked: 0,
            debug_link: None,
            alt_link: None,
        };
        elf.read(&cache).map_err(|_| Bad::Damaged)?;
        Ok(elf)
    }

    fn read<'a>(&mut self, data: impl ReadRef<'a>) -> object::read::Result<()> {
        let header = FileHeader64::<LE>::parse(data)?;
        let endian = header.endian()?;
        let (mut low, mut high) = (u64::MAX, 0);
        for segment in header.program_headers(endian, data)? {
            match segment.p_type(endian) {
                elf::PT_LOAD => {
                    let start = segment.p_vaddr(endian);
                    low = low.min(start);
                    high = high.max(start.saturating_add(segment.p_memsz(endian)));
                }
                // In a file that keeps debug information only, segments have no content.
                elf::PT_NOTE if self.build_id.is_empty() => {
                    if let Ok(Some(notes)) = segment.notes(endian, data) {
                        self.build_id = build_id(notes, endian).unwrap_or_default();
                    }
                }
                _ => {}
            }
        }
        self.span = high.saturating_sub(low);
        let sections = header.sections(endian, data)?;
        for section in sections.iter() {
            let name = sections.section_name(endian, section).unwrap_or_default();
            match section.sh_type(endian) {
                elf::SHT_NOTE if name == b".note.gnu.build-id" => {
                    if let Ok(Some(notes)) = section.notes(endian, data) {
                        self.build_id = build_id(notes, endian).unwrap_or_default();
                    }
                }
                kind @ (elf::SHT_SYMTAB | elf::SHT_DYNSYM) => {
                    let link = section.link(endian);
                    let place = sections.section(link).ok().and_then(|names| {
                        let (offset, size) = section.file_range(endian)?;
                        let (names, names_size) = names.file_range(endian)?;
                        (size > 0).then_some(Place {
                            offset,
                            size,
                            names,
                            names_size,
                        })
                    });
                    match kind {
                        elf::SHT_SYMTAB => self.symtab = self.symtab.or(place),
                        _ => self.dynsym = self.dynsym.or(place),
                    }
                }
                elf::SHT_PROGBITS if name == b".gnu_debuglink" => {
                    self.debug_link = section.data(endian, data).ok().and_then(debug_link);
                }
                elf::SHT_PROGBITS if name == b".gnu_debugaltlink" => {
                    self.alt_link = section.data(endian, data).ok().and_then(alt_link);
                }
                elf::SHT_PROGBITS if name.starts_with(b".debug_") => {
                    self.has_debug |= [b".debug_info".as_slice(), b".debug_line"].contains(&name)
                        && section.sh_size(endian) > 0;
                    if let Ok(Some((header, ..))) = section.compression(endian, data) {
                        self.unpacked = self.unpacked.saturating_add(header.ch_size.get(endian));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn build_id(
    mut notes: object::read::elf::NoteIterator<'_, FileHeader64<LE>>,
    endian: LE,
) -> Option<Vec<u8>> {
    while let Ok(Some(note)) = notes.next() {
        if note.name() == elf::ELF_NOTE_GNU && note.n_type(endian) == elf::NT_GNU_BUILD_ID {
            return Some(note.desc().to_vec());
        }
    }
    None
}

fn text_and_rest(data: &[u8]) -> Option<(PathBuf, &[u8])> {
    use std::os::unix::ffi::OsStrExt;
    let end = data.iter().position(|byte| *byte == 0)?;
    let path = std::ffi::OsStr::from_bytes(&data[..end]);
    (end > 0).then(|| (path.into(), &data[end + 1..]))
}

fn debug_link(data: &[u8]) -> Option<(PathBuf, u32)> {
    let (name, _) = text_and_rest(data)?;
    let checksum = data.get(data.len().checked_sub(4)?..)?;
    // A name, not a way out of the folders that are searched.
    let name = PathBuf::from(name.file_name()?);
    Some((name, u32::from_le_bytes(checksum.try_into().ok()?)))
}

fn alt_link(data: &[u8]) -> Option<(PathBuf, Vec<u8>)> {
    let (path, build_id) = text_and_rest(data)?;
    Some((path, build_id.to_vec()))
}
