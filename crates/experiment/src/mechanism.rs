//! What is compared in experiments on databases with serial transactions: mechanisms with their pages, and ours.

use crate::harness::Harness;
use ankerdb_region::PageSize;
use ankerdb_serial::{Mechanism, MemoryKind};

/// Sizes of the pages that shadow copies copy (Caldera copies whole pages of its layouts).
const SHADOW_BYTES: [usize; 3] = [4 << 10, 16 << 10, 64 << 10];

/// What holds for all of these experiments.
pub const SERIAL: &str = "mechanisms are those of a database of its own, whose transactions run one after the other on one thread, without \
                          durability; ours is ankerdb as it is, in memory, serializable, with one client";

/// A mechanism with its pages.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// How snapshots are kept.
    pub mechanism: Mechanism,
    /// Where.
    pub kind: MemoryKind,
}

impl Variant {
    /// A mechanism on small pages.
    pub fn small(mechanism: Mechanism) -> Variant {
        Variant { mechanism, kind: MemoryKind::default() }
    }

    /// A mechanism on pages of 2 MiB.
    pub fn huge(mechanism: Mechanism) -> Variant {
        Variant { mechanism, kind: MemoryKind { pages: PageSize::Huge, ..MemoryKind::default() } }
    }

    /// Those that were asked for; shadow copies with pages of several sizes.
    pub fn all(harness: &Harness<'_>) -> Vec<Variant> {
        let variants = |mechanism: &Mechanism| match mechanism {
            Mechanism::ShadowCopies => SHADOW_BYTES.map(Variant::shadow_copies).to_vec(),
            other => vec![Variant::small(*other)],
        };
        harness.setup.mechanisms.iter().flat_map(variants).collect()
    }

    fn shadow_copies(shadow_bytes: usize) -> Variant {
        let kind = MemoryKind { shadow_bytes, ..MemoryKind::default() };
        Variant { mechanism: Mechanism::ShadowCopies, kind }
    }

    /// The name in results.
    pub fn name(&self) -> String {
        match self.mechanism {
            Mechanism::ShadowCopies => format!("shadow-copies, {} KiB", self.kind.shadow_bytes >> 10),
            other => other.name().to_owned(),
        }
    }
}
