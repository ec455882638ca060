//! Memory operations: copying, filling and reading a block of as many bytes as the case has payload.
//!
//! The value is bytes of payload a second, counted once. Beside it stands an estimate of what crosses the memory bus, by
//! the rule of STREAM extended by what the processor does on its own: a byte that is read crosses once; a byte that is
//! stored crosses twice, because its line is fetched before it is changed and written back later, unless the stores are
//! made past the caches. So memcpy counts 3, or 2 with such stores. `rep movsb` is taken to make them (on processors with
//! fast strings it does, for blocks larger than the caches), and the C library's memcpy and memset are taken to do so from
//! the size of the last-level cache on. Blocks that stay in the last-level cache do not cross the bus, and have no figure.
//!
//! # Safety
//! Blocks are buffers of at least the length that is copied, filled or read, and do not overlap.
#![allow(unsafe_code)]

use std::fs;
use std::hint;
use std::marker::PhantomData;

use super::{Op, OpContext};
use crate::prelude::*;
use weighbridge_harness::axis::{MemoryState, ROLES};
use weighbridge_harness::host;

/// The word that source blocks are filled with.
const WORD: u64 = 0x5b4a_3928_1706_f5e4;

/// Blocks of a case, and its length.
pub(super) struct Blocks {
    from: Buffer,
    to: Buffer,
    len: usize,
    is_fresh: bool,
}

impl Blocks {
    fn new(context: &OpContext<'_>) -> io::Result<Blocks> {
        let len = context.params.payload_bytes;
        let is_fresh = is_fresh(context.params);
        let (mut from, mut to) = (Buffer::new(len)?, Buffer::new(len)?);
        // In one call of the kernel, which is faster than a fault for each page.
        from.prefault()?;
        touch::write(from.bytes_mut(), WORD, Touch::All);
        if is_fresh {
            // Page by page, so that what is counted is what the name says, however large pages may be here.
            to.use_small_pages().unwrap_or_default();
        } else {
            // With what no operation writes: a block that is already as it shall be proves nothing.
            to.prefault()?;
            to.bytes_mut().fill(!FILL);
        }
        Ok(Blocks { from, to, len, is_fresh })
    }

    /// Gives the written block back to the kernel, where the case wants that.
    #[inline]
    fn freshen(&mut self) -> io::Result<()> {
        if self.is_fresh { self.to.give_back() } else { Ok(()) }
    }

    /// The last byte that was written.
    #[inline]
    fn last_written(&mut self) -> u64 {
        let to = hint::black_box(&mut self.to);
        u64::from(to.bytes()[self.len - 1])
    }
}

fn is_fresh(params: &CaseParams) -> bool {
    params.choice_if_declared() == Some(MemoryState::Fresh)
}

/// Bytes of the last-level cache, as the kernel tells them of the first CPU.
fn last_level_cache_bytes() -> Option<u64> {
    (0..8).rev().find_map(|index| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok().map(|kib| kib << 10)
    })
}

/// What a memory operation does with its blocks. What is provided suits a copy.
pub(super) trait Work: 'static {
    const ID: &'static str;
    const ABOUT: &'static str;
    /// Whether the operation reads, and how it stores.
    const TRAFFIC: Traffic;

    /// Does the processor have what it needs?
    fn fit() -> Result<(), Unsupported> {
        Ok(())
    }

    /// Writes a block.
    ///
    /// # Safety
    /// `len` bytes at both places, which do not overlap and begin at a page.
    unsafe fn write(_from: *const u8, _to: *mut u8, _len: usize) {
        unreachable!("it only reads");
    }

    /// Does the operation, and returns what [`Work::result`] computes beforehand.
    #[inline]
    fn act(blocks: &mut Blocks) -> u64 {
        // SAFETY: both blocks have at least `len` bytes and are different mappings.
        unsafe { Self::write(blocks.from.bytes().as_ptr(), blocks.to.bytes_mut().as_mut_ptr(), blocks.len) };
        blocks.last_written()
    }

    /// What [`Work::act`] must return.
    fn result(blocks: &Blocks) -> u64 {
        u64::from(WORD.to_le_bytes()[(blocks.len - 1) % 8])
    }

    /// Is everything that was written right? The source of a copy was filled with the word, and has only been read since.
    fn is_right(blocks: &Blocks) -> bool {
        touch::is_filled_with(&blocks.to.bytes()[..blocks.len], WORD)
    }
}

/// How an operation uses the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    Read,
    /// Reads and stores through the caches, or past them from the size of the last-level cache on.
    Copy,
    /// Reads and stores through the caches, whatever the size.
    CopyThrough,
    /// Reads and stores past the caches.
    CopyPast,
    Fill,
}

pub(super) struct Memory<W> {
    blocks: Blocks,
    work: PhantomData<W>,
}

impl<W: Work> Op for Memory<W> {
    const ID: &'static str = W::ID;
    const ABOUT: &'static str = W::ABOUT;
    const CAPS: Caps = Caps::PAYLOAD;
    const AXES: &'static [Axis] =
        if matches!(W::TRAFFIC, Traffic::Read) { &[] } else { &[MemoryState::AXIS] };
    const UNIT: Unit = Unit::BytesPerSecond;

    fn fit(_host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
        let len = params.payload_bytes as u64;
        if len == 0 {
            return Err(Unsupported("an operation on no bytes does nothing; the smallest size is 1".into()));
        }
        let roles = params.axes.get(ROLES).and_then(|roles| roles.parse().ok()).unwrap_or(1);
        let needed = len.saturating_mul(2).saturating_mul(roles);
        match host::available_bytes() {
            Some(available) if needed > available / 4 => Err(Unsupported(format!(
                "two blocks of {len} bytes for each of {roles} roles are more than a quarter of MemAvailable = {available}"
            ))),
            _ => W::fit(),
        }
    }

    fn setup(context: &OpContext<'_>) -> io::Result<Memory<W>> {
        Ok(Memory { blocks: Blocks::new(context)?, work: PhantomData })
    }

    #[inline]
    fn once(&mut self) -> io::Result<u64> {
        self.blocks.freshen()?;
        Ok(W::act(&mut self.blocks))
    }

    fn each(&self) -> u64 {
        W::result(&self.blocks)
    }

    fn op_bytes(params: &CaseParams) -> u64 {
        params.payload_bytes as u64
    }

    fn bus_crossings(params: &CaseParams) -> Option<f64> {
        let cache = last_level_cache_bytes()?;
        let len = params.payload_bytes as u64;
        let blocks = if matches!(W::TRAFFIC, Traffic::Copy | Traffic::CopyThrough | Traffic::CopyPast) {
            2
        } else {
            1
        };
        if len * blocks <= cache {
            return None;
        }
        let stores = if len >= cache { 1.0 } else { 2.0 };
        Some(match W::TRAFFIC {
            Traffic::Read => 1.0,
            Traffic::Copy => 1.0 + stores,
            Traffic::CopyThrough => 3.0,
            Traffic::CopyPast => 2.0,
            Traffic::Fill => stores,
        })
    }

    fn faults(params: &CaseParams) -> Option<f64> {
        let pages = params.payload_bytes.div_ceil(causeway_os::memory::page_bytes());
        Some(if is_fresh(params) { pages as f64 } else { 0.0 })
    }

    fn finish(&mut self) -> io::Result<Facts> {
        if !W::is_right(&self.blocks) {
            return Err(io::Error::other("the block does not hold what was written"));
        }
        let is_locked = self.blocks.from.is_locked() && (self.blocks.is_fresh || self.blocks.to.is_locked());
        Ok(Facts::from([("buffers_locked".into(), if is_locked { "yes" } else { "no" }.into())]))
    }
}

pub(super) struct Memcpy;

impl Work for Memcpy {
    const ID: &'static str = "memcpy";
    const ABOUT: &'static str = "memcpy of the C library";
    const TRAFFIC: Traffic = Traffic::Copy;

    #[inline]
    unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::memcpy(to.cast(), from.cast(), len) };
    }
}

fn x86_64_only(instruction: &str) -> Result<(), Unsupported> {
    if cfg!(target_arch = "x86_64") {
        Ok(())
    } else {
        Err(Unsupported(format!("this processor has no {instruction}: it is not an x86-64")))
    }
}

pub(super) struct RepMovsb;

impl Work for RepMovsb {
    const ID: &'static str = "rep-movsb";
    const ABOUT: &'static str = "the x86 instruction rep movsb";
    const TRAFFIC: Traffic = Traffic::CopyPast;

    fn fit() -> Result<(), Unsupported> {
        x86_64_only("rep movsb")
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; the direction flag is clear, as the calling convention has it.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }
}

pub(super) struct RepMovsq;

impl Work for RepMovsq {
    const ID: &'static str = "rep-movsq";
    const ABOUT: &'static str = "the x86 instruction rep movsq, and the last bytes by rep movsb";
    const TRAFFIC: Traffic = Traffic::CopyPast;

    fn fit() -> Result<(), Unsupported> {
        x86_64_only("rep movsq")
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; words of eight bytes, then what is left of them, lie inside the blocks, and the direction flag is
        // clear, as the calling convention has it.
        unsafe {
            std::arch::asm!(
                "rep movsq",
                "mov rcx, {rest}",
                "rep movsb",
                rest = in(reg) len % 8,
                inout("rcx") len / 8 => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }
}

pub(super) struct CopyUnrolled;

impl Work for CopyUnrolled {
    const ID: &'static str = "copy-unrolled";
    const ABOUT: &'static str =
        "a loop over lines of 64 bytes, each read and written as eight words of general registers";
    const TRAFFIC: Traffic = Traffic::CopyThrough;

    fn fit() -> Result<(), Unsupported> {
        x86_64_only("registers of eight bytes")
    }

    /// As instructions, because a compiler would turn words into vectors, or the loop into a call of memcpy.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
        const LINE: usize = 64;
        let whole = len / LINE * LINE;
        // SAFETY: the caller's promise; whole lines lie inside the blocks, of which there is one at least, and the rest is copied byte by
        // byte.
        unsafe {
            if whole > 0 {
                std::arch::asm!(
                    "2:",
                    "mov {a}, [{from}]", "mov {b}, [{from} + 8]", "mov {c}, [{from} + 16]", "mov {d}, [{from} + 24]",
                    "mov [{to}], {a}", "mov [{to} + 8], {b}", "mov [{to} + 16], {c}", "mov [{to} + 24], {d}",
                    "mov {a}, [{from} + 32]", "mov {b}, [{from} + 40]", "mov {c}, [{from} + 48]", "mov {d}, [{from} + 56]",
                    "mov [{to} + 32], {a}", "mov [{to} + 40], {b}", "mov [{to} + 48], {c}", "mov [{to} + 56], {d}",
                    "add {from}, 64", "add {to}, 64",
                    "sub {left}, 64",
                    "jnz 2b",
                    from = inout(reg) from => _, to = inout(reg) to => _, left = inout(reg) whole => _,
                    a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _,
                    options(nostack)
                );
            }
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len - whole);
        }
    }
}

pub(super) struct CopyNt;

impl Work for CopyNt {
    const ID: &'static str = "copy-nt";
    const ABOUT: &'static str = "a copy with non-temporal stores of 16 bytes (x86 movntdq)";
    const TRAFFIC: Traffic = Traffic::CopyPast;

    fn fit() -> Result<(), Unsupported> {
        x86_64_only("movntdq")
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    unsafe fn write(from: *const u8, to: *mut u8, len: usize) {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        const VECTOR: usize = 16;
        let whole = len / LINE * LINE;
        // SAFETY: the caller's promise; whole vectors lie inside the blocks, and the rest is copied byte by byte.
        unsafe {
            for line in (0..whole).step_by(LINE) {
                for vector in (line..line + LINE).step_by(VECTOR) {
                    _mm_stream_si128(
                        to.add(vector).cast::<__m128i>(),
                        _mm_loadu_si128(from.add(vector).cast::<__m128i>()),
                    );
                }
            }
            // Such stores are in no order with others until this.
            _mm_sfence();
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), len - whole);
        }
    }
}

/// What `memset` fills with, if not with zero.
pub(super) const FILL: u8 = 0x5a;

/// The C library's, with one byte or another.
pub(super) struct Memset<const BYTE: u8>;

impl<const BYTE: u8> Work for Memset<BYTE> {
    const ID: &'static str = if BYTE == 0 { "memset-zero" } else { "memset" };
    const ABOUT: &'static str = if BYTE == 0 {
        "memset of the C library with zero, which some processors fill more than twice as fast as other bytes"
    } else {
        "memset of the C library, with a byte that is not zero"
    };
    const TRAFFIC: Traffic = Traffic::Fill;

    #[inline]
    unsafe fn write(_from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::memset(to.cast(), BYTE.into(), len) };
    }

    fn result(_blocks: &Blocks) -> u64 {
        BYTE.into()
    }

    fn is_right(blocks: &Blocks) -> bool {
        blocks.to.bytes()[..blocks.len].iter().all(|byte| *byte == BYTE)
    }
}

pub(super) struct ReadSum;

impl Work for ReadSum {
    const ID: &'static str = "read-sum";
    const ABOUT: &'static str = "the sum over all 64-bit words of a block, which is only read";
    const TRAFFIC: Traffic = Traffic::Read;

    #[inline]
    fn act(blocks: &mut Blocks) -> u64 {
        touch::read(&hint::black_box(&blocks.from).bytes()[..blocks.len], Touch::All)
    }

    fn result(blocks: &Blocks) -> u64 {
        touch::expected(blocks.len, WORD, Touch::All)
    }

    fn is_right(_blocks: &Blocks) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_record::CaseId;

    fn check<W: Work>(len: usize, memory: &str) {
        let id = CaseId::new("solo", W::ID, len as u64, "free");
        let id = if memory == "warm" { id } else { id.with("memory", memory) };
        let params = CaseParams::new(&id, Memory::<W>::AXES, &[]).unwrap();
        let mut op = Memory::<W>::setup(&OpContext { params: &params, role: 0, roles: 1 }).unwrap();
        let each = op.each();
        for _ in 0..3 {
            assert_eq!(op.once().unwrap(), each, "{} of {len} bytes, {memory}", W::ID);
        }
        op.finish().unwrap();
    }

    #[test]
    fn every_operation_moves_every_byte_whatever_the_length() {
        for len in (1..70).chain([4095, 4096, 4097, 100_003]) {
            for memory in ["warm", "fresh"] {
                check::<Memcpy>(len, memory);
                check::<Memset<FILL>>(len, memory);
                check::<Memset<0>>(len, memory);
                if cfg!(target_arch = "x86_64") {
                    check::<RepMovsb>(len, memory);
                    check::<RepMovsq>(len, memory);
                    check::<CopyUnrolled>(len, memory);
                    check::<CopyNt>(len, memory);
                }
            }
            check::<ReadSum>(len, "warm");
        }
    }

    fn warm<W: Work>() -> Memory<W> {
        let id = CaseId::new("solo", W::ID, 1000, "free");
        let params = CaseParams::new(&id, Memory::<W>::AXES, &[]).unwrap();
        Memory::setup(&OpContext { params: &params, role: 0, roles: 1 }).unwrap()
    }

    #[test]
    fn a_block_that_was_not_written_whole_is_not_right() {
        assert!(warm::<Memset<0>>().finish().is_err() && warm::<Memset<FILL>>().finish().is_err());
        let mut op = warm::<Memcpy>();
        op.once().unwrap();
        op.blocks.to.bytes_mut()[500] ^= 1;
        assert!(op.finish().is_err());
    }
}
