//! The instructions that write lines back, and the fence.

/// How this processor writes a line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBack {
    /// Writes the line back and keeps it in the cache.
    Clwb,
    /// Writes the line back and evicts it; not ordered with its kin.
    ClflushOpt,
    /// Writes the line back and evicts it, one line at a time.
    Clflush,
    /// No instruction: caches persist, or the kernel does it.
    None,
}

#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
mod x86_64 {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_sfence};

    use super::WriteBack;
    use crate::LINE;

    /// Whether this architecture has instructions that write a line back.
    pub(crate) const HAS_INSTRUCTIONS: bool = true;

    /// The bit of CLFLUSHOPT in EBX of leaf 7 of `cpuid`.
    const CLFLUSHOPT: u32 = 1 << 23;
    const CLWB: u32 = 1 << 24;

    impl WriteBack {
        /// The best that this processor has.
        pub(crate) fn detect() -> Self {
            let best = [Self::Clwb, Self::ClflushOpt].into_iter().find(|way| way.is_available());
            best.unwrap_or(Self::Clflush)
        }

        /// Whether this processor has the instruction.
        pub(crate) fn is_available(self) -> bool {
            let features = __cpuid_count(7, 0).ebx;
            match self {
                Self::Clwb => features & CLWB != 0,
                Self::ClflushOpt => features & CLFLUSHOPT != 0,
                Self::Clflush | Self::None => true,
            }
        }

        /// Starts the write-back of every line of `address..address + len`.
        ///
        /// # Safety
        /// The range is mapped, and the processor has the instruction.
        #[inline]
        pub(crate) unsafe fn lines(self, address: *const u8, len: u64) {
            let start = address.addr() & !(LINE as usize - 1);
            let end = address.addr() + len as usize;
            for line in (start..end).step_by(LINE as usize) {
                // SAFETY: the line is in a mapped page; these instructions change no byte.
                unsafe {
                    match self {
                        Self::Clwb => {
                            asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags))
                        }
                        Self::ClflushOpt => {
                            asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                        Self::Clflush => {
                            asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                        }
                        Self::None => return,
                    }
                }
            }
        }
    }

    /// Waits for the write-backs and streaming stores of this processor.
    #[inline]
    pub(crate) fn fence() {
        // SAFETY: every x86-64 processor has SSE2.
        unsafe { _mm_sfence() };
    }
}

#[cfg(all(target_arch = "x86_64", not(halite_portable)))]
pub(crate) use x86_64::{HAS_INSTRUCTIONS, fence};

/// Other architectures: the kernel's sync makes bytes durable, so no instruction is needed.
#[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
mod portable {
    use super::WriteBack;

    pub(crate) const HAS_INSTRUCTIONS: bool = false;

    impl WriteBack {
        pub(crate) fn detect() -> Self {
            Self::None
        }

        pub(crate) fn is_available(self) -> bool {
            self == Self::None
        }

        pub(crate) unsafe fn lines(self, _: *const u8, _: u64) {}
    }

    pub(crate) fn fence() {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(halite_portable))))]
pub(crate) use portable::{HAS_INSTRUCTIONS, fence};
