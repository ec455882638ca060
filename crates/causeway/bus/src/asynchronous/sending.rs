//! The way of a message out of a task, whose future may be dropped while there is no space for it.

use std::time::Duration;

use crate::connection::Outgoing;
use crate::error::Result;

/// How long a task sleeps before it looks again whether there is space for its message.
const SPACE_POLL: Duration = Duration::from_millis(1);

/// What sends the messages of tasks.
pub(crate) trait MessageSink {
    /// Sends if there is space; drains received messages otherwise.
    ///
    /// # Errors
    /// The message cannot be sent, or the connection has ended.
    fn try_send(&self, message: &mut Outgoing) -> Result<bool>;

    /// The future that was to send a message was dropped. What the bus holds a part of ([`Outgoing::is_staged`]) has to be sent all the same.
    fn abandon(&self, message: Outgoing);
}

/// Sends a message. While there is no space, other tasks run.
pub(crate) async fn send(sink: &impl MessageSink, message: Outgoing) -> Result<()> {
    let mut unsent = Unsent { sink, message: Some(message) };
    while let Some(message) = &mut unsent.message {
        match sink.try_send(message) {
            Ok(false) => tokio::time::sleep(SPACE_POLL).await,
            sent => {
                unsent.message = None;
                return sent.map(drop);
            }
        }
    }
    Ok(())
}

/// A message of a future that may be dropped.
struct Unsent<'a, E: MessageSink> {
    sink: &'a E,
    message: Option<Outgoing>,
}

impl<E: MessageSink> Drop for Unsent<'_, E> {
    fn drop(&mut self) {
        if let Some(message) = self.message.take() {
            self.sink.abandon(message);
        }
    }
}
