//! Keeps the command small: equal functions and ends of texts are kept once, addresses that the loader adjusts are packed where it can read them, and
//! what only debuggers and profilers read, names of functions and of lines, is left out, unless `ANKERDB_SYMBOLS=1` asks for it.
//! Messages of panics name their line in either case.

use std::process::Command;

/// The first glibc whose loader reads packed relocations.
const PACKED_SINCE: (u32, u32) = (2, 36);

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
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all,-O2");
        if target("ENV") == "gnu" && loads_packed() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
    let asked_for = std::env::var("ANKERDB_SYMBOLS").as_deref() == Ok("1");
    println!(
        "cargo::rustc-link-arg-bins=-Wl,{}",
        if asked_for { "--compress-debug-sections=zlib" } else { "--strip-all" }
    );
}

/// Whether the C library of this machine, on which the command is to run, starts such a program.
fn loads_packed() -> bool {
    let variable = |name: &str| std::env::var(name).ok();
    variable("HOST") == variable("TARGET") && glibc().is_some_and(|version| version >= PACKED_SINCE)
}

/// The version, which `getconf` tells as `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
