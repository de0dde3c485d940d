//! What oomhook says: the JSON schema, the text report, the gate, and every sentence in them. Pure: no file, no
//! clock, no environment. It is linked into the watched process and into the command.
//!
//! | module | duty |
//! |---|---|
//! | [`symbols`] | what the outside must know: address to function, file, line |
//! | [`attribution`] | which frame of a stack a person can change |
//! | [`resolve`] | stacks to frames and sites, each once |
//! | [`schema`] | the JSON, key by key |
//! | [`assemble`] | a ledger to the JSON |
//! | [`sites`] | blocks summed by site |
//! | [`cache`] | what is inside a framework's cache: keys and ledger |
//! | [`leaks`] | what is left at the end, and of which kind |
//! | [`diagnosis`] | why memory ran out, and what helps |
//! | [`objects`] | what holds memory that no allocation call shows |
//! | [`held`] | pools, graphs, physical and shared memory: keys and ledger |
//! | [`sharing`] | who has whose memory, over several processes |
//! | [`phases`] | what lived in phases, and what they left behind: keys and ledger |
//! | [`roles`] | what blocks of a cache are for |
//! | `pretended` | what the process was told differently |
//! | [`merge`] | several processes as one report |
//! | [`verdict`] | the one thing to say first |
//! | [`text`] | the report for people |
//! | [`table`] | one table, grouped as asked |
//! | [`gate`] | passed, failed, or no data |
//! | [`baseline`] | what a gate compares with |
//! | [`suppress`] | leaks to leave out |
//! | [`units`] | sizes and times, read and written |
//! | [`capacity`] | how much memory devices are pretended to have |
//! | [`settings`], [`signals`] | what people set by environment |
//! | [`sentences`] | every sentence a user reads |
#![forbid(unsafe_code)]

pub mod account;
pub mod assemble;
pub mod attribution;
pub mod baseline;
pub mod cache;
pub mod capacity;
pub mod clean;
pub mod diagnosis;
pub mod failures;
pub mod gate;
pub mod held;
pub mod leaks;
mod leaves;
pub mod log;
pub mod merge;
pub mod objects;
pub mod over_time;
pub mod phases;
mod pretended;
pub mod resolve;
pub mod roles;
pub mod roles_table;
pub mod schema;
pub mod sentences;
pub mod settings;
pub mod sharing;
pub mod signals;
pub mod sites;
pub mod suppress;
pub mod symbols;
pub mod table;
pub mod text;
pub mod units;
pub mod verdict;

pub use assemble::Facts;
pub use capacity::Capacity;
pub use merge::Reports;
pub use resolve::{Depth, Resolver};
pub use schema::Report;
pub use suppress::Suppressions;
pub use symbols::{NoSymbols, Symbol, Symbols};
