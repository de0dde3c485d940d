//! Why memory ran out, and what helps.

pub mod advice;
pub mod cause;
pub mod end;
pub mod failure;
pub mod judgement;
pub mod situation;
pub mod stays;

pub use advice::{Framework, Situation, Version, advice};
pub use cause::Cause;
pub use judgement::{Also, Diagnosis};
