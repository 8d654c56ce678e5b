//! Several encoded keys in one piece of memory, to be looked up together.

/// Encoded keys, one behind the other. Kept and used again, it allocates nothing once it is large enough.
#[derive(Default)]
pub struct KeyBatch {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl KeyBatch {
    /// Empties the batch.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The keys, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_were() {
        let mut batch = KeyBatch::default();
        for round in 0..2 {
            batch.clear();
            assert_eq!(batch.iter().count(), 0);
            let keys: [&[u8]; 3] = [b"one", b"", &[round]];
            keys.iter().for_each(|key| batch.push(key));
            assert!(batch.iter().eq(keys));
        }
    }
}
