//! Signatures as operations, which the engine does one after another.

use super::super::{DEPTH_MAX, signature};

/// Reads something at the position. A depth is the number of containers around it.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// A number or boolean of this type.
    Fixed {
        code: u8,
        bytes: u8,
        depth: u8,
    },
    /// An array of them.
    FixedArray {
        code: u8,
        bytes: u8,
        depth: u8,
    },
    Text {
        depth: u8,
    },
    Path {
        depth: u8,
    },
    Signature {
        depth: u8,
    },
    Variant {
        depth: u8,
    },
    /// One struct or dictionary entry begins, or several at once.
    Struct,
    /// Any other array: the boundary of its elements, and the operation behind it.
    Array {
        alignment: u8,
        behind: u32,
    },
    /// An element of an array ends.
    Next,
    /// A value inside more than 64 containers.
    TooDeep,
    /// The end of the body, or of the value of a variant.
    End,
}

/// The operation of a value that has no parts.
pub fn basic(code: u8, depth: u32) -> Op {
    let depth = depth.min(DEPTH_MAX + 1) as u8;
    match code {
        _ if u32::from(depth) > DEPTH_MAX => Op::TooDeep,
        b's' => Op::Text { depth },
        b'o' => Op::Path { depth },
        b'g' => Op::Signature { depth },
        b'v' => Op::Variant { depth },
        _ => {
            let bytes = signature::fixed_bytes(code).expect("the signature was checked") as u8;
            Op::Fixed { code, bytes, depth }
        }
    }
}

/// Appends the operations of the first of these types, which are valid, and returns the others.
pub fn compile<'a>(ops: &mut Vec<Op>, types: &'a [u8], depth: u32) -> &'a [u8] {
    let (&code, mut rest) = types.split_first().expect("the signature was checked");
    match code {
        b'(' | b'{' => {
            if depth > DEPTH_MAX {
                ops.push(Op::TooDeep);
            }
            if !matches!(ops.last(), Some(Op::Struct)) {
                ops.push(Op::Struct);
            }
            while !matches!(rest[0], b')' | b'}') {
                rest = compile(ops, rest, depth + 1);
            }
            &rest[1..]
        }
        b'a' if depth > DEPTH_MAX => {
            ops.push(Op::TooDeep);
            compile(ops, rest, depth)
        }
        b'a' => match signature::fixed_bytes(rest[0]) {
            Some(bytes) => {
                ops.push(Op::FixedArray { code: rest[0], bytes: bytes as u8, depth: depth as u8 + 1 });
                &rest[1..]
            }
            None => {
                let (at, alignment) = (ops.len(), signature::alignment(rest[0]) as u8);
                ops.push(Op::Array { alignment, behind: 0 });
                let rest = compile(ops, rest, depth + 1);
                ops.push(Op::Next);
                ops[at] = Op::Array { alignment, behind: ops.len() as u32 };
                rest
            }
        },
        _ => {
            ops.push(basic(code, depth));
            rest
        }
    }
}
