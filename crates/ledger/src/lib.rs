//! Replays the events of a process into the truth about its GPU memory: what lives, what the peak was made of, what
//! leaked, what ran out.
//!
//! It runs in the watched process (fed by the writer, so that a report is ready at any instant) and in the command.
//! Each event costs constant work, except the rare ones that touch many blocks by nature (a reset, a destroyed
//! context, a failing free, a failing allocation).
//!
//! | module | duty |
//! |---|---|
//! | [`ledger`] | takes records, keeps the books |
//! | [`answers`] | what the books can be asked |
//! | [`amount`] | sums of bytes and blocks |
//! | [`blocks`] | the living blocks and how to find one by its address |
//! | [`rows`] | blocks summed by origin, now and at the peak |
//! | [`devices`] | live bytes and peaks, by device and space |
//! | [`announcements`] | frees and releases that may still be taken back |
//! | [`frees`] | frees, their undoing, and what was wrong with the failing ones |
//! | [`history`] | blocks freed lately |
//! | [`vmm`] | references and mappings of physical memory |
//! | [`contexts`] | contexts, and the memory that goes with them |
//! | [`costs`] | what calls took without saying so, and looks at whole devices |
//! | [`objects`] | modules, graphs, streams and their like, by kind and by maker |
//! | [`graphs`] | nodes that allocate, and the memory that the driver keeps for graphs |
//! | [`oom`] | failed allocations |
//! | [`pools`] | memory pools: the driver's figures, and the books beside them |
//! | [`reserve`] | what a pool had reserved at the peak |
//! | [`shares`] | what was offered to other processes, and what was opened of theirs |
//! | [`tensors`] | blocks inside a framework's cache |
//! | [`holes`] | where in the cache's segments there is room |
//! | [`gave_up`] | the cache at the moment of a failure |
//! | [`log`] | the program's own output lines, a table of its steps, and where memory jumped |
//! | [`phases`] | ranges and rounds of the program, and what lived in them |
//! | [`growth`] | what each round of a phase leaves behind |
//! | [`shapes`] | the shapes of that, as people know them |
//! | [`series`] | live bytes over the life of the process |
//! | [`anomalies`] | what was wrong with frees and registrations |
//! | [`definitions`] | names, libraries, frames, stacks, threads, devices |
//! | [`checkpoint`] | the whole state, to go on from it elsewhere |
//! | [`mod@replay`] | a trace file to a ledger |
#![forbid(unsafe_code)]

pub mod amount;
pub mod announcements;
pub mod anomalies;
pub mod answers;
mod apart;
pub mod belongings;
pub mod blocks;
pub mod checkpoint;
pub mod contexts;
pub mod costs;
pub mod definitions;
pub mod devices;
mod failing;
pub mod frees;
pub mod gave_up;
pub mod graphs;
pub mod growth;
mod hash;
mod heights;
pub mod history;
pub mod holes;
mod index;
pub mod ledger;
pub mod log;
mod mapping;
pub mod objects;
pub mod oom;
mod phase;
pub mod phases;
mod pool_ends;
pub mod pools;
pub mod replay;
pub mod reserve;
pub mod rows;
mod runs;
pub mod series;
pub mod shapes;
pub mod shares;
pub mod tensors;
pub mod vmm;

pub use amount::{Amount, SpaceUse};
pub use ledger::{End, Ledger, ThreadUse, Totals};
pub use replay::{Replay, replay};
pub use rows::{Row, RowId, RowKey};
