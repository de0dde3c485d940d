//! A trace to a ledger.

use crate::ledger::Ledger;
use oomhook_trace::read::Ending;
use oomhook_trace::{Header, Item, Reader};
use std::io::{Read, Seek};

/// A trace, read to its end.
pub struct Replay {
    /// Who was watched.
    pub header: Header,
    /// The books.
    pub ledger: Ledger,
    /// What could not be read.
    pub damage: Vec<String>,
    /// Segments that are not in the file any more; the totals still know them.
    pub first_segment: u32,
    /// How the trace ends.
    pub ending: Ending,
    /// The last of the damage is that the tail does not hold: of a file that is being written, the latest chunk.
    pub cut: bool,
}

/// Reads a trace to its end. Where events are missing, the next checkpoint puts the books right again.
pub fn replay<R: Read + Seek>(mut reader: Reader<R>) -> Replay {
    let mut ledger = Ledger::default();
    let mut damage = Vec::new();
    let mut first_segment = 0;
    // True while the ledger does not know what came before.
    let mut behind = true;
    let mut empty = true;
    // True directly after a checkpoint. Where only states are kept and no events, each is newer than the one before it.
    let mut at_checkpoint = false;
    for item in reader.by_ref() {
        match item {
            Item::Record(record) => {
                ledger.apply(&record);
                at_checkpoint = false;
                if empty {
                    behind = false;
                }
                empty = false;
            }
            Item::Checkpoint {
                segment,
                state,
                records,
            } => {
                if behind || at_checkpoint {
                    match Ledger::restore(&state, &records) {
                        Ok(restored) => {
                            ledger = restored;
                            behind = false;
                        }
                        Err(error) => damage.push(format!(
                            "the checkpoint of segment {segment} cannot be used: {error}"
                        )),
                    }
                    if empty {
                        first_segment = segment;
                    }
                }
                empty = false;
                at_checkpoint = true;
            }
            Item::Damage { what } => {
                damage.push(what);
                behind = true;
                empty = false;
            }
        }
    }
    Replay {
        header: reader.header().clone(),
        ending: reader.ending(),
        cut: reader.is_cut(),
        ledger,
        damage,
        first_segment,
    }
}
