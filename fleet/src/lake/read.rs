//! A store into memory.

use futures::StreamExt;
use object_store::ObjectMeta;

use super::decode::Plan;
use super::model::Lake;
use crate::failure::{Exit, Failure};
use crate::filter::Filter;
use crate::schema::VERSION;
use crate::store::Store;

/// Objects that are read at the same time.
const AT_ONCE: usize = 32;

/// What to read.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Rows of which this holds.
    pub only: Option<Filter>,
    /// Sides that rows may belong to.
    pub sides: Vec<Filter>,
    /// Nothing from before this day.
    pub since: Option<String>,
    /// Only this campaign.
    pub campaign: Option<String>,
}

impl Wanted {
    fn takes(&self, name: &str) -> bool {
        let [campaign, day] = ["campaign", "day"].map(|key| partition(name, key).unwrap_or_default());
        self.since.as_deref().is_none_or(|since| day >= since)
            && self.campaign.as_deref().is_none_or(|only| campaign == only)
    }
}

/// The value of a part of a name: `day=2026-11-26`.
pub fn partition<'a>(name: &'a str, key: &str) -> Option<&'a str> {
    name.split('/').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// The folder of all results.
pub fn results_folder() -> String {
    format!("v{VERSION}/results")
}

/// The objects that hold results.
///
/// # Errors
/// Where the store is away or refuses.
pub async fn objects(store: &Store) -> Result<Vec<(String, ObjectMeta)>, Failure> {
    let all = store.list(&results_folder()).await?;
    let named = all.into_iter().map(|meta| (store.name(&meta.location), meta));
    Ok(named.filter(|(name, _)| name.ends_with(".parquet")).collect())
}

impl Lake {
    /// Reads what is wanted. Objects that are broken are problems, and the others are read.
    ///
    /// # Errors
    /// Where the store is away or refuses.
    pub async fn read(store: &Store, wanted: &Wanted) -> Result<Lake, Failure> {
        let plan = std::sync::Arc::new(Plan::of(wanted)?);
        let named = objects(store).await?.into_iter().filter(|(name, _)| wanted.takes(name));
        let mut parts = futures::stream::iter(named)
            .map(|(name, meta)| {
                let plan = plan.clone();
                async move {
                    let bytes = store.get(&name).await?;
                    let of = name.clone();
                    let decoded = tokio::task::spawn_blocking(move || plan.decode(&of, bytes)).await;
                    Ok::<_, Failure>((name, meta, decoded.unwrap_or_else(|error| Err(error.to_string()))))
                }
            })
            .buffered(AT_ONCE);
        let mut lake = Lake::new();
        lake.of = store.shown();
        while let Some(part) = parts.next().await {
            match part {
                Ok((name, meta, Ok(parts))) => {
                    lake.objects += 1;
                    let written_us = meta.last_modified.timestamp_micros();
                    parts
                        .into_iter()
                        .for_each(|part| lake.add(part, Some(written_us).filter(|_| !is_compacted(&name))));
                }
                Ok((name, _, Err(why))) => lake.problems.push(store.left_out(&name, why)),
                Err(failure) if failure.exit == Exit::Again => return Err(failure),
                Err(failure) => lake.problems.push(failure),
            }
        }
        lake.settle();
        Ok(lake)
    }
}

/// Was the object written when several records were put together?
pub fn is_compacted(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|file| file.starts_with("part-"))
}
