//! The same questions to DataFusion and to DuckDB, over files of several versions of the table (acceptance 4).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use causeway_testkit::temp_dir;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use weighbridge_fleet::table;

use crate::push::{ends_with, objects, pushed, said, spool};
use crate::support::programs::python_has;
use crate::support::world::{Kind, World, record};

const QUERIES: [&str; 12] = [
    "SELECT count(*) AS n FROM results",
    "SELECT outcome, count(*) AS n FROM results GROUP BY outcome ORDER BY outcome",
    "SELECT machine, round(avg(value), 3) AS mean FROM measured GROUP BY machine ORDER BY machine",
    "SELECT case_id, round(median(value), 6) AS middle FROM measured GROUP BY case_id ORDER BY case_id",
    "SELECT machine, case_id, value, lo, hi, runs FROM latest ORDER BY machine, case_id",
    "SELECT labels['rack'] AS rack, count(DISTINCT machine) AS machines FROM results GROUP BY labels['rack'] ORDER BY rack",
    "SELECT facts['sysctl:guilty'] AS setting, round(avg(value), 3) AS mean FROM measured GROUP BY facts['sysctl:guilty'] ORDER BY setting",
    "SELECT campaign, count(*) AS n FROM results WHERE day >= '2026-11-03' GROUP BY campaign",
    "SELECT a.machine, round(a.value / b.value, 9) AS ratio FROM latest a JOIN latest b ON a.machine = b.machine AND \
     a.payload_bytes = 1 AND b.payload_bytes = 1 WHERE a.mechanism = 'pipe' AND b.mechanism = 'eventfd' ORDER BY a.machine",
    "SELECT count(*) AS n FROM results WHERE emulator IS NULL AND started < ended",
    "SELECT kernel_release, count(DISTINCT boot_id) AS boots FROM results WHERE mechanism LIKE 'unix%' GROUP BY kernel_release ORDER BY 1",
    "SELECT machine, to_hub, row_number() OVER (PARTITION BY case_id ORDER BY to_hub, machine) AS place FROM latest \
     WHERE payload_bytes = 1 AND mechanism = 'pipe' ORDER BY place",
];

const ASK: &str = "
import duckdb, json, sys
views, queries = json.load(sys.stdin)
db = duckdb.connect()
db.execute(\"SET TimeZone = 'UTC'\")
db.execute(views)
for query in queries:
    rows = db.execute(query)
    names = [column[0] for column in rows.description]
    print(json.dumps([dict(zip(names, row)) for row in rows.fetchall()], default=str))
";

/// Rewrites an object with other columns.
fn rewritten(path: &Path, change: impl Fn(&RecordBatch) -> RecordBatch) {
    let bytes = fs::read(path).unwrap();
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    fs::write(path, table::parquet(&change(&batches[0]))).unwrap();
}

#[test]
fn twelve_queries_have_the_same_answers_in_duckdb_over_old_and_new_files() {
    if !python_has("python:duckdb") {
        return;
    }
    let folder = temp_dir("fleet");
    let world = World::new(Kind::Normal, 12, 8, 1).with_facts(3, Some(0.02));
    let spool = spool(folder.path(), &world);
    for host in 0..4 {
        fs::write(spool.join(format!("{host}-again.jsonl")), record(&world.session(host, 1, 1, &[])))
            .unwrap();
    }
    let store = folder.path().join("store");
    pushed(&store, &spool);
    let results: Vec<_> = objects(&store).into_keys().filter(|name| name.ends_with(".parquet")).collect();
    // Of an older program, which had not all columns, and of a newer one, which has more.
    for name in &results[..5] {
        rewritten(&store.join(name), |batch| {
            let kept: Vec<usize> = (0..batch.num_columns())
                .filter(|column| {
                    !["emulator", "restarts", "p99_ns"]
                        .contains(&batch.schema().field(*column).name().as_str())
                })
                .collect();
            batch.project(&kept).unwrap()
        });
    }
    for name in &results[5..8] {
        rewritten(&store.join(name), |batch| {
            let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new("of_a_later_year", DataType::Int64, true)));
            let more: ArrayRef = Arc::new(Int64Array::from(vec![7; batch.num_rows()]));
            let columns = batch.columns().iter().cloned().chain([more]).collect();
            RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
        });
    }
    let later = "SELECT sum(of_a_later_year) AS n FROM results";
    let queries: Vec<&str> = QUERIES.iter().copied().chain([later]).collect();
    let views = said(0, "sql", &store, &["--duckdb"]);
    let asked = serde_json::to_string(&(views, &queries)).unwrap();
    fs::write(folder.path().join("asked.json"), asked).unwrap();
    let stdin = fs::File::open(folder.path().join("asked.json")).unwrap();
    let output = Command::new("python3").args(["-c", ASK]).stdin(stdin).output().unwrap();
    let answers = ends_with(&output, 0);
    assert_eq!(answers.lines().count(), queries.len(), "{answers}");
    for (query, theirs) in queries.iter().zip(answers.lines()) {
        let ours = said(0, "sql", &store, &[query, "--format", "json"]);
        let ours: Vec<serde_json::Value> =
            ours.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut theirs: Vec<serde_json::Value> = serde_json::from_str(theirs).unwrap();
        // What is null is left out of a line of JSON.
        for row in &mut theirs {
            row.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        }
        assert!(!ours.is_empty(), "{query}");
        assert!(alike(&ours.into(), &theirs.clone().into()), "{query}: {theirs:?}");
    }
}

/// The same, numbers to twelve digits.
fn alike(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, other) {
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| alike(a, b)))
        }
        (Number(a), Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
        }
        _ => one == other,
    }
}
