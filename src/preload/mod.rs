//! The half that lives in the watched process.

mod bell;
mod cancel;
mod captures;
mod channel;
mod config;
mod costs;
mod devices;
mod doors;
mod environment;
mod frameworks;
mod guard;
mod hooks;
mod host;
mod injection;
mod intern;
mod libraries;
mod loader;
mod log;
mod memory;
mod names;
mod nvml;
mod on_demand;
mod phases;
mod place;
mod pretend;
mod privacy;
mod process;
mod raw;
mod record;
mod report;
mod stack;
mod state;
mod talk;
mod thread;
mod threads;
mod writer;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: memory::Careful = memory::Careful;

#[cfg(test)]
const _: memory::Careful = memory::Careful;
