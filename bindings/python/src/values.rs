//! Values of D-Bus as Python has them, and back by a signature.
//!
//! | D-Bus | Python |
//! |---|---|
//! | `y n q i u x t`, `b`, `d`, `s o g` | `int`, `bool`, `float`, `str` |
//! | `ay`, other arrays, `a{…}`, `(…)` | `bytes`, `list`, `dict`, `tuple` |
//! | `h` | sent: a number, or an object with `fileno()`; received: which of the descriptors of the message |
//! | `v` | received: the value alone; sent: a pair `Variant(signature, value)`, or a plain value whose type is clear |

use std::os::fd::{OwnedFd, RawFd};

use causeway_bus::Payload;
use causeway_bus::wire::{
    ARRAY_BYTES_MAX, Builder, Header, MESSAGE_BYTES_MAX, Marshal, Value, names, signature, values,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::descriptors;

/// Variants inside each other.
const DEPTH_MAX: u32 = 64;

/// A received value; one of type `h` as the descriptor itself where these are given.
pub fn to_python<'py>(
    py: Python<'py>,
    value: &Value<'_>,
    fds: Option<&[RawFd]>,
) -> PyResult<Bound<'py, PyAny>> {
    let all = |values: &[Value<'_>]| {
        values.iter().map(|value| to_python(py, value, fds)).collect::<PyResult<Vec<_>>>()
    };
    Ok(match value {
        Value::Byte(number) => number.into_pyobject(py)?.into_any(),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::I16(number) => number.into_pyobject(py)?.into_any(),
        Value::U16(number) => number.into_pyobject(py)?.into_any(),
        Value::I32(number) => number.into_pyobject(py)?.into_any(),
        Value::U32(number) => number.into_pyobject(py)?.into_any(),
        Value::Descriptor(which) => match fds {
            // What no descriptor came with is none.
            Some(fds) => fds.get(*which as usize).unwrap_or(&-1).into_pyobject(py)?.into_any(),
            None => which.into_pyobject(py)?.into_any(),
        },
        Value::I64(number) => number.into_pyobject(py)?.into_any(),
        Value::U64(number) => number.into_pyobject(py)?.into_any(),
        Value::F64(number) => PyFloat::new(py, *number).into_any(),
        Value::Text(text) | Value::Path(text) | Value::Signature(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Array(_, elements) => PyList::new(py, all(elements)?)?.into_any(),
        Value::Dictionary(_, entries) => {
            let dict = PyDict::new(py);
            for (key, value) in entries {
                dict.set_item(to_python(py, key, fds)?, to_python(py, value, fds)?)?;
            }
            dict.into_any()
        }
        Value::Struct(fields) => PyTuple::new(py, all(fields)?)?.into_any(),
        Value::Variant(value) => to_python(py, value, fds)?,
    })
}

/// Arguments of these types, with the descriptors among them.
pub fn to_payload(types: &str, arguments: &[Bound<'_, PyAny>]) -> PyResult<Payload> {
    signature::check(types)
        .map_err(|why| PyValueError::new_err(format!("{types:?} is not a signature: {why}")))?;
    let count = signature::types(types).count();
    if count != arguments.len() {
        let given = arguments.len();
        return Err(PyTypeError::new_err(format!(
            "the signature {types:?} has {count} arguments, and {given} were given"
        )));
    }
    let (mut out, mut fds) = (Marshal::default(), Vec::new());
    for (one, argument) in signature::types(types).zip(arguments) {
        write(one, argument, &mut out, &mut fds, 0)?;
    }
    Ok(Payload::new(out.into_body(types), fds))
}

/// A value of this one type, for the library to keep.
pub fn to_value(types: &str, value: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    let (body, _) = to_payload(types, std::slice::from_ref(value))?.into_parts();
    let unreadable = |why: &dyn std::fmt::Display| PyValueError::new_err(why.to_string());
    let message = Builder::signal("/", "a.a", "a").body(body).build(1).map_err(|long| unreadable(&long))?;
    let header = Header::parse(&message).map_err(|fault| unreadable(&fault))?;
    let all = values(&header, &message[header.header_bytes..]).map_err(|fault| unreadable(&fault))?;
    let value = all.into_iter().next().map(Value::into_owned);
    value.ok_or_else(|| PyTypeError::new_err(format!("{types:?} is not the type of one value")))
}

fn first(types: &str) -> &str {
    signature::types(types).next().unwrap_or_default()
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let text: String = value.extract()?;
    if text.contains('\0') || text.len() > MESSAGE_BYTES_MAX {
        return Err(PyValueError::new_err(
            "a string of D-Bus has no zero byte, and is no longer than a message",
        ));
    }
    Ok(text)
}

/// Writes a value of this one type, which is valid.
fn write(
    types: &str,
    value: &Bound<'_, PyAny>,
    out: &mut Marshal,
    fds: &mut Vec<OwnedFd>,
    depth: u32,
) -> PyResult<()> {
    if depth > DEPTH_MAX {
        return Err(PyValueError::new_err("more than 64 containers are inside each other"));
    }
    match types.as_bytes()[0] {
        b'y' => out.byte(value.extract()?),
        b'b' => out.u32(u32::from(value.extract::<bool>()?)),
        b'n' => out.u16(value.extract::<i16>()?.cast_unsigned()),
        b'q' => out.u16(value.extract()?),
        b'i' => out.u32(value.extract::<i32>()?.cast_unsigned()),
        b'u' => out.u32(value.extract()?),
        b'x' => out.u64(value.extract::<i64>()?.cast_unsigned()),
        b't' => out.u64(value.extract()?),
        b'd' => out.u64(value.extract::<f64>()?.to_bits()),
        b's' => out.text(&text(value)?),
        b'o' => match text(value)? {
            path if names::is_path(&path) => out.text(&path),
            other => return Err(PyValueError::new_err(format!("{other:?} is not an object path"))),
        },
        b'g' => {
            let types = text(value)?;
            signature::check(&types).map_err(PyValueError::new_err)?;
            out.signature(&types);
        }
        b'v' => {
            let (types, value) = variant(value)?;
            out.signature(&types);
            write(&types, &value, out, fds, depth + 1)?;
        }
        b'(' => {
            let fields: Vec<Bound<'_, PyAny>> = value.try_iter()?.collect::<PyResult<_>>()?;
            let inner = &types[1..types.len() - 1];
            if fields.len() != signature::types(inner).count() {
                return Err(PyTypeError::new_err(format!(
                    "a struct {types} has another number of fields than {value}"
                )));
            }
            out.align(8);
            for (one, field) in signature::types(inner).zip(&fields) {
                write(one, field, out, fds, depth + 1)?;
            }
        }
        b'a' => return array(&types[1..], value, out, fds, depth),
        b'h' => {
            out.u32(fds.len() as u32);
            fds.push(descriptors::copy_of(value)?);
        }
        other => unreachable!("{other} begins no type, and the signature was checked"),
    }
    Ok(())
}

fn array(
    element: &str,
    value: &Bound<'_, PyAny>,
    out: &mut Marshal,
    fds: &mut Vec<OwnedFd>,
    depth: u32,
) -> PyResult<()> {
    let alignment = signature::alignment(element.as_bytes()[0]);
    let mut written = Ok(());
    if element == "y" {
        let bytes: Vec<u8> = value.extract()?;
        if bytes.len() > ARRAY_BYTES_MAX {
            return Err(PyValueError::new_err("an array is larger than 64 MiB"));
        }
        out.array(alignment, |out| bytes.iter().for_each(|byte| out.byte(*byte)));
    } else if let Some(entry) = element.strip_prefix('{') {
        let (key_type, value_type) = entry.split_at(1);
        let dict = value.cast::<PyDict>()?;
        out.array(alignment, |out| {
            written = dict.iter().try_for_each(|(key, value)| {
                out.align(8);
                write(key_type, &key, out, fds, depth + 1)?;
                write(first(value_type), &value, out, fds, depth + 1)
            });
        });
    } else {
        if value.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(format!("an array a{element} is not one string")));
        }
        let elements: Vec<Bound<'_, PyAny>> = value.try_iter()?.collect::<PyResult<_>>()?;
        out.array(alignment, |out| {
            written = elements.iter().try_for_each(|value| write(element, value, out, fds, depth + 1));
        });
    }
    written
}

/// The type and the value of a variant.
fn variant<'py>(value: &Bound<'py, PyAny>) -> PyResult<(String, Bound<'py, PyAny>)> {
    if let Ok(types) = value.getattr("signature") {
        let types: String = types.extract()?;
        if signature::check(&types).is_err() || signature::types(&types).count() != 1 {
            return Err(PyValueError::new_err(format!("{types:?} is not the signature of one value")));
        }
        return Ok((types, value.getattr("value")?));
    }
    Ok((plain(value)?.to_owned(), value.clone()))
}

/// The type of a value whose type is clear.
fn plain(value: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    Ok(if value.is_instance_of::<PyBool>() {
        "b"
    } else if value.is_instance_of::<PyInt>() {
        if value.extract::<i32>().is_ok() { "i" } else { "x" }
    } else if value.is_instance_of::<PyFloat>() {
        "d"
    } else if value.is_instance_of::<PyString>() {
        "s"
    } else if value.is_instance_of::<PyBytes>() {
        "ay"
    } else if let Ok(list) = value.cast::<PyList>() {
        if list.iter().all(|element| element.is_instance_of::<PyString>()) { "as" } else { "av" }
    } else if value.is_instance_of::<PyDict>() {
        "a{sv}"
    } else {
        let what = value.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "the type of a variant with a {what} is not clear; use Variant(signature, value)"
        )));
    })
}
