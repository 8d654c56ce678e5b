//! Panics that must not be survived.

/// Ends the process when a panic passes by, where going on would do harm to others. What was committed is not lost by it:
/// it is what a crash is to whoever keeps a log.
pub(crate) struct EndsProcess(pub &'static str);

impl Drop for EndsProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "ankerdb: a commit panicked {}; the process ends, so that nobody sees half of it.",
                self.0
            );
            std::process::abort();
        }
    }
}
