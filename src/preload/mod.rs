//! The half that lives in the watched process.

mod captures;
mod channel;
mod config;
mod devices;
mod doors;
mod guard;
mod hooks;
mod intern;
mod libraries;
mod names;
mod place;
mod privacy;
mod process;
mod raw;
mod record;
mod report;
mod stack;
mod state;
mod threads;
mod writer;
