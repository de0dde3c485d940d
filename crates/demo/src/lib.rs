//! The demo's own GPU allocations, through the driver API, with a safe interface.
//!
//! [`driver`] is the interface; [`story`] is what the demo does with it: a small server with a leak, a peak and an
//! allocation that does not fit.

pub mod driver;
pub mod story;
