//! Keeps the command small: equal functions are kept once, debug information is compressed, and names of functions that only
//! profilers want are left out, unless `ANKERDB_SYMBOLS=1` asks for them. Backtraces have ours from the debug information.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ANKERDB_SYMBOLS");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let profile = std::env::var("PROFILE").unwrap_or_default();
    if target("OS") != "linux" || profile != "release" {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--compress-debug-sections=zlib");
    // Here the linker is LLVM's, which others may not be.
    if target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
    if std::env::var("ANKERDB_SYMBOLS").as_deref() != Ok("1") {
        println!("cargo::rustc-link-arg-bins=-Wl,--discard-all");
    }
}
