//! Subscribers, and the messages that they receive.

use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Instant;

use causeway::{LargeSubscriber, MessageOf, Received, SubscribeOptions, TryRecvError, Waited};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{self, Disconnected};
use crate::group::Group;
use crate::handle::{Handle, guarded};
use crate::options::Policy;
use crate::payload::Payload;
use crate::wait::{duration, in_thread, sliced};

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
