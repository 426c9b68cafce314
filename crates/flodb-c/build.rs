//! Keeps the calls that other packages export for C out of the shared library: where one of them is
//! built with its interface for C, as object stores have theirs, it would be part of this one's.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
    }
}
