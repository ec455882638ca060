//! The log: groups, publishers, subscribers.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use causeway::{
    GroupOptions, LargePublisher, LargeSubscriber, MessageOf, PoolOptions, PublishTimeoutError, Received,
    SubscribeOptions, TryPublishError, TryRecvError, Waited,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{self, Disconnected};
use crate::handle::{Handle, guarded};
use crate::options::{self, Policy};
use crate::payload::Payload;
use crate::wait::{duration, in_thread, sliced};

/// Access to a group.
#[pyclass(frozen, subclass, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Group(Handle<Arc<causeway::Group>>);

impl Group {
    fn shared(&self) -> PyResult<Arc<causeway::Group>> {
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

impl Publishing {
    fn plain(&mut self) -> &mut causeway::Publisher {
        match self {
            Publishing::Plain(publisher) => publisher,
            Publishing::Large(publisher) => publisher.get_mut(),
        }
    }

    /// The position; `None` while there is no space.
    fn try_publish(&mut self, py: Python<'_>, bytes: &Bytes<'_>, topic: u32) -> PyResult<Option<u64>> {
        let full = |error| match error {
            TryPublishError::Full => Ok(None),
            TryPublishError::Disconnected => Err(errors::log(causeway::Error::Disconnected)),
            TryPublishError::Failed(error) => Err(errors::log(error)),
        };
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
        match publisher.try_publish_with_topic(topic, bytes) {
            Ok(position) => Ok(Some(position.0)),
            Err(TryPublishError::Full) => Ok(None),
            Err(TryPublishError::Disconnected) => Err(errors::log(causeway::Error::Disconnected)),
            Err(TryPublishError::Failed(error)) => Err(errors::log(error)),
        }
    }

    /// The same, waiting for this time.
    fn publish_within(
        &mut self,
        bytes: &[u8],
        topic: u32,
        slice: std::time::Duration,
    ) -> PyResult<Option<u64>> {
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

/// A message that was received.
#[pyclass(frozen, module = "causeway_ipc")]
#[derive(Debug)]
pub struct Message {
    content: Content,
    /// Position in the log, the same for every subscriber.
    #[pyo3(get)]
    position: u64,
    /// Number of the publisher.
    #[pyo3(get)]
    publisher: u8,
    /// Messages that this publisher had published before, modulo 2³².
    #[pyo3(get)]
    sequence: u32,
    #[pyo3(get)]
    topic: u32,
    /// Messages that this subscriber lost since the one that it received before.
    #[pyo3(get)]
    lost: u64,
}

#[derive(Debug)]
enum Content {
    Bytes(Py<PyBytes>),
    Payload(Py<Payload>),
}

#[pymethods]
impl Message {
    /// The bytes; of a payload by reference, a copy made now.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.bind(py).clone()),
            Content::Payload(payload) => payload.get().copy(py),
        }
    }

    /// The payload by reference; `None` of other messages.
    #[getter]
    fn payload(&self, py: Python<'_>) -> Option<Py<Payload>> {
        match &self.content {
            Content::Bytes(_) => None,
            Content::Payload(payload) => Some(payload.clone_ref(py)),
        }
    }

    fn __repr__(&self) -> String {
        let Message { position, publisher, topic, lost, .. } = self;
        format!("<Message at {position} of publisher {publisher}, topic {topic}, {lost} lost before>")
    }
}

enum Subscribed {
    Plain(causeway::Subscriber),
    Large(LargeSubscriber),
}

impl Subscribed {
    fn plain(&mut self) -> &mut causeway::Subscriber {
        match self {
            Subscribed::Plain(subscriber) => subscriber,
            Subscribed::Large(subscriber) => subscriber.get_mut(),
        }
    }
}

struct Receiving {
    subscribed: Subscribed,
    /// Lost since the last message.
    lost: u64,
}

impl Receiving {
    /// The next message that is there.
    fn take(&mut self, py: Python<'_>) -> PyResult<Option<Message>> {
        loop {
            let news = match &mut self.subscribed {
                Subscribed::Plain(subscriber) => subscriber.try_recv().map(|received| match received {
                    Received::Message(message) => {
                        let causeway::Message { bytes, position, publisher, sequence, topic, .. } = message;
                        let content = Content::Bytes(PyBytes::new(py, bytes).unbind());
                        Ok((content, position.0, publisher, sequence, topic))
                    }
                    Received::Lost { messages, .. } => Err(messages),
                    Received::Demoted => Err(0),
                }),
                Subscribed::Large(subscriber) => match subscriber.try_recv() {
                    Ok(Received::Message(message)) => {
                        let MessageOf { payload, position, publisher, sequence, topic, .. } = message;
                        let content = Content::Payload(Py::new(py, Payload::new(payload))?);
                        Ok(Ok((content, position.0, publisher, sequence, topic)))
                    }
                    Ok(Received::Lost { messages, .. }) => Ok(Err(messages)),
                    Ok(Received::Demoted) => Ok(Err(0)),
                    Err(error) => Err(error),
                },
            };
            match news {
                Ok(Ok((content, position, publisher, sequence, topic))) => {
                    let lost = std::mem::take(&mut self.lost);
                    return Ok(Some(Message { content, position, publisher, sequence, topic, lost }));
                }
                Ok(Err(messages)) => self.lost += messages,
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => return Err(errors::log(causeway::Error::Disconnected)),
                Err(TryRecvError::Failed(error)) => return Err(errors::log(error)),
            }
        }
    }
}

/// Receives messages, or payloads by reference.
#[pyclass(frozen, subclass, module = "causeway_ipc")]
pub struct Subscriber(Handle<Receiving>);

#[pymethods]
impl Subscriber {
    #[new]
    #[pyo3(signature = (group, policy=None, topics=None, from_oldest=false, timeout=None, large=false))]
    fn new(
        py: Python<'_>,
        group: &Bound<'_, Group>,
        policy: Option<Policy>,
        topics: Option<Vec<u32>>,
        from_oldest: bool,
        timeout: Option<f64>,
        large: bool,
    ) -> PyResult<Subscriber> {
        let group = group.get().shared()?;
        guarded(|| {
            let mut options =
                SubscribeOptions::new(policy.map_or(causeway::Policy::Reliable, |policy| policy.0));
            if let Some(topics) = topics {
                options = options.topics(topics);
            }
            if from_oldest {
                options = options.from_oldest();
            }
            if let Some(timeout) = duration(timeout)? {
                options = options.timeout(timeout);
            }
            let subscribed = in_thread(py, move || {
                let subscribed = match large {
                    true => group.large_subscribe(options).map(Subscribed::Large),
                    false => group.subscribe(options).map(Subscribed::Plain),
                };
                subscribed.map_err(errors::log)
            })?;
            Ok(Subscriber(Handle::new(Receiving { subscribed, lost: 0 })))
        })
    }

    #[getter]
    fn id(&self) -> PyResult<u32> {
        self.0.with(|receiving| Ok(receiving.subscribed.plain().id()))
    }

    /// The position up to which every message was received or lost.
    #[getter]
    fn position(&self) -> PyResult<u64> {
        self.0.with(|receiving| Ok(receiving.subscribed.plain().position().0))
    }

    #[getter]
    fn lost_messages(&self) -> PyResult<u64> {
        self.0.with(|receiving| Ok(receiving.subscribed.plain().lost_messages()))
    }

    /// The next message; waits for it. `None` when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Message>> {
        self.0.with(|receiving| {
            let timeout = duration(timeout)?;
            let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            loop {
                if let Some(message) = receiving.take(py)? {
                    return Ok(Some(message));
                }
                let left = end.map(|end| end.saturating_duration_since(Instant::now()));
                let subscriber = receiving.subscribed.plain();
                let step = |slice| {
                    let waited = subscriber.wait(Some(slice)).map_err(errors::log)?;
                    Ok((waited == Waited::Ready).then_some(()))
                };
                if sliced(py, left, step)?.is_none() {
                    return Ok(None);
                }
            }
        })
    }

    /// The next message, if it is there.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        self.0.with(|receiving| receiving.take(py))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// `for message in subscriber` ends where the group ends.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Message>> {
        match self.recv(py, None) {
            Err(error) if error.is_instance_of::<Disconnected>(py) => Ok(None),
            received => received,
        }
    }

    /// Prepares a wait for the descriptor: false if there is something to receive.
    fn arm(&self) -> PyResult<bool> {
        self.0.with(|receiving| receiving.subscribed.plain().arm().map_err(errors::log))
    }

    /// Takes that back.
    fn disarm(&self) -> PyResult<()> {
        self.0.with(|receiving| {
            receiving.subscribed.plain().disarm();
            Ok(())
        })
    }

    fn fileno(&self) -> PyResult<RawFd> {
        self.0.with(|receiving| Ok(receiving.subscribed.plain().as_fd().as_raw_fd()))
    }

    /// The state of this subscriber and of its group, as a dictionary.
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.0.with(|receiving| {
            let health = receiving.subscribed.plain().health().map_err(errors::log)?;
            let all = PyDict::new(py);
            all.set_item("server_is_gone", health.server_is_gone)?;
            all.set_item("unfinished_by", health.unfinished_by)?;
            all.set_item("publishers", health.publishers)?;
            all.set_item("demoted", health.demoted)?;
            all.set_item("given_up", health.given_up)?;
            all.set_item("killed_publishers", health.killed_publishers)?;
            Ok(all)
        })
    }

    fn _close(&self) -> PyResult<()> {
        self.0.take().map(drop)
    }
}
