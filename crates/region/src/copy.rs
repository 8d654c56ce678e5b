//! Copying memory that others write to meanwhile.

use std::ptr::NonNull;

/// Copies `bytes`, a multiple of 64. Each aligned unit of eight bytes arrives as it was at some moment of the copy.
///
/// The compiler may not merge atomic accesses, so a loop of them moves eight bytes an instruction and fetches each line
/// of the target before overwriting it. On x86-64 the processor is told to: aligned accesses of 16 bytes, which never
/// tear a half of theirs, and stores past the caches, as `memcpy` does for large copies.
///
/// # Safety
/// Both are mapped for `bytes` and aligned to 64; the target has no other user; others access the source atomically.
pub(crate) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    assert!(bytes.is_multiple_of(64));
    if bytes == 0 {
        return;
    }
    #[cfg(all(target_arch = "x86_64", not(ankerdb_sanitize), not(miri)))]
    // SAFETY: reads and writes exactly `bytes` at both, which the caller vouches for; 64 divides `bytes`, which is above 0.
    unsafe {
        std::arch::asm!(
            "2:",
            "prefetchnta [{from} + 1024]",
            "movdqa {a}, [{from}]",
            "movdqa {b}, [{from} + 16]",
            "movdqa {c}, [{from} + 32]",
            "movdqa {d}, [{from} + 48]",
            "movntdq [{to}], {a}",
            "movntdq [{to} + 16], {b}",
            "movntdq [{to} + 32], {c}",
            "movntdq [{to} + 48], {d}",
            "add {from}, 64",
            "add {to}, 64",
            "sub {left}, 64",
            "jnz 2b",
            "sfence",
            from = inout(reg) from.as_ptr() => _,
            to = inout(reg) to.as_ptr() => _,
            left = inout(reg) bytes => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(ankerdb_sanitize), not(miri))))]
    {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        let (from, to) = (from.as_ptr().cast::<AtomicU64>(), to.as_ptr().cast::<AtomicU64>());
        for word in 0..bytes / 8 {
            // SAFETY: inside both, by the caller's promise.
            unsafe { (*to.add(word)).store((*from.add(word)).load(Relaxed), Relaxed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anonymous::Mapping;

    #[test]
    fn all_of_it_and_no_more() {
        let [from, to] = [0, 0].map(|_| Mapping::new(3 * 4096, 4096).expect("three pages"));
        let bytes = |mapping: &Mapping| {
            // SAFETY: the mapping's own bytes, used by this thread alone.
            unsafe { std::slice::from_raw_parts_mut(mapping.pointer().as_ptr(), 3 * 4096) }
        };
        for (index, byte) in bytes(&from).iter_mut().enumerate() {
            *byte = (index % 251) as u8 + 1;
        }
        // SAFETY: three pages each, nobody else's.
        unsafe { copy(from.pointer(), to.pointer(), 2 * 4096) };
        assert!(bytes(&from)[..8192] == bytes(&to)[..8192]);
        assert!(bytes(&to)[8192..].iter().all(|byte| *byte == 0));
    }
}
