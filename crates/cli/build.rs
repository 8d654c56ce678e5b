//! Keeps the command small: equal functions are kept once, and what only debuggers and profilers read, names of functions and
//! of lines, is left out, unless `ANKERDB_SYMBOLS=1` asks for it. Messages of panics name their line in either case.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ANKERDB_SYMBOLS");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let profile = std::env::var("PROFILE").unwrap_or_default();
    if target("OS") != "linux" || profile != "release" {
        return;
    }
    // Here the linker is LLVM's, which others may not be.
    if target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
    let asked_for = std::env::var("ANKERDB_SYMBOLS").as_deref() == Ok("1");
    println!(
        "cargo::rustc-link-arg-bins=-Wl,{}",
        if asked_for { "--compress-debug-sections=zlib" } else { "--strip-all" }
    );
}
