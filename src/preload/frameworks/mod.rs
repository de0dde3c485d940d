//! What frameworks say about memory themselves.

pub mod c10;
pub mod nvtx;
pub mod versions;
