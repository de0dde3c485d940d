//! Memory that processes share: what this one offered to others, and what it opened of theirs. The owner counts it; here
//! is only who has it, so that a merged view can tell what was freed while others had it open.

use crate::announcements::Origin;
use crate::blocks::{Block, Class};
use crate::hash::Map;
use crate::ledger::Ledger;
use crate::rows::RowId;
use oomhook_trace::record::Deed;
use serde::{Deserialize, Serialize};

/// Exports and imports kept of each; the rest is counted.
const MOST: usize = 4096;

/// Memory that was offered to other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The block's address, or the handle.
    pub address: u64,
    /// Its bytes, if known.
    pub bytes: u64,
    /// Its device.
    pub device: Option<u8>,
    /// Print of the handle that others get; 0 if it cannot be told by that.
    pub print: u64,
    /// Who offered it first.
    pub by: Origin,
    /// How often.
    pub times: u64,
    /// Where the block came from.
    pub row: Option<RowId>,
    /// Who ended it.
    pub freed: Option<Origin>,
}

/// Memory of another process that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Where it was opened.
    pub address: u64,
    /// Its bytes, if known.
    pub bytes: u64,
    /// Its device.
    pub device: Option<u8>,
    /// Print of the handle; 0 if it cannot be told by that.
    pub print: u64,
    /// Who opened it first.
    pub by: Origin,
    /// How often it was opened.
    pub opens: u64,
    /// How often it was closed.
    pub closes: u64,
    /// When the last close came that left nothing open.
    pub closed_ns: Option<u64>,
    /// It went with its context.
    pub released: bool,
}

/// All of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// Calls that offered memory.
    pub exported: u64,
    /// Calls that opened memory.
    pub opened: u64,
    /// Calls that closed it.
    pub closed: u64,
    exports: Vec<Export>,
    imports: Vec<Import>,
    #[serde(skip)]
    offered: Map<u64, Vec<u32>>,
    #[serde(skip)]
    open: Map<u64, u32>,
}

impl Shares {
    /// What was offered, in order.
    #[must_use]
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// What was opened, in order.
    #[must_use]
    pub fn imports(&self) -> &[Import] {
        &self.imports
    }

    pub(crate) fn reindex(&mut self) {
        for (export, number) in self.exports.iter().zip(0..) {
            if export.freed.is_none() {
                self.offered.entry(export.address).or_default().push(number);
            }
        }
        for (import, number) in self.imports.iter().zip(0..) {
            if import.closed_ns.is_none() {
                self.open.insert(import.address, number);
            }
        }
    }

    fn export(&mut self, export: Export) {
        self.exported += 1;
        let offered = self.offered.entry(export.address).or_default();
        for number in offered.iter() {
            let known = &mut self.exports[*number as usize];
            if known.print == export.print {
                known.times += 1;
                return;
            }
        }
        if self.exports.len() < MOST {
            offered.push(self.exports.len() as u32);
            self.exports.push(export);
        }
    }

    pub(crate) fn import(&mut self, deed: &Deed) {
        self.opened += 1;
        if let Some(number) = self.open.get(&deed.subject) {
            self.imports[*number as usize].opens += 1;
        } else if self.imports.len() < MOST {
            self.open.insert(deed.subject, self.imports.len() as u32);
            self.imports.push(Import {
                address: deed.subject,
                bytes: deed.value,
                device: deed.device,
                print: deed.other,
                by: by(deed),
                opens: 1,
                closes: 0,
                closed_ns: None,
                released: false,
            });
        }
    }

    /// Nothing was ever shared: the rule, which should cost nothing.
    fn is_empty(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty()
    }

    /// A block that others may have is freed.
    pub(crate) fn freed(&mut self, block: &Block, origin: Origin) {
        if self.is_empty() {
            return;
        }
        for number in self.offered.remove(&block.address).unwrap_or_default() {
            self.exports[number as usize].freed = Some(origin);
        }
    }

    /// It was not.
    pub(crate) fn unfreed(&mut self, block: &Block, origin: Origin) {
        if self.is_empty() {
            return;
        }
        let exports = self.exports.iter_mut().zip(0..);
        let back = exports
            .filter(|(export, _)| export.address == block.address && export.freed == Some(origin));
        for (export, number) in back {
            export.freed = None;
            self.offered.entry(block.address).or_default().push(number);
        }
    }

    /// Memory of another process is closed once.
    pub(crate) fn close(&mut self, address: u64, time_ns: u64) {
        let Some(number) = self.open.get(&address).copied() else {
            return;
        };
        self.closed += 1;
        let import = &mut self.imports[number as usize];
        import.closes += 1;
        if import.closes >= import.opens {
            import.closed_ns = Some(time_ns);
            self.open.remove(&address);
        }
    }

    /// It was not.
    pub(crate) fn unclose(&mut self, address: u64) {
        let last = self
            .imports
            .iter()
            .rposition(|import| import.address == address && import.closes > 0);
        if let Some(number) = last {
            let import = &mut self.imports[number];
            self.closed = self.closed.saturating_sub(1);
            import.closes -= 1;
            import.closed_ns = None;
            self.open.insert(address, number as u32);
        }
    }

    /// A context took it along.
    pub(crate) fn release(&mut self, address: u64, time_ns: u64) {
        if let Some(number) = self.open.remove(&address) {
            let import = &mut self.imports[number as usize];
            import.closed_ns = Some(time_ns);
            import.released = true;
        }
    }

    /// It did not.
    pub(crate) fn unrelease(&mut self, address: u64) {
        let last = self
            .imports
            .iter()
            .rposition(|import| import.address == address && import.released);
        if let Some(number) = last {
            let import = &mut self.imports[number];
            import.closed_ns = None;
            import.released = false;
            self.open.insert(address, number as u32);
        }
    }
}

fn by(deed: &Deed) -> Origin {
    Origin {
        time_ns: deed.time_ns,
        stack: deed.stack,
        thread: deed.thread,
        call: deed.call,
    }
}

impl Ledger {
    /// Memory was offered: the block that the address lies in, if it is known.
    pub(crate) fn export(&mut self, deed: &Deed) {
        let found = [Class::Pointer, Class::Handle]
            .into_iter()
            .find_map(|class| {
                let slot = self.blocks.find(class, deed.subject)?;
                let block = self.blocks.get(slot)?;
                Some((block.address, block.bytes, block.row))
            });
        // Only pointers can lie inside a block; they are what has a print.
        let found = found.or_else(|| {
            if deed.other == 0 {
                return None;
            }
            let block = self.find_around(Class::Pointer, deed.subject)?;
            Some((block.address, block.bytes, block.row))
        });
        let (address, bytes) = match found {
            Some((address, bytes, _)) => (address, bytes),
            None => (deed.subject, deed.value),
        };
        let row = found.map(|(_, _, row)| row);
        let device = row.and_then(|row| self.rows.get(row)?.key.device);
        self.shares.export(Export {
            address,
            bytes,
            device: device.or(deed.device),
            print: deed.other,
            by: by(deed),
            times: 1,
            row,
            freed: None,
        });
    }
}
