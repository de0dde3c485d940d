//! Gives the library the real driver's soname, and its habit of calling itself:
//! addresses that the resolver hands out must not be taken over by a preload.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    println!("cargo:rerun-if-changed=build.rs");
}
