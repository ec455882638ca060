//! Where the fields of an event lie in its record, from the kernel's description in text (`events/*/*/format`).

use std::fmt;

/// The fields of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
    is_signed: bool,
    /// Is the value a place in the record, with the length in the upper half?
    is_elsewhere: bool,
}

/// A description that is not of the kernel's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(pub(crate) String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the kernel describes a field as {:?}, which is not the form that is known", self.0)
    }
}

impl std::error::Error for FormatError {}

impl Format {
    /// Reads a description.
    ///
    /// # Errors
    /// A line that begins as a field and is none.
    pub fn parse(text: &str) -> Result<Format, FormatError> {
        let fields = text.lines().filter_map(|line| Some((line, line.trim().strip_prefix("field:")?)));
        let field = |(line, rest): (&str, &str)| field(rest).ok_or_else(|| FormatError(line.trim().into()));
        Ok(Format { fields: fields.map(field).collect::<Result<_, _>>()? })
    }

    /// The value of a field of up to eight bytes; nothing where there is no such field, or the record is too short.
    pub fn number(&self, record: &[u8], name: &str) -> Option<i64> {
        let field = self.field(name)?;
        let bytes = record.get(field.offset..field.offset.checked_add(field.size)?)?;
        if bytes.is_empty() {
            return None;
        }
        let mut all = [0; 8];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let unused = 64 - 8 * u32::try_from(bytes.len()).ok()?;
        // The kernel writes in the order of this machine: the bytes that are missing are the upper ones.
        let value = u64::from_ne_bytes(all) >> if cfg!(target_endian = "big") { unused } else { 0 };
        Some(if field.is_signed { (value << unused).cast_signed() >> unused } else { value.cast_signed() })
    }

    /// The text of a field: of fixed length, or elsewhere in the record.
    pub fn text(&self, record: &[u8], name: &str) -> Option<String> {
        let field = self.field(name)?;
        let (offset, size) = if !field.is_elsewhere {
            (field.offset, field.size)
        } else {
            let place = self.number(record, name)? as u64;
            ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize)
        };
        let bytes = record.get(offset..offset.checked_add(size)?)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// Offset and size of a field.
    pub(crate) fn place(&self, name: &str) -> Option<(usize, usize)> {
        self.field(name).map(|field| (field.offset, field.size))
    }

    fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// `unsigned int vec; offset:8; size:4; signed:0;`, with tabs between.
fn field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declared = parts.next()?;
    let mut value = |name: &str| parts.next()?.strip_prefix(name)?.parse().ok();
    let (offset, size, signed): (usize, usize, usize) =
        (value("offset:")?, value("size:")?, value("signed:")?);
    let name = declared.split_whitespace().last()?.split('[').next()?;
    Some(Field {
        name: name.into(),
        offset,
        size,
        is_signed: signed == 1,
        is_elsewhere: declared.starts_with("__data_loc"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name: irq_handler_entry\nID: 163\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char comm[4];\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"irq=%d name=%s\", REC->irq, __get_str(name)\n";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(TEXT).unwrap();
        let mut record = vec![163, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, b'a', b'b', 0, b'x', 16, 0, 5, 0];
        record.extend(b"ahci\0");
        assert_eq!(format.number(&record, "common_type"), Some(163));
        assert_eq!(format.number(&record, "common_pid"), Some(-2));
        assert_eq!(format.text(&record, "comm").unwrap(), "ab");
        assert_eq!(format.text(&record, "name").unwrap(), "ahci");
        assert_eq!((format.number(&record, "irq"), format.number(&record[..6], "common_pid")), (None, None));
        assert_eq!(format.text(&record[..18], "name"), None, "a record that ends early");
    }

    #[test]
    fn what_is_no_description_is_refused() {
        let error = Format::parse("\tfield:int x;\toffset:y;\tsize:4;\tsigned:1;").unwrap_err();
        assert!(error.to_string().contains("offset:y"), "{error}");
    }
}
