//! Publishers of messages, and of payloads by reference.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use causeway::{LargePublisher, PoolOptions, PublishTimeoutError, TryPublishError};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors;
use crate::group::Group;
use crate::handle::{Handle, guarded};
use crate::wait::{duration, in_thread, sliced};

/// What is published: immutable bytes where they lie, or any other buffer.
enum Bytes<'py> {
    Plain(Bound<'py, PyBytes>),
    Buffer(PyBuffer<u8>),
}

impl<'py> Bytes<'py> {
    fn of(data: &Bound<'py, PyAny>) -> PyResult<Bytes<'py>> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Ok(Bytes::Plain(bytes.clone()));
        }
        if let Ok(buffer) = PyBuffer::get(data) {
            return Ok(Bytes::Buffer(buffer));
        }
        // Other elements than bytes, such as numbers of numpy.
        let view = data.py().import("builtins")?.call_method1("memoryview", (data,))?;
        Ok(Bytes::Buffer(PyBuffer::get(&view.call_method1("cast", ("B",))?)?))
    }

    fn len(&self) -> usize {
        match self {
            Bytes::Plain(bytes) => bytes.as_bytes().len(),
            Bytes::Buffer(buffer) => buffer.len_bytes(),
        }
    }

    fn copy_to(&self, py: Python<'_>, into: &mut [u8]) -> PyResult<()> {
        match self {
            Bytes::Plain(bytes) => into.copy_from_slice(bytes.as_bytes()),
            Bytes::Buffer(buffer) => buffer.copy_to_slice(py, into)?,
        }
        Ok(())
    }

    /// For a wait without the interpreter.
    fn to_vec(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        match self {
            Bytes::Plain(bytes) => Ok(bytes.as_bytes().to_vec()),
            Bytes::Buffer(buffer) => buffer.to_vec(py),
        }
    }
}

enum Publishing {
    Plain(causeway::Publisher),
    Large(LargePublisher),
}

/// Where a try has found no space, that is no error.
fn full(error: TryPublishError) -> PyResult<Option<u64>> {
    match error {
        TryPublishError::Full => Ok(None),
        TryPublishError::Disconnected => Err(errors::log(causeway::Error::Disconnected)),
        TryPublishError::Failed(error) => Err(errors::log(error)),
    }
}

impl Publishing {
    fn plain(&mut self) -> &mut causeway::Publisher {
        match self {
            Publishing::Plain(publisher) => publisher,
            Publishing::Large(publisher) => publisher.get_mut(),
        }
    }

    /// The position; `None` while there is no space.
    fn try_publish(&mut self, py: Python<'_>, bytes: &Bytes<'_>, topic: u32) -> PyResult<Option<u64>> {
        match self {
            Publishing::Plain(publisher) => match publisher.try_loan(bytes.len()) {
                Ok(mut loan) => {
                    bytes.copy_to(py, &mut loan)?;
                    loan.with_topic(topic).commit().map(|position| Some(position.0)).map_err(errors::log)
                }
                Err(error) => full(error),
            },
            Publishing::Large(publisher) => match publisher.try_loan(bytes.len()) {
                Ok(loan) => {
                    let mut loan = loan.with_topic(topic);
                    bytes.copy_to(py, &mut loan)?;
                    loan.try_publish().map(|position| Some(position.0)).or_else(full)
                }
                Err(error) => full(error),
            },
        }
    }

    /// The last try of who gives up: other processes can see how often that happened. Of a payload the loan has counted it.
    fn last_try(&mut self, bytes: &[u8], topic: u32) -> PyResult<Option<u64>> {
        let Publishing::Plain(publisher) = self else { return Ok(None) };
        publisher.try_publish_with_topic(topic, bytes).map(|position| Some(position.0)).or_else(full)
    }

    /// The same, waiting for this time.
    fn publish_within(&mut self, bytes: &[u8], topic: u32, slice: Duration) -> PyResult<Option<u64>> {
        let late = |error| match error {
            PublishTimeoutError::Timeout => Ok(None),
            PublishTimeoutError::Disconnected => Err(errors::log(causeway::Error::Disconnected)),
            PublishTimeoutError::Failed(error) => Err(errors::log(error)),
        };
        match self {
            Publishing::Plain(publisher) => match publisher.loan_timeout(bytes.len(), slice) {
                Ok(mut loan) => {
                    loan.copy_from_slice(bytes);
                    loan.with_topic(topic).commit().map(|position| Some(position.0)).map_err(errors::log)
                }
                Err(error) => late(error),
            },
            Publishing::Large(publisher) => match publisher.loan_timeout(bytes.len(), slice) {
                Ok(loan) => {
                    let mut loan = loan.with_topic(topic);
                    loan.copy_from_slice(bytes);
                    loan.publish_timeout(slice).map(|position| Some(position.0)).or_else(late)
                }
                Err(error) => late(error),
            },
        }
    }
}

/// What tells that there may be space.
#[pyclass(frozen, module = "causeway_ipc")]
#[derive(Debug)]
pub struct SpaceNotice(Handle<causeway::SpaceNotice>);

#[pymethods]
impl SpaceNotice {
    fn fileno(&self) -> PyResult<RawFd> {
        self.0.with(|notice| Ok(notice.as_fd().as_raw_fd()))
    }

    fn close(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }
}

/// Publishes messages, or payloads by reference.
#[pyclass(frozen, subclass, module = "causeway_ipc")]
pub struct Publisher(Handle<Publishing>);

#[pymethods]
impl Publisher {
    #[new]
    #[pyo3(signature = (group, payload_bytes_max=None, files=8, sealed=true))]
    fn new(
        py: Python<'_>,
        group: &Bound<'_, Group>,
        payload_bytes_max: Option<usize>,
        files: u32,
        sealed: bool,
    ) -> PyResult<Publisher> {
        let group = group.get().shared()?;
        guarded(|| {
            let made = in_thread(py, move || {
                let made = match payload_bytes_max {
                    None => group.publisher().map(Publishing::Plain),
                    Some(bytes) => {
                        let pool = PoolOptions::new(bytes).files(files);
                        let pool = if sealed { pool.sealed() } else { pool.reused() };
                        group.large_publisher(pool).map(Publishing::Large)
                    }
                };
                made.map_err(errors::log)
            })?;
            Ok(Publisher(Handle::new(made)))
        })
    }

    #[getter]
    fn id(&self) -> PyResult<u8> {
        self.0.with(|publisher| Ok(publisher.plain().id()))
    }

    #[getter]
    fn payload_bytes_max(&self) -> PyResult<usize> {
        self.0.with(|publisher| {
            Ok(match publisher {
                Publishing::Plain(publisher) => publisher.payload_bytes_max(),
                Publishing::Large(publisher) => publisher.payload_bytes_max(),
            })
        })
    }

    /// Publishes a copy and returns its position; waits while there is no space.
    #[pyo3(signature = (data, topic=0, timeout=None))]
    fn publish(&self, data: &Bound<'_, PyAny>, topic: u32, timeout: Option<f64>) -> PyResult<u64> {
        let py = data.py();
        self.0.with(|publisher| {
            let bytes = Bytes::of(data)?;
            if let Some(position) = publisher.try_publish(py, &bytes, topic)? {
                return Ok(position);
            }
            let (copy, timeout) = (bytes.to_vec(py)?, duration(timeout)?);
            let published = match sliced(py, timeout, |slice| publisher.publish_within(&copy, topic, slice))?
            {
                None => publisher.last_try(&copy, topic)?,
                published => published,
            };
            published.ok_or_else(|| {
                PyTimeoutError::new_err(
                    "the log was full until the timeout; check which subscriber does not read",
                )
            })
        })
    }

    /// As `publish`, without waiting: `None` if there is no space.
    #[pyo3(signature = (data, topic=0))]
    fn try_publish(&self, data: &Bound<'_, PyAny>, topic: u32) -> PyResult<Option<u64>> {
        self.0.with(|publisher| {
            let bytes = Bytes::of(data)?;
            match publisher.try_publish(data.py(), &bytes, topic)? {
                None => publisher.last_try(&bytes.to_vec(data.py())?, topic),
                published => Ok(published),
            }
        })
    }

    /// A descriptor that becomes readable when there may be space: ask for it, try once more, and watch it.
    fn notify_space(&self) -> PyResult<SpaceNotice> {
        self.0.with(|publisher| {
            let notice = publisher.plain().notify_space().map_err(errors::log)?;
            Ok(SpaceNotice(Handle::new(notice)))
        })
    }

    /// Waits until so many subscribers are there; says whether they are.
    #[pyo3(signature = (count, timeout=None))]
    fn wait_for_subscribers(&self, py: Python<'_>, count: u32, timeout: Option<f64>) -> PyResult<bool> {
        self.0.with(|publisher| {
            let publisher = publisher.plain();
            let step = |slice| {
                Ok(publisher.wait_for_subscribers(count, Some(slice)).map_err(errors::log)?.then_some(()))
            };
            Ok(sliced(py, duration(timeout)?, step)?.is_some())
        })
    }

    #[getter]
    fn server_is_gone(&self) -> PyResult<bool> {
        self.0.with(|publisher| Ok(publisher.plain().server_is_gone()))
    }

    fn close(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }
}
