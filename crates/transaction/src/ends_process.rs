//! Panics after which the process must not go on.

/// Ends the process if there is a panic while this lives, where going on would harm others. To a database with a log this
/// is a crash: what was committed is not lost by it.
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
