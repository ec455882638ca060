//! Arrays, structs, dictionaries and variants.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use super::super::{Fault, Marshal, Value};
use super::signature::TypeSignature;
use super::traits::{Basic, Decode, Encode, Type, Unmarshal, Unreadable};

impl<T: Type + ?Sized> Type for &T {
    const SIGNATURE: TypeSignature = T::SIGNATURE;
}

impl<T: Basic + ?Sized> Basic for &T {}

impl<T: Encode + ?Sized> Encode for &T {
    #[inline]
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        T::encode(self, out)
    }
}

impl<T: Type> Type for [T] {
    const SIGNATURE: TypeSignature = T::SIGNATURE.in_array();
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        out.try_array(const { T::SIGNATURE.alignment() }, |out| T::encode_all(self, out))
    }
}

impl<T: Type, const COUNT: usize> Type for [T; COUNT] {
    const SIGNATURE: TypeSignature = T::SIGNATURE.in_array();
}

impl<T: Encode, const COUNT: usize> Encode for [T; COUNT] {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        self.as_slice().encode(out)
    }
}

impl<T: Type> Type for Vec<T> {
    const SIGNATURE: TypeSignature = T::SIGNATURE.in_array();
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        self.as_slice().encode(out)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Vec<T>, Unreadable> {
        from.array(const { T::SIGNATURE.alignment() }, T::decode_all)
    }
}

impl<'a> Decode<'a> for &'a [u8] {
    fn decode(from: &mut Unmarshal<'a>) -> Result<&'a [u8], Unreadable> {
        from.array(1, |from, bytes| Ok(from.cursor.take(bytes)?))
    }
}

/// No arguments.
impl Type for () {
    const SIGNATURE: TypeSignature = TypeSignature::EMPTY;
}

impl Encode for () {
    fn encode(&self, _: &mut Marshal) -> Result<(), Fault> {
        Ok(())
    }
}

impl Decode<'_> for () {
    fn decode(_: &mut Unmarshal<'_>) -> Result<(), Unreadable> {
        Ok(())
    }
}

macro_rules! structure {
    ($($field:ident)*) => {
        impl<$($field: Type),*> Type for ($($field,)*) {
            const SIGNATURE: TypeSignature = TypeSignature::EMPTY$(.and(&$field::SIGNATURE))*.in_struct();
        }

        impl<$($field: Encode),*> Encode for ($($field,)*) {
            #[inline]
            fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
                #[allow(non_snake_case, reason = "a field is called as its type")]
                let ($($field,)*) = self;
                out.structure(|out| {
                    $($field.encode(out)?;)*
                    Ok(())
                })
            }
        }

        impl<'a, $($field: Decode<'a>),*> Decode<'a> for ($($field,)*) {
            #[inline]
            fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable> {
                from.structure(|from| Ok(($($field::decode(from)?,)*)))
            }
        }
    };
}

structure!(A);
structure!(A B);
structure!(A B C);
structure!(A B C D);
structure!(A B C D E);
structure!(A B C D E F);
structure!(A B C D E F G);
structure!(A B C D E F G H);
structure!(A B C D E F G H I);
structure!(A B C D E F G H I J);
structure!(A B C D E F G H I J K);
structure!(A B C D E F G H I J K L);

/// A dictionary in the order of its message, also with keys that are there twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dict<K, V>(pub Vec<(K, V)>);

fn encode_entries<'e, K: Encode + 'e, V: Encode + 'e>(
    entries: impl IntoIterator<Item = (&'e K, &'e V)>,
    out: &mut Marshal,
) -> Result<(), Fault> {
    out.try_array(8, |out| {
        entries.into_iter().try_for_each(|(key, value)| {
            out.structure(|out| {
                key.encode(out)?;
                value.encode(out)
            })
        })
    })
}

fn decode_entries<'a, K: Decode<'a>, V: Decode<'a>>(
    from: &mut Unmarshal<'a>,
    mut take: impl FnMut(K, V),
) -> Result<(), Unreadable> {
    from.array(8, |from, bytes| {
        let end = from.end_of(bytes)?;
        while from.cursor.at < end {
            let (key, value) = from.structure(|from| Ok((K::decode(from)?, V::decode(from)?)))?;
            take(key, value);
        }
        Ok(from.array_ends(end)?)
    })
}

impl<K: Basic, V: Type> Type for Dict<K, V> {
    const SIGNATURE: TypeSignature = TypeSignature::dict(&K::SIGNATURE, &V::SIGNATURE);
}

impl<K: Basic + Encode, V: Encode> Encode for Dict<K, V> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        encode_entries(self.0.iter().map(|(key, value)| (key, value)), out)
    }
}

impl<'a, K: Basic + Decode<'a>, V: Decode<'a>> Decode<'a> for Dict<K, V> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable> {
        let mut entries = Vec::new();
        decode_entries(from, |key, value| entries.push((key, value)))?;
        Ok(Dict(entries))
    }
}

impl<K: Basic, V: Type, S> Type for HashMap<K, V, S> {
    const SIGNATURE: TypeSignature = Dict::<K, V>::SIGNATURE;
}

impl<K: Basic + Encode, V: Encode, S> Encode for HashMap<K, V, S> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        encode_entries(self, out)
    }
}

/// Of a key that is there twice the last value counts.
impl<'a, K, V, S> Decode<'a> for HashMap<K, V, S>
where
    K: Basic + Decode<'a> + Eq + Hash,
    V: Decode<'a>,
    S: BuildHasher + Default,
{
    fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable> {
        let mut entries = HashMap::default();
        decode_entries(from, |key, value| drop(entries.insert(key, value)))?;
        Ok(entries)
    }
}

impl<K: Basic, V: Type> Type for BTreeMap<K, V> {
    const SIGNATURE: TypeSignature = Dict::<K, V>::SIGNATURE;
}

impl<K: Basic + Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        encode_entries(self, out)
    }
}

/// Of a key that is there twice the last value counts.
impl<'a, K: Basic + Decode<'a> + Ord, V: Decode<'a>> Decode<'a> for BTreeMap<K, V> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable> {
        let mut entries = BTreeMap::new();
        decode_entries(from, |key, value| drop(entries.insert(key, value)))?;
        Ok(entries)
    }
}

/// A variant with a value of a type that is known: read, it must have this type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variant<T>(pub T);

impl<T> Type for Variant<T> {
    const SIGNATURE: TypeSignature = TypeSignature::letter(b'v');
}

impl<T: Encode> Encode for Variant<T> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        out.variant(const { &T::SIGNATURE }.of_one(), |out| self.0.encode(out))
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Variant<T> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Self, Unreadable> {
        Ok(Variant(from.variant(const { &T::SIGNATURE }.of_one(), T::decode)?))
    }
}

/// A variant with this value.
impl Type for Value<'_> {
    const SIGNATURE: TypeSignature = TypeSignature::letter(b'v');
}

impl Encode for Value<'_> {
    fn encode(&self, out: &mut Marshal) -> Result<(), Fault> {
        self.encode_variant(out)
    }
}

impl<'a> Decode<'a> for Value<'a> {
    fn decode(from: &mut Unmarshal<'a>) -> Result<Value<'a>, Unreadable> {
        from.any_variant()
    }
}
