//! Messages of the real world, each with the numbers that are in it and the likely reason.
