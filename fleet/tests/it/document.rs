//! The document of the schema is that of the files.

use std::fs;
use std::path::Path;

use weighbridge_fleet::rows::Record;
use weighbridge_fleet::schema::{COLUMNS, VERSION};
use weighbridge_fleet::table;

use crate::support::world::{Kind, World, record};

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fleet-schema.md")).unwrap()
}

#[test]
fn the_document_has_every_column_with_its_type_and_meaning() {
    let row = |column: &weighbridge_fleet::schema::Column| {
        format!("| `{}` | {} | {} |", column.name, column.kind.name(), column.about)
    };
    let expected: Vec<String> = COLUMNS.iter().map(row).collect();
    let document = document();
    let found: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(found, expected, "docs/fleet-schema.md should have\n{}", expected.join("\n"));
    assert!(document.contains(&format!("v{VERSION}/results/campaign=")));
}

#[test]
fn a_file_has_the_columns_of_the_document_and_the_same_rows_give_the_same_bytes() {
    let world = World::new(Kind::Normal, 1, 5, 1);
    let bytes = record(&world.session(0, 0, 0, &[]));
    let made = || {
        let record = Record::new("a record", &bytes).unwrap();
        let batch = table::batch(&record);
        assert_eq!(batch.num_rows(), 5);
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
        table::parquet(&batch)
    };
    assert_eq!(made(), made());
}
