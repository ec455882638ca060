//! Which instructions of x86-64 are calls, returns, or marks of our program.

/// How each mark begins: `nopl` with a displacement of 32 bits, which addresses nothing, and the first three bytes of that. The last byte
/// is the kind. `causeway-os` writes the same bytes (`window_marks.rs`).
pub const MARK: [u8; 7] = [0x0f, 0x1f, 0x84, 0x00, b'W', b'g', b'b'];

/// What the plugin has to know of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It stores the address behind it below the stack pointer, and goes to a function.
    Call,
    /// It loads an address at the stack pointer, and goes there.
    Return,
    /// A measured window begins.
    WindowBegins,
    /// A measured window ends.
    WindowEnds,
    /// No window follows: what was counted is written now.
    Finish,
    /// Anything else.
    Other,
}

/// A direct call by no more than this is none: the kernel fills the CPU's return predictor and takes the place of indirect jumps by calls over a
/// few bytes, and drops what they stored.
const LEAST_DISTANCE: i32 = 32;

/// The kind of the instruction with these bytes.
pub fn kind(bytes: &[u8]) -> Kind {
    if let Some(mark) = bytes.strip_prefix(&MARK) {
        return match mark {
            b"(" => Kind::WindowBegins,
            b")" => Kind::WindowEnds,
            b"." => Kind::Finish,
            _ => Kind::Other,
        };
    }
    match without_prefixes(bytes) {
        [0xe8, distance @ ..] => match distance.try_into().map(i32::from_le_bytes) {
            Ok(distance) if (0..LEAST_DISTANCE).contains(&distance) => Kind::Other,
            _ => Kind::Call,
        },
        // FF /2 is a call through a register or memory, with an address in the same segment.
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Kind::Call,
        [0xc3] | [0xc2, ..] => Kind::Return,
        _ => Kind::Other,
    }
}

/// Without the prefixes that these instructions may have: segments, sizes, repetition, and REX as the last one.
fn without_prefixes(bytes: &[u8]) -> &[u8] {
    let is_prefix = |byte: &u8| {
        matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x67 | 0xf2 | 0xf3) || (0x40..=0x4f).contains(byte)
    };
    &bytes[bytes.iter().take_while(|byte| is_prefix(byte)).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes from an assembler.
    #[test]
    fn calls_returns_and_marks_are_told_from_other_instructions() {
        for (bytes, expected) in [
            (&[0xe8, 0x78, 0x56, 0x34, 0x12][..], Kind::Call),
            (&[0xe8, 0xfb, 0xff, 0xff, 0xff], Kind::Call),
            // Over an int3, as a return predictor is filled.
            (&[0xe8, 0x01, 0x00, 0x00, 0x00], Kind::Other),
            // call *%rax, call *%r11, notrack call *%rax, call *8(%rbx), call *symbol(%rip)
            (&[0xff, 0xd0], Kind::Call),
            (&[0x41, 0xff, 0xd3], Kind::Call),
            (&[0x3e, 0xff, 0xd0], Kind::Call),
            (&[0xff, 0x53, 0x08], Kind::Call),
            (&[0xff, 0x15, 0, 0, 0, 0], Kind::Call),
            // jmp *%rax, push (%rax), inc %eax
            (&[0xff, 0xe0], Kind::Other),
            (&[0xff, 0x30], Kind::Other),
            (&[0xff, 0xc0], Kind::Other),
            // ret, rep ret, ret $8, iretq
            (&[0xc3], Kind::Return),
            (&[0xf3, 0xc3], Kind::Return),
            (&[0xc2, 8, 0], Kind::Return),
            (&[0x48, 0xcf], Kind::Other),
            (&[0x0f, 0x1f, 0x84, 0, b'W', b'g', b'b', b'('], Kind::WindowBegins),
            (&[0x0f, 0x1f, 0x84, 0, b'W', b'g', b'b', b')'], Kind::WindowEnds),
            (&[0x0f, 0x1f, 0x84, 0, b'W', b'g', b'b', b'.'], Kind::Finish),
            (&[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], Kind::Other),
            (&[], Kind::Other),
        ] {
            assert_eq!(kind(bytes), expected, "{bytes:02x?}");
        }
    }
}
