//! Why memory ran out, and what helps.

pub mod advice;
pub mod cause;

pub use advice::{Framework, Situation, Version, advice};
pub use cause::Cause;
