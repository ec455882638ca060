//! Rows as Parquet: the same rows give the same bytes, with one version of this program.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, MapBuilder, RecordBatch,
    StringBuilder, TimestampMicrosecondBuilder,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::rows::{Record, Row};
use crate::schema::{self, COLUMNS, Column, Kind, Value};

/// The metadata of a file that says which version of the table it has.
pub const VERSION_KEY: &str = "weighbridge.results";

/// The rows of a record.
pub fn batch(record: &Record) -> RecordBatch {
    let rows: Vec<Row<'_>> = record.rows().collect();
    let arrays = COLUMNS.iter().map(|column| array(column, &rows)).collect();
    RecordBatch::try_new(schema::arrow(), arrays).expect("each column has its type and a value for each row")
}

/// How files of results are written.
fn properties() -> WriterProperties {
    let zstd = ZstdLevel::try_new(3).expect("3 is a level of zstd");
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(zstd))
        // A name with a version would make other bytes of the same rows.
        .set_created_by("weighbridge-fleet".into())
        .set_key_value_metadata(Some(vec![KeyValue::new(VERSION_KEY.into(), schema::VERSION.to_string())]))
        .build()
}

/// A file with these rows.
///
/// # Panics
/// If memory cannot be written to.
pub fn parquet(batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties()));
    let mut writer = writer.expect("a table of our types");
    writer.write(batch).expect("memory");
    writer.close().expect("memory");
    bytes
}

fn array(column: &Column, rows: &[Row<'_>]) -> ArrayRef {
    let values = rows.iter().map(|row| (column.of)(*row));
    let wrong = |value: Value| -> ! { panic!("{} cannot be {value:?}", column.name) };
    macro_rules! plain {
        ($builder:expr, $kind:ident) => {{
            let mut builder = $builder;
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::$kind(value) => builder.append_value(value),
                    other => wrong(other),
                }
            }
            Arc::new(builder.finish())
        }};
    }
    macro_rules! map {
        ($builder:expr, $kind:ident) => {{
            let mut builder = MapBuilder::new(None, StringBuilder::new(), $builder);
            for value in values {
                let is_known = match value {
                    Value::Null => false,
                    Value::$kind(entries) => {
                        for (key, value) in entries {
                            builder.keys().append_value(key);
                            builder.values().append_value(value);
                        }
                        true
                    }
                    other => wrong(other),
                };
                builder.append(is_known).expect("as many keys as values");
            }
            Arc::new(builder.finish())
        }};
    }
    match column.kind {
        Kind::Text => plain!(StringBuilder::new(), Text),
        Kind::Int => plain!(Int64Builder::new(), Int),
        Kind::Float => plain!(Float64Builder::new(), Float),
        Kind::Bool => plain!(BooleanBuilder::new(), Bool),
        Kind::Time => plain!(TimestampMicrosecondBuilder::new().with_timezone("UTC"), Int),
        Kind::Texts => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Texts(texts) => builder.append_value(texts.into_iter().map(Some)),
                    other => wrong(other),
                }
            }
            Arc::new(builder.finish())
        }
        Kind::TextMap => map!(StringBuilder::new(), TextMap),
        Kind::FloatMap => map!(Float64Builder::new(), FloatMap),
    }
}
