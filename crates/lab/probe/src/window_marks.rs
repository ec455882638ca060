//! Marks by which an emulator that counts instructions knows where a measured window begins and ends.
//!
//! A mark is one instruction that does nothing on any CPU: `nopl` with a displacement that nobody else writes. It needs no system call, no
//! register and no memory, so it costs the same with and without an emulator: one instruction. `weighbridge-guest-plugin` recognizes the bytes
//! (`decode.rs`). On other machines than x86-64, none of which is emulated, a mark is nothing at all.
//!
//! # Safety
//! The instruction reads and writes nothing: neither registers nor flags nor memory (Intel's manual, "NOP").
#![allow(unsafe_code, reason = "an instruction by its bytes")]

macro_rules! mark {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a `nopl 0x..626757(%rax,%rax,1)`, which does nothing.
            unsafe {
                std::arch::asm!(
                    concat!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x57, 0x67, 0x62, ", $kind),
                    options(nostack, preserves_flags)
                );
            }
        }
    };
}

mark! {
    /// A measured window begins behind this.
    window_begins, "0x28"
}
mark! {
    /// A measured window ends before this.
    window_ends, "0x29"
}
mark! {
    /// No further window comes: what was counted is complete.
    windows_are_complete, "0x2e"
}
