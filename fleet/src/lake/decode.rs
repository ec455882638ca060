//! One object of results into sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, MapArray, RecordBatch, StringArray, new_null_array,
};
use arrow::datatypes::{Float64Type, Int64Type, Schema, TimestampMicrosecondType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use weighbridge_record::Ending;

use super::model::{Part, PartRow, Row};
use super::read::{Wanted, is_compacted, partition};
use crate::failure::Failure;
use crate::filter::{Bound, Filter};
use crate::schema::{self, VERSION};
use crate::table::VERSION_KEY;

/// What every report needs of each row.
const OF_ROWS: [&str; 23] = [
    "record_id",
    "case_id",
    "outcome",
    "why",
    "complete",
    "higher_is_better",
    "value",
    "runs",
    "spread_between",
    "to_hub",
    "machine",
    "machine_from",
    "boot_id",
    "hw_class",
    "cpu_name",
    "icount",
    "started",
    "ended",
    "plan_id",
    "shard",
    "shards",
    "attempt",
    "kernel_release",
];

/// What it needs once of a record: settings, in maps and in columns of their own.
const MAPS: [&str; 2] = ["labels", "facts"];
const SETTINGS: [&str; 14] = [
    "kernel_release",
    "kernel_build",
    "microcode",
    "cmdline",
    "mitigations_sha",
    "libc",
    "tool_version",
    "dmi_bios",
    "dmi_product",
    "cpu_stepping",
    "instance_type",
    "cgroup_cpu_max",
    "clock_source",
    "allowed_cpus",
];

/// Half an interquartile range of a normal distribution, in standard deviations.
const HALF_IQR: f64 = 0.674_489_750_196_081_7;

/// What is read of each object.
pub struct Plan {
    schema: Arc<Schema>,
    only: Option<Bound>,
    sides: Vec<Bound>,
}

impl Plan {
    pub fn of(wanted: &Wanted) -> Result<Plan, Failure> {
        let filters: Vec<&Filter> = wanted.only.iter().chain(&wanted.sides).collect();
        let asked: BTreeSet<&str> =
            filters.iter().flat_map(|filter| filter.columns.iter().map(String::as_str)).collect();
        let is_read = |name: &str| OF_ROWS.contains(&name) || asked.contains(name);
        let fields: Vec<_> = schema::with_partitions()
            .fields()
            .iter()
            .filter(|field| is_read(field.name()))
            .cloned()
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let bound = |filter: &Filter| filter.bound(&schema);
        let only = wanted.only.as_ref().map(bound).transpose()?;
        let sides = wanted.sides.iter().map(bound).collect::<Result<_, _>>()?;
        Ok(Plan { schema, only, sides })
    }

    /// The sessions of an object.
    pub fn decode(&self, name: &str, bytes: Vec<u8>) -> Result<Vec<Part>, String> {
        let bytes = bytes::Bytes::from(bytes);
        let metadata = metadata(&bytes)?;
        let rows = batches(&bytes, &metadata, &self.schema, name, None)?;
        let settings: Vec<_> = schema::with_partitions()
            .fields()
            .iter()
            .filter(|field| {
                ["record_id"].iter().chain(&MAPS).chain(&SETTINGS).any(|name| name == field.name())
            })
            .cloned()
            .collect();
        // A record has the same settings in each of its rows, and an object that one host wrote has one record.
        let one = (!is_compacted(name)).then_some(1);
        let settings = batches(&bytes, &metadata, &Arc::new(Schema::new(settings)), name, one)?;
        let mut facts = BTreeMap::new();
        for batch in &settings {
            let records = texts(batch, "record_id")?;
            for row in 0..batch.num_rows() {
                if !facts.contains_key(records.value(row)) {
                    facts.insert(records.value(row).to_owned(), facts_of(batch, row)?);
                }
            }
        }
        let mut parts: Vec<Part> = Vec::new();
        for batch in &rows {
            self.add(batch, &mut facts, &mut parts)?;
        }
        Ok(parts)
    }

    fn add(
        &self,
        batch: &RecordBatch,
        facts: &mut BTreeMap<String, BTreeMap<String, String>>,
        parts: &mut Vec<Part>,
    ) -> Result<(), String> {
        let kept = self.only.as_ref().map(|only| only.holds(batch)).transpose()?;
        let sides = self.sides.iter().map(|side| side.holds(batch)).collect::<Result<Vec<_>, _>>()?;
        let columns = Columns::of(batch)?;
        for row in (0..batch.num_rows()).filter(|row| kept.as_ref().is_none_or(|kept| kept[*row])) {
            let record = columns.text("record_id", row);
            let at = match parts.last() {
                Some(last) if last.record == record => parts.len() - 1,
                _ => parts.iter().position(|part| part.record == record).unwrap_or_else(|| {
                    parts.push(columns.session(row, facts.get(record).cloned().unwrap_or_default()));
                    parts.len() - 1
                }),
            };
            let of_sides = sides
                .iter()
                .enumerate()
                .filter(|(_, holds)| holds[row])
                .fold(0, |bits, (side, _)| bits | 1 << side);
            parts[at].rows.push(columns.row(row, of_sides)?);
        }
        Ok(())
    }
}

/// Is the whole object what it should be? Reads every page.
///
/// # Errors
/// What is wrong with it.
pub fn check(name: &str, bytes: Vec<u8>) -> Result<(), String> {
    let bytes = bytes::Bytes::from(bytes);
    let metadata = metadata(&bytes)?;
    batches(&bytes, &metadata, &schema::with_partitions(), name, None).map(drop)
}

fn metadata(bytes: &bytes::Bytes) -> Result<ArrowReaderMetadata, String> {
    let metadata = ArrowReaderMetadata::load(bytes, ArrowReaderOptions::new())
        .map_err(|error| format!("no Parquet: {error}"))?;
    let pairs = metadata.metadata().file_metadata().key_value_metadata().into_iter().flatten();
    let version = pairs
        .filter(|pair| pair.key == VERSION_KEY)
        .find_map(|pair| pair.value.as_ref()?.parse::<u32>().ok());
    match version {
        Some(version) if version > VERSION => Err(format!(
            "written with version {version} of the table, and this program reads up to {VERSION}; read it with a newer one"
        )),
        Some(_) => Ok(metadata),
        None => Err(format!("no results of this program: its metadata has no {VERSION_KEY}")),
    }
}

/// The rows with these columns; those that the object has not are empty.
fn batches(
    bytes: &bytes::Bytes,
    metadata: &ArrowReaderMetadata,
    schema: &Arc<Schema>,
    name: &str,
    limit: Option<usize>,
) -> Result<Vec<RecordBatch>, String> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mask = ProjectionMask::columns(metadata.parquet_schema(), names);
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), metadata.clone())
        .with_projection(mask);
    if let Some(limit) = limit {
        builder = builder.with_limit(limit);
    }
    let reader = builder.build().map_err(|error| format!("no Parquet: {error}"))?;
    let of_name = [("campaign", partition(name, "campaign")), ("day", partition(name, "day"))];
    let whole = |batch: RecordBatch| -> Result<RecordBatch, String> {
        let rows = batch.num_rows();
        let array = |field: &arrow::datatypes::Field| -> Result<ArrayRef, String> {
            if let Some(array) = batch.column_by_name(field.name()) {
                return match array.data_type() == field.data_type() {
                    true => Ok(array.clone()),
                    false => Err(format!(
                        "{} is {} and should be {}",
                        field.name(),
                        array.data_type(),
                        field.data_type()
                    )),
                };
            }
            let value = of_name.iter().find(|(name, _)| name == field.name()).and_then(|(_, value)| *value);
            Ok(match (field.name().as_str(), value) {
                ("campaign", Some(value)) => Arc::new(StringArray::from(vec![value; rows])),
                ("day", Some(value)) => Arc::new(Date32Array::from(vec![days(value); rows])),
                _ => new_null_array(field.data_type(), rows),
            })
        };
        let arrays = schema.fields().iter().map(|field| array(field)).collect::<Result<Vec<_>, _>>()?;
        RecordBatch::try_new(schema.clone(), arrays).map_err(|error| error.to_string())
    };
    reader.map(|batch| whole(batch.map_err(|error| format!("broken: {error}"))?)).collect()
}

/// Days since 1970.
fn days(day: &str) -> Option<i32> {
    let date: jiff::civil::Date = day.parse().ok()?;
    date.since(jiff::civil::date(1970, 1, 1)).ok().map(|span| span.get_days())
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray, String> {
    batch
        .column_by_name(name)
        .and_then(|array| array.as_string_opt::<i32>())
        .ok_or_else(|| format!("has no texts in {name}"))
}

fn facts_of(batch: &RecordBatch, row: usize) -> Result<BTreeMap<String, String>, String> {
    let mut facts = BTreeMap::new();
    for name in SETTINGS {
        let array = texts(batch, name)?;
        if array.is_valid(row) && !array.value(row).is_empty() {
            facts.insert(name.to_owned(), array.value(row).to_owned());
        }
    }
    for name in MAPS {
        let map: &MapArray = batch
            .column_by_name(name)
            .and_then(|array| array.as_map_opt())
            .ok_or_else(|| format!("has no {name}"))?;
        if !map.is_valid(row) {
            continue;
        }
        let entries = map.value(row);
        let (keys, values) = (entries.column(0).as_string::<i32>(), entries.column(1).as_string::<i32>());
        let group = if name == "labels" { "label:" } else { "" };
        for at in (0..entries.len()).filter(|at| values.is_valid(*at)) {
            // Which machine and which campaign it is explains nothing.
            if !(name == "labels" && ["machine", "campaign"].contains(&keys.value(at))) {
                facts.insert(format!("{group}{}", keys.value(at)), values.value(at).to_owned());
            }
        }
    }
    Ok(facts)
}

struct Columns<'a> {
    batch: &'a RecordBatch,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Columns<'a>, String> {
        for name in ["record_id", "case_id", "outcome", "machine"] {
            let array = texts(batch, name)?;
            if array.null_count() > 0 {
                return Err(format!("has rows without {name}"));
            }
        }
        Ok(Columns { batch })
    }

    fn column(&self, name: &str) -> &'a ArrayRef {
        self.batch.column_by_name(name).expect("a column of the plan")
    }

    fn text(&self, name: &str, row: usize) -> &'a str {
        let array = self.column(name).as_string::<i32>();
        if array.is_valid(row) { array.value(row) } else { "" }
    }

    fn int(&self, name: &str, row: usize) -> Option<i64> {
        let array = self.column(name).as_primitive::<Int64Type>();
        array.is_valid(row).then(|| array.value(row))
    }

    fn float(&self, name: &str, row: usize) -> f64 {
        let array = self.column(name).as_primitive::<Float64Type>();
        if array.is_valid(row) { array.value(row) } else { f64::NAN }
    }

    fn time(&self, name: &str, row: usize) -> Option<i64> {
        let array = self.column(name).as_primitive::<TimestampMicrosecondType>();
        array.is_valid(row).then(|| array.value(row))
    }

    fn is(&self, name: &str, row: usize) -> bool {
        let array = self.column(name).as_boolean();
        array.is_valid(row) && array.value(row)
    }

    fn session(&self, row: usize, facts: BTreeMap<String, String>) -> Part {
        let counts = if self.is("icount", row) { " (instructions)" } else { "" };
        let plan = self.text("plan_id", row);
        let number = |name| self.int(name, row).unwrap_or(0);
        Part {
            record: self.text("record_id", row).into(),
            machine: self.text("machine", row).into(),
            named_by: self.text("machine_from", row).into(),
            class: format!("{}{counts}", self.text("hw_class", row)),
            cpu: self.text("cpu_name", row).into(),
            boot: self.text("boot_id", row).into(),
            kernel: self.text("kernel_release", row).into(),
            started_us: self.time("started", row).unwrap_or(0),
            ended_us: self.time("ended", row),
            complete: self.is("complete", row),
            plan: (!plan.is_empty()).then(|| (plan.to_owned(), number("shard"), number("shards"))),
            attempt: number("attempt"),
            facts,
            rows: Vec::new(),
        }
    }

    fn row(&self, row: usize, sides: u8) -> Result<PartRow, String> {
        let outcome = self.text("outcome", row);
        let endings = [Ending::Measured, Ending::Skipped, Ending::Void, Ending::Interrupted];
        let ending = endings
            .into_iter()
            .find(|ending| ending.name() == outcome)
            .ok_or_else(|| format!("has an outcome `{outcome}`"))?;
        // A figure that rests on fewer runs than it should, or on none that count, is none here.
        let known =
            |value: f64| if ending == Ending::Measured && value > 0.0 { value.ln() } else { f64::NAN };
        let value = known(self.float("value", row));
        let figures = Row {
            case: 0,
            ending,
            why: 0,
            cost: if self.is("higher_is_better", row) { -value } else { value },
            to_hub: known(self.float("to_hub", row)),
            run: self.float("spread_between", row) / HALF_IQR,
            runs: self.int("runs", row).map_or(0, |runs| runs as u32),
            sides,
        };
        Ok(PartRow { case: self.text("case_id", row).into(), why: self.text("why", row).into(), figures })
    }
}
