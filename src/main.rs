//! The command `oomhook`.
fn main() {}
