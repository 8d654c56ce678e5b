//! What a benchmark was asked for.

/// The arguments of this program, without the `--bench` that `cargo bench` adds.
pub fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
