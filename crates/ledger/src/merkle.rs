//! The Merkle tree over the transactions of a block, by which one of them is proved to be in it without the others (the tree of
//! RFC 6962: leaves and inner nodes are hashed for different purposes, and the left part is the largest power of two).
//!
//! ```text
//!            root                 a proof of c: [d, ab]
//!          /      \
//!        ab        cd
//!       /  \      /  \
//!      a    b    c    d
//! ```

use crate::hash::LedgerHash;

/// The hash of a transaction, with whether it succeeded.
pub fn leaf(transaction: &[u8], has_succeeded: bool) -> LedgerHash {
    LedgerHash::of("leaf", &[&[u8::from(has_succeeded)], transaction])
}

fn node(left: &LedgerHash, right: &LedgerHash) -> LedgerHash {
    LedgerHash::of("node", &[&left.0, &right.0])
}

/// Where a tree of so many leaves is parted.
fn part(leaves: usize) -> usize {
    leaves.next_power_of_two() / 2
}

/// The root of a tree.
pub fn root(leaves: &[LedgerHash]) -> LedgerHash {
    match leaves {
        [] => LedgerHash::of("empty tree", &[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(part(leaves.len()));
            node(&root(left), &root(right))
        }
    }
}

/// The neighbours of a leaf on the way up, the lowest first.
///
/// # Panics
/// If there is no such leaf.
pub fn path(leaves: &[LedgerHash], index: usize) -> Vec<LedgerHash> {
    assert!(index < leaves.len(), "leaf {index} of {}", leaves.len());
    if leaves.len() == 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(part(leaves.len()));
    let (mut found, other) = match index.checked_sub(left.len()) {
        None => (path(left, index), root(right)),
        Some(index) => (path(right, index), root(left)),
    };
    found.push(other);
    found
}

/// The root that a leaf at this place and its path give, or nothing if the path has another length.
pub fn climb(leaf: LedgerHash, index: usize, leaves: usize, path: &[LedgerHash]) -> Option<LedgerHash> {
    if index >= leaves {
        return None;
    }
    if leaves == 1 {
        return path.is_empty().then_some(leaf);
    }
    let (last, below) = path.split_last()?;
    let at = part(leaves);
    match index.checked_sub(at) {
        None => Some(node(&climb(leaf, index, at, below)?, last)),
        Some(index) => Some(node(last, &climb(leaf, index, leaves - at, below)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_of_every_tree_is_proved_and_nothing_else() {
        for count in 1..40_usize {
            let leaves: Vec<LedgerHash> = (0..count).map(|at| leaf(&[at as u8], true)).collect();
            let top = root(&leaves);
            for index in 0..count {
                let way = path(&leaves, index);
                assert_eq!(climb(leaves[index], index, count, &way), Some(top));
                assert_ne!(climb(leaf(&[index as u8], false), index, count, &way), Some(top));
                assert_ne!(
                    climb(leaves[index], (index + 1) % count, count, &way),
                    Some(top).filter(|_| count > 1)
                );
                let longer = [way.clone(), vec![top]].concat();
                assert_eq!(climb(leaves[index], index, count, &longer), None);
            }
        }
    }
}
