//! Questions of one's own, in SQL over the table `results` and views of it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::failure::Failure;
use crate::lake::{self, objects, results_folder};
use crate::schema::VERSION;
use crate::store::Store;

/// Views that both engines have; `latest` is the last figure of each machine and case.
pub const VIEWS: &[(&str, &str)] = &[
    ("measured", "SELECT * FROM results WHERE outcome = 'measured'"),
    (
        "latest",
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY machine, case_id ORDER BY started DESC, record_id DESC) AS place \
         FROM measured) AS numbered WHERE place = 1",
    ),
];

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// With a line of names.
    Csv,
    /// An object a line.
    Json,
}

/// What DuckDB is to be told for the same table and views.
pub fn for_duckdb(store: &Store) -> String {
    let folder = store.url().as_str().trim_end_matches('/').trim_start_matches("file://").to_owned();
    let results = format!(
        "SELECT * FROM read_parquet('{folder}/v{VERSION}/results/*/*/*.parquet', union_by_name = true, hive_partitioning = true)"
    );
    let all = [("results", &*results)].into_iter().chain(VIEWS.iter().copied());
    all.map(|(name, query)| format!("CREATE VIEW {name} AS {query};\n")).collect()
}

/// The answer, and what was left out of it.
///
/// # Errors
/// Where the store is away, or the query means nothing.
pub async fn answer(store: &Store, query: &str, format: Format) -> Result<(String, Vec<Failure>), Failure> {
    match run(store, query, None).await {
        Ok(batches) => Ok((written(&batches, format)?, Vec::new())),
        Err(error) => {
            // One broken object breaks every query. Which is it?
            let (good, problems) = checked(store).await?;
            if problems.is_empty() {
                return Err(Failure::hopeless(error.strip_backtrace()));
            }
            let batches = run(store, query, Some(good))
                .await
                .map_err(|error| Failure::hopeless(error.strip_backtrace()))?;
            Ok((written(&batches, format)?, problems))
        }
    }
}

async fn run(
    store: &Store,
    query: &str,
    only: Option<Vec<String>>,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let config = SessionConfig::new().with_collect_statistics(false);
    let context = SessionContext::new_with_config(config);
    if store.url().scheme() != "file" {
        context.register_object_store(store.url(), store.objects());
    }
    let base = store.url().as_str().trim_end_matches('/');
    let addresses = only.unwrap_or_else(|| vec![format!("{}/", results_folder())]);
    let tables = addresses
        .iter()
        .map(|name| ListingTableUrl::parse(format!("{base}/{name}")))
        .collect::<Result<Vec<_>, _>>()?;
    let days = vec![
        ("campaign".to_owned(), arrow::datatypes::DataType::Utf8),
        ("day".to_owned(), arrow::datatypes::DataType::Date32),
    ];
    let options = ListingOptions::new(Arc::new(ParquetFormat::default().with_force_view_types(false)))
        .with_file_extension(".parquet")
        .with_table_partition_cols(days);
    let schema = options.infer_schema(&context.state(), &tables[0]).await;
    // Columns that a newer program has added are in some objects and not in others.
    let mut schemas = vec![crate::schema::arrow().as_ref().clone()];
    schemas.extend(schema.ok().map(|schema| schema.as_ref().clone().with_metadata(Default::default())));
    let schema = arrow::datatypes::Schema::try_merge(schemas)?;
    let config = ListingTableConfig::new_with_multi_paths(tables)
        .with_listing_options(options)
        .with_schema(Arc::new(schema));
    context.register_table("results", Arc::new(ListingTable::try_new(config)?))?;
    for (name, view) in VIEWS {
        context.sql(&format!("CREATE VIEW {name} AS {view}")).await?;
    }
    let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    context.sql_with_options(query, reading).await?.collect().await
}

/// The names of objects that are whole, and what is wrong with the others.
async fn checked(store: &Store) -> Result<(Vec<String>, Vec<Failure>), Failure> {
    let (mut good, mut problems) = (Vec::new(), Vec::new());
    for (name, _) in objects(store).await? {
        let bytes = store.get(&name).await?;
        match lake::check(&name, bytes) {
            Ok(()) => good.push(name),
            Err(why) => problems.push(store.left_out(&name, why)),
        }
    }
    Ok((good, problems))
}

fn written(batches: &[RecordBatch], format: Format) -> Result<String, Failure> {
    let failed =
        |error: arrow::error::ArrowError| Failure::hopeless(format!("the answer cannot be written: {error}"));
    let mut bytes = Vec::new();
    match format {
        Format::Table => return Ok(format!("{}\n", pretty_format_batches(batches).map_err(failed)?)),
        Format::Csv => {
            let mut writer = arrow::csv::Writer::new(&mut bytes);
            batches.iter().try_for_each(|batch| writer.write(batch)).map_err(failed)?;
        }
        Format::Json => {
            let mut writer = arrow::json::LineDelimitedWriter::new(&mut bytes);
            batches
                .iter()
                .try_for_each(|batch| writer.write(batch))
                .and_then(|()| writer.finish())
                .map_err(failed)?;
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
