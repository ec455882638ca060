//! Numbers, booleans and texts.

use std::borrow::Cow;
use std::fmt;

use super::super::{Endian, Fault, Marshal, names, signature};
use super::signature::TypeSignature;
use super::traits::{Basic, Decode, Encode, Type, Unmarshal, Unreadable};

macro_rules! number {
    ($($type:ty = $code:literal),*) => {$(
        impl Type for $type {
            const SIGNATURE: TypeSignature = TypeSignature::letter($code);
        }

        impl Basic for $type {}

        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
                out.fixed(self.to_ne_bytes());
                Ok(())
            }

            fn encode_all(elements: &[$type], out: &mut Marshal) -> Result<(), Fault> {
                out.all_fixed(elements.iter().map(|element| element.to_ne_bytes()));
                Ok(())
            }
        }

        impl Decode<'_> for $type {
            #[inline]
            fn decode(from: &mut Unmarshal<'_>) -> Result<$type, Unreadable> {
                let bytes = from.cursor.aligned()?;
                Ok(match from.cursor.endian {
                    Endian::Little => <$type>::from_le_bytes(bytes),
                    Endian::Big => <$type>::from_be_bytes(bytes),
                })
            }

            fn decode_all(from: &mut Unmarshal<'_>, bytes: usize) -> Result<Vec<$type>, Unreadable> {
                let (elements, rest) = from.cursor.take(bytes)?.as_chunks();
                if !rest.is_empty() {
                    return Err(Fault::Invalid("an array ends inside an element").into());
                }
                let read = match from.cursor.endian {
                    Endian::Little => <$type>::from_le_bytes,
                    Endian::Big => <$type>::from_be_bytes,
                };
                Ok(elements.iter().map(|bytes| read(*bytes)).collect())
            }
        }
    )*};
}

number!(u8 = b'y', i16 = b'n', u16 = b'q', i32 = b'i', u32 = b'u', i64 = b'x', u64 = b't', f64 = b'd');

impl Type for bool {
    const SIGNATURE: TypeSignature = TypeSignature::letter(b'b');
}

impl Basic for bool {}

impl Encode for bool {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        u32::from(*self).encode(out)
    }
}

impl Decode<'_> for bool {
    fn decode(from: &mut Unmarshal<'_>) -> Result<bool, Unreadable> {
        Ok(from.cursor.bool()?)
    }
}

/// Which of the descriptors that travel with the message (`h`), from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DescriptorIndex(pub u32);

impl Type for DescriptorIndex {
    const SIGNATURE: TypeSignature = TypeSignature::letter(b'h');
}

impl Basic for DescriptorIndex {}

impl Encode for DescriptorIndex {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        self.0.encode(out)
    }
}

impl Decode<'_> for DescriptorIndex {
    fn decode(from: &mut Unmarshal<'_>) -> Result<DescriptorIndex, Unreadable> {
        Ok(DescriptorIndex(from.cursor.u32()?))
    }
}

macro_rules! text {
    ($($type:ty),*) => {$(
        impl Type for $type {
            const SIGNATURE: TypeSignature = TypeSignature::letter(b's');
        }

        impl Basic for $type {}

        impl Encode for $type {
            #[inline]
            fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
                out.checked_text(self)
            }
        }
    )*};
}

text!(str, String, Cow<'_, str>);

impl<'a> Decode<'a> for &'a str {
    #[inline]
    fn decode(from: &mut Unmarshal<'a>) -> Result<&'a str, Unreadable> {
        Ok(from.cursor.text()?)
    }
}

impl Decode<'_> for String {
    fn decode(from: &mut Unmarshal<'_>) -> Result<String, Unreadable> {
        Ok(from.cursor.text()?.to_owned())
    }
}

impl<'a> Decode<'a> for Cow<'a, str> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Cow<'a, str>, Unreadable> {
        Ok(Cow::Borrowed(from.cursor.text()?))
    }
}

fn check_path(path: &str) -> Result<(), Fault> {
    if names::is_path(path) { Ok(()) } else { Err(Fault::Invalid("a text is not an object path")) }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $code:literal, $check:expr, $write:ident, $read:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type<'a>(Cow<'a, str>);

        impl<'a> $type<'a> {
            /// This text, if it is valid; otherwise the rule that it breaks.
            pub fn new(text: impl Into<Cow<'a, str>>) -> Result<$type<'a>, Fault> {
                let text = text.into();
                let check: fn(&str) -> Result<(), Fault> = $check;
                check(&text)?;
                Ok($type(text))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The same, with a copy of the text.
            pub fn into_owned(self) -> $type<'static> {
                $type(Cow::Owned(self.0.into_owned()))
            }
        }

        impl fmt::Display for $type<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Type for $type<'_> {
            const SIGNATURE: TypeSignature = TypeSignature::letter($code);
        }

        impl Basic for $type<'_> {}

        impl Encode for $type<'_> {
            fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
                out.$write(&self.0);
                Ok(())
            }
        }

        impl<'a> Decode<'a> for $type<'a> {
            fn decode(from: &mut Unmarshal<'a>) -> Result<$type<'a>, Unreadable> {
                Ok($type(Cow::Borrowed(from.cursor.$read()?)))
            }
        }
    };
}

name!(
    /// An object path (`o`).
    ObjectPath, b'o', check_path, text, path
);
name!(
    /// A signature (`g`): any number of complete types.
    Signature, b'g', |text| signature::check(text).map_err(Fault::Invalid), signature, signature
);
