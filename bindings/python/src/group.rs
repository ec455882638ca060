//! Groups: made, joined, served, shown.

use std::path::PathBuf;
use std::sync::Arc;

use causeway::GroupOptions;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::handle::{Handle, guarded};
use crate::options;
use crate::wait::in_thread;

/// Access to a group.
#[pyclass(frozen, subclass, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Group(Handle<Arc<causeway::Group>>);

impl Group {
    pub fn shared(&self) -> PyResult<Arc<causeway::Group>> {
        self.0.with(|group| Ok(Arc::clone(group)))
    }
}

#[pymethods]
impl Group {
    /// Joins the group at `path`; with `name` instead, makes one with these options.
    #[new]
    #[pyo3(signature = (path=None, name=None, **options))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        name: Option<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Group> {
        guarded(|| {
            let mut set = GroupOptions::new();
            for (option, value) in options.iter().flat_map(|options| options.iter()) {
                set = options::set(set, option.extract::<String>()?.as_str(), &value)?;
            }
            let group = in_thread(py, move || match (path, name) {
                (Some(path), _) => causeway::Group::join(path).map_err(errors::log),
                (None, name) => causeway::Group::create(&name.unwrap_or_default(), set).map_err(errors::log),
            })?;
            Ok(Group(Handle::new(Arc::new(group))))
        })
    }

    /// Serves the group at this path.
    fn serve_at(&self, path: PathBuf) -> PyResult<()> {
        self.0.with(|group| group.serve_at(path).map_err(errors::log))
    }

    /// Gives the group a log of another size.
    fn resize(&self, py: Python<'_>, capacity_bytes: u64) -> PyResult<()> {
        let group = self.shared()?;
        guarded(|| in_thread(py, move || group.resize(capacity_bytes).map_err(errors::log)))
    }

    /// Lets the group have the highest format of this release; says that of the next log.
    fn upgrade(&self, py: Python<'_>) -> PyResult<u32> {
        let group = self.shared()?;
        guarded(|| in_thread(py, move || group.upgrade().map_err(errors::log)))
    }

    /// Ends a subscriber; says whether there was one.
    fn disconnect(&self, subscriber: u32) -> PyResult<bool> {
        self.0.with(|group| group.disconnect(subscriber).map_err(errors::log))
    }

    /// The state of the group, as a dictionary.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let group = self.shared()?;
        guarded(|| {
            let report = in_thread(py, move || group.report().map_err(errors::log))?;
            let all = PyDict::new(py);
            all.set_item("capacity_bytes", report.capacity_bytes)?;
            all.set_item("position", report.position)?;
            all.set_item("messages", report.messages)?;
            all.set_item("format", report.format)?;
            all.set_item("epoch", report.epoch)?;
            let mut publishers = Vec::new();
            for publisher in &report.publishers {
                let one = PyDict::new(py);
                one.set_item("id", publisher.slot)?;
                one.set_item("pid", publisher.pid)?;
                one.set_item("uid", publisher.uid)?;
                publishers.push(one);
            }
            all.set_item("publishers", publishers)?;
            let mut subscribers = Vec::new();
            for subscriber in &report.subscribers {
                let one = PyDict::new(py);
                one.set_item("id", subscriber.slot)?;
                one.set_item("pid", subscriber.pid)?;
                one.set_item("uid", subscriber.uid)?;
                one.set_item("policy", subscriber.policy.to_string())?;
                one.set_item("demoted", subscriber.demoted)?;
                one.set_item("lag_bytes", subscriber.lag_bytes)?;
                one.set_item("received", subscriber.received)?;
                one.set_item("lost_messages", subscriber.lost_messages)?;
                subscribers.push(one);
            }
            all.set_item("subscribers", subscribers)?;
            Ok(all)
        })
    }

    fn close(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }
}
