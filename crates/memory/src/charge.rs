//! Memory that others than this crate map, in the [`account`] for as long as its owner lives.

use crate::account;

/// Bytes in the account; none of them when this is dropped.
#[derive(Default, Debug)]
pub struct Charge(usize);

impl Charge {
    /// So many bytes more in the account.
    pub fn of(bytes: usize) -> Charge {
        let mut charge = Charge::default();
        charge.set(bytes);
        charge
    }

    /// It is so many bytes now. Two instructions if it was before; allocates nothing, so that signal handlers may call it.
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.0 {
            account::note_mapped(bytes - self.0);
        } else if bytes < self.0 {
            account::note_unmapped(self.0 - bytes);
        }
        self.0 = bytes;
    }

    /// Bytes in the account.
    pub fn bytes(&self) -> usize {
        self.0
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}
