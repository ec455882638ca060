//! Conditions in SQL over the columns of `results`, for a row at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;

use crate::failure::Failure;
use crate::schema;

/// A condition as it was typed.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    condition: Expr,
    /// The columns that it asks for.
    pub columns: BTreeSet<String>,
}

impl Filter {
    /// Reads a condition.
    ///
    /// # Errors
    /// Where it is none, or names a column that is not there.
    pub fn new(text: &str) -> Result<Filter, Failure> {
        let schema = schema::with_partitions();
        let known = DFSchema::try_from(schema.as_ref().clone()).map_err(|error| mistaken(text, &error))?;
        let condition =
            SessionContext::new().parse_sql_expr(text, &known).map_err(|error| mistaken(text, &error))?;
        let columns = condition.column_refs().into_iter().map(|column| column.name.clone()).collect();
        let filter = Filter { text: text.into(), condition, columns };
        // A mistake is told before anything is read.
        filter.bound(&schema)?;
        Ok(filter)
    }

    /// Made ready for batches with these columns.
    ///
    /// # Errors
    /// Where types do not fit.
    pub fn bound(&self, schema: &Schema) -> Result<Bound, Failure> {
        let mistaken = |error| mistaken(&self.text, &error);
        let known = DFSchema::try_from(schema.clone()).map_err(mistaken)?;
        let physical =
            SessionContext::new().create_physical_expr(self.condition.clone(), &known).map_err(mistaken)?;
        if physical.data_type(schema).map_err(mistaken)? != DataType::Boolean {
            return Err(Failure::hopeless(format!("`{}` is neither true nor false of a row", self.text)));
        }
        Ok(Bound(physical))
    }
}

/// A condition on batches with certain columns.
#[derive(Clone, Debug)]
pub struct Bound(Arc<dyn PhysicalExpr>);

impl Bound {
    /// Of each row.
    ///
    /// # Errors
    /// What the engine says.
    pub fn holds(&self, batch: &RecordBatch) -> Result<Vec<bool>, String> {
        let value = self.0.evaluate(batch).and_then(|value| value.into_array(batch.num_rows()));
        let array = value.map_err(|error| error.strip_backtrace())?;
        let flags = array.as_boolean();
        Ok((0..flags.len()).map(|row| flags.is_valid(row) && flags.value(row)).collect())
    }
}

fn mistaken(condition: &str, error: &DataFusionError) -> Failure {
    let why = error.strip_backtrace();
    let first = why.lines().next().unwrap_or_default();
    Failure::hopeless(format!("`{condition}` is no condition on a row: {first}"))
}
