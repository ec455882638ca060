//! Closed days in few files, in another store: what ten thousand small objects say, an engine reads faster from sixteen.
//!
//! Nothing is deleted, and nothing is written where machines push: so nothing races. Which file a record goes into follows from its name,
//! so late records change one file of their day when this is done again.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, concat_batches, lexsort_to_indices, take_record_batch};
use futures::StreamExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::failure::{Exit, Failure};
use crate::lake::{self, objects, partition};
use crate::store::Store;
use crate::table;

const AT_ONCE: usize = 32;

/// What was done.
#[derive(Clone, Debug, Default)]
pub struct Compacted {
    /// Objects that were read.
    pub from: usize,
    /// Objects that were written.
    pub to: usize,
    /// Rows.
    pub rows: usize,
    /// Objects that could not be used.
    pub problems: Vec<Failure>,
}

/// Copies what is from before a day into another store.
///
/// # Errors
/// Where a store is away or refuses, or both are the same.
pub async fn compact(from: &Store, to: &Store, before: &str) -> Result<Compacted, Failure> {
    if from.url() == to.url() {
        return Err(Failure::hopeless(
            "--to has to be another store: engines that read both kinds of files there would count rows twice",
        ));
    }
    let mut parts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, _) in objects(from).await? {
        let (folder, file) = name.rsplit_once('/').unwrap_or(("", &name));
        let digit = file.chars().next().filter(char::is_ascii_hexdigit);
        if let (Some(day), Some(digit)) = (partition(&name, "day"), digit)
            && day < before
        {
            parts.entry(format!("{folder}/part-{digit}.parquet")).or_default().push(name);
        }
    }
    let mut done = Compacted::default();
    for (target, names) in parts {
        let read = futures::stream::iter(&names)
            .map(|name| batches(from, name))
            .buffered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let mut all = Vec::new();
        for of in read {
            match of {
                Ok(batches) => {
                    done.from += 1;
                    all.extend(batches);
                }
                Err(failure) if failure.exit == Exit::Again => return Err(failure),
                Err(failure) => done.problems.push(failure),
            }
        }
        if all.is_empty() {
            continue;
        }
        let batch = sorted(&all).map_err(|error| Failure::hopeless(format!("{target}: {error}")))?;
        to.put(&target, table::parquet(&batch)).await?;
        done.rows += batch.num_rows();
        done.to += 1;
    }
    Ok(done)
}

async fn batches(store: &Store, name: &str) -> Result<Vec<RecordBatch>, Failure> {
    let bytes = store.get(name).await?;
    lake::check(name, bytes.clone()).map_err(|why| store.left_out(name, why))?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))
        .and_then(|builder| builder.build());
    let reader = reader.map_err(|error| store.left_out(name, error))?;
    reader.collect::<Result<Vec<_>, _>>().map_err(|error| store.left_out(name, error))
}

/// By case, then by machine: a question of one case reads one stretch of a file.
fn sorted(batches: &[RecordBatch]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let schemas =
        batches.iter().map(|batch| batch.schema().as_ref().clone().with_metadata(Default::default()));
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::try_merge(schemas)?);
    let whole = |batch: &RecordBatch| {
        let column = |field: &std::sync::Arc<arrow::datatypes::Field>| {
            let there = batch.column_by_name(field.name()).cloned();
            there.unwrap_or_else(|| arrow::array::new_null_array(field.data_type(), batch.num_rows()))
        };
        RecordBatch::try_new(schema.clone(), schema.fields().iter().map(column).collect())
    };
    let all = batches.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
    let all = concat_batches(&schema, &all)?;
    let columns = ["case_id", "machine", "started", "record_id"]
        .into_iter()
        .filter_map(|name| all.column_by_name(name));
    let columns: Vec<SortColumn> =
        columns.map(|values| SortColumn { values: values.clone(), options: None }).collect();
    take_record_batch(&all, &lexsort_to_indices(&columns, None)?)
}
