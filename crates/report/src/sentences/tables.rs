//! Titles of tables, and what stands in empty ones.

/// A table without rows.
#[must_use]
pub fn table_empty(at: crate::table::At, layer: crate::table::Layer) -> &'static str {
    use crate::table::{At, Layer};
    match at {
        At::Peak if layer == Layer::Cache => "no blocks inside a framework's cache were seen",
        At::Exit if layer == Layer::Cache => "nothing is handed out",
        At::Peak => "no device memory was allocated",
        At::Exit => "nothing that was allocated on a device is live",
        At::Oom => "memory never ran out",
    }
}

/// Titles of grouped tables.
#[must_use]
pub fn table_title(at: crate::table::At, layer: crate::table::Layer) -> &'static str {
    use crate::table::{At, Layer};
    match at {
        At::Peak if layer == Layer::Cache => {
            "Inside the framework's cache when most was handed out"
        }
        At::Exit if layer == Layer::Cache => "Inside the framework's cache at the end",
        At::Oom if layer == Layer::Cache => "Inside the framework's cache when memory ran out last",
        At::Peak => "Device memory at the peak",
        At::Exit => "Live at the end",
        At::Oom => "Live when memory ran out last",
    }
}
