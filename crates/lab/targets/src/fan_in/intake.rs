//! What the reader reads: the ends, a buffer, and the counts of what came.
//!
//! A stream that is ready is read without blocking. Where nothing says which is ready (`wait=none`) reads block, and then the
//! order matters: a reader that waits for data of one stream while the writer waits for room in another stream waits for ever. So
//! the reader goes round the streams in the writers' order and blocks on a stream only while the message of this round is
//! missing. Every message before that one has been read, hence the writer of that stream either has room for it or has
//! written it. What a read brings beyond the message counts for the rounds to come, in which the stream is passed over.

use super::READ_BYTES;
use super::arrivals::Arrivals;
use crate::many::mark;
use crate::prelude::*;
use crate::sys;

pub(super) struct Intake<'a> {
    fds: Vec<RawFd>,
    buffer: Buffer,
    read_bytes: usize,
    payload_bytes: usize,
    /// Reads again after a full buffer: a waiter that tells of new data only does not tell of the rest.
    until_empty: bool,
    /// Bytes read of each stream beyond the messages that were due, where reads block.
    ahead_bytes: Vec<usize>,
    is_touched: bool,
    /// At a rate.
    pub(super) arrivals: Option<Arrivals<'a>>,
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) sum: u64,
    pub(super) empty: u64,
    pub(super) interrupted: u64,
}

impl Intake<'_> {
    pub(super) fn new(
        ends: &[OwnedFd],
        payload_bytes: usize,
        touch: Touch,
        until_empty: bool,
    ) -> io::Result<Self> {
        let read_bytes = READ_BYTES.max(payload_bytes);
        Ok(Intake {
            fds: ends.iter().map(AsRawFd::as_raw_fd).collect(),
            buffer: Buffer::new(read_bytes)?,
            read_bytes,
            payload_bytes,
            until_empty,
            ahead_bytes: vec![0; ends.len()],
            is_touched: touch == Touch::All,
            arrivals: None,
            events: 0,
            bytes: 0,
            sum: 0,
            empty: 0,
            interrupted: 0,
        })
    }

    pub(super) fn prefault(&mut self) -> io::Result<()> {
        self.buffer.prefault()
    }

    pub(super) fn streams(&self) -> usize {
        self.fds.len()
    }

    /// Calls of read so far. One visit to a stream may be thousands, where it is read until it is empty.
    #[inline]
    pub(super) fn reads(&self) -> u64 {
        self.events + self.empty
    }

    /// Reads a stream that has data, once as a rule, without blocking.
    #[inline]
    pub(super) fn take_ready(&mut self, index: usize) -> io::Result<()> {
        while let Some(count) = self.read(index)? {
            if !(self.until_empty && count == self.read_bytes) {
                break;
            }
        }
        Ok(())
    }

    /// Reads a stream until the message of this round is there, blocking as long as it is not.
    #[inline]
    pub(super) fn take_due(&mut self, index: usize) -> io::Result<()> {
        while self.ahead_bytes[index] < self.payload_bytes {
            self.ahead_bytes[index] += self.read(index)?.unwrap_or(0);
        }
        self.ahead_bytes[index] -= self.payload_bytes;
        Ok(())
    }

    /// From now on reads return at once, and a visit empties its stream.
    pub(super) fn stop_blocking(&mut self) -> io::Result<()> {
        self.until_empty = true;
        self.fds.iter().try_for_each(sys::set_nonblocking)
    }

    pub(super) fn take_all(&mut self) -> io::Result<()> {
        (0..self.fds.len()).try_for_each(|index| self.take_ready(index))
    }

    /// One read; `None` where there was nothing to read.
    #[inline]
    fn read(&mut self, index: usize) -> io::Result<Option<usize>> {
        let buffer = &mut self.buffer.bytes_mut()[..self.read_bytes];
        loop {
            match sys::read(&self.fds[index], buffer) {
                Ok(0) => {
                    let why = format!("stream {index}: its writer has closed it");
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
                }
                Ok(count) => {
                    self.events += 1;
                    self.bytes += count as u64;
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.came(index, count);
                    }
                    if self.is_touched {
                        self.sum = self.sum.wrapping_add(touch::byte_sum(&buffer[..count]));
                    }
                    return Ok(Some(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.empty += 1;
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => self.interrupted += 1,
                Err(error) => return Err(io::Error::new(error.kind(), format!("stream {index}: {error}"))),
            }
        }
    }

    /// One message through every stream, each byte of which says which stream it is.
    pub(super) fn verify(&mut self) -> io::Result<()> {
        for (index, fd) in self.fds.iter().enumerate() {
            let message = &mut self.buffer.bytes_mut()[..self.payload_bytes];
            if sys::fill(fd, message)? < message.len() {
                return Err(io::Error::other(format!("stream {index} ended before its first message")));
            }
            if message.iter().any(|byte| *byte != mark(index)) {
                return Err(io::Error::other(format!("stream {index} does not hold what its writer wrote")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fan_in::part;
    use causeway_os::socket;
    use rustix::net::sockopt;
    use rustix::pipe::{fcntl_setpipe_size, pipe};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// The smallest pipe that the kernel makes fills soonest.
    fn small_pipe() -> (OwnedFd, OwnedFd) {
        let (read, write) = pipe().unwrap();
        fcntl_setpipe_size(&write, 4096).unwrap();
        (read, write)
    }

    fn small_stream() -> (OwnedFd, OwnedFd) {
        let (read, write) = socket::stream_pair().unwrap();
        sockopt::set_socket_send_buffer_size(&write, 1).unwrap();
        (read, write)
    }

    /// Blocking writers go round their parts of the streams while a blocking reader goes round all. The writers are done
    /// with all rounds, or a deadline says in which case they wait for each other.
    fn goes_round(pair: fn() -> (OwnedFd, OwnedFd), payload_bytes: usize, streams: usize, writers: usize) {
        const DEADLINE: Duration = Duration::from_secs(60);
        // Enough to fill every stream many times, however the two sides are scheduled.
        let rounds = (20 * 4096 / payload_bytes).clamp(20, 1000);
        let (reads, mut writes): (Vec<_>, Vec<_>) =
            (0..streams).map(|_| pair()).map(|(r, w)| (r, Some(w))).unzip();
        let (done, is_done) = mpsc::channel();
        for writer in 0..writers {
            let own: Vec<OwnedFd> =
                part(writer, writers, streams).map(|index| writes[index].take().unwrap()).collect();
            let done = done.clone();
            thread::spawn(move || {
                let message = vec![1; payload_bytes];
                for fd in (0..rounds).flat_map(|_| &own) {
                    sys::write_all(fd, &message).unwrap();
                }
                done.send(own).unwrap();
            });
        }
        thread::spawn(move || {
            let mut intake = Intake::new(&reads, payload_bytes, Touch::None, false).unwrap();
            for index in (0..rounds).flat_map(|_| 0..streams) {
                intake.take_due(index).unwrap();
            }
            assert_eq!(intake.bytes, (rounds * streams * payload_bytes) as u64);
            done.send(reads).unwrap();
        });
        // The ends stay open until all are done: no role may read the end of a stream.
        let mut ends = Vec::new();
        for _ in 0..=writers {
            ends.push(is_done.recv_timeout(DEADLINE).unwrap_or_else(|error| {
                panic!(
                    "{payload_bytes} bytes, {streams} streams, {writers} writers: {} of {} roles are done: {error}",
                    ends.len(),
                    writers + 1
                )
            }));
        }
    }

    #[test]
    fn a_reader_that_blocks_and_writers_that_block_never_wait_for_each_other() {
        for pair in [small_pipe, small_stream] {
            for payload_bytes in [1, 7, 512, 1023, 1024, 1025, 2047, 4095, 4096, 4097, 5000, 10_000, 100_000]
            {
                for (streams, writers) in [(1, 1), (2, 1), (7, 1), (7, 3), (50, 1), (50, 50)] {
                    goes_round(pair, payload_bytes, streams, writers);
                }
            }
        }
    }
}
