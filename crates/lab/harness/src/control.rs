//! What coordinator and peers tell each other: one value in a message, as JSON in a memory file whose descriptor the control
//! socket carries. A datagram holds a hundred kilobytes or so, and a report as much as was measured.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use causeway_os::{memory, socket};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Descriptors in one message; the kernel allows 253.
const FDS_PER_MESSAGE: usize = 200;

/// Sends a value, and descriptors that go with it.
pub fn send(socket: BorrowedFd<'_>, value: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(value).expect("a message is plain data");
    let mut file = File::from(memory::memfd("weighbridge-message", 0)?);
    file.write_all(&text)?;
    socket::send_with_fds(socket, &[0], &[file.as_fd()])?;
    fds.chunks(FDS_PER_MESSAGE).try_for_each(|fds| Ok(socket::send_with_fds(socket, &[0], fds)?))
}

/// Receives a value; `None` when the other side has closed its end without one.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<T>> {
    let (len, fds) = socket::recv_with_fds(socket, &mut [0], 1)?;
    if len == 0 {
        return Ok(None);
    }
    let file = fds.into_iter().next().ok_or_else(|| io::Error::other("a message came without its text"))?;
    let (mut file, mut text) = (File::from(file), Vec::new());
    file.rewind()?;
    file.read_to_end(&mut text)?;
    serde_json::from_slice(&text).map(Some).map_err(io::Error::other)
}

/// Receives so many descriptors as went with a value.
pub fn receive_fds(socket: BorrowedFd<'_>, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut fds = Vec::with_capacity(count);
    while fds.len() < count {
        let (len, more) = socket::recv_with_fds(socket, &mut [0], FDS_PER_MESSAGE)?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the sender is gone"));
        }
        fds.extend(more);
    }
    Ok(fds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_any_size_and_any_number_of_descriptors_arrive() {
        let (here, there) = socket::seqpacket_pair().unwrap();
        let value: Vec<f64> = (0..200_000).map(|number| f64::from(number) / 3.0).collect();
        let fds: Vec<_> = (0..450).map(|_| here.as_fd()).collect();
        send(here.as_fd(), &value, &fds).unwrap();
        assert_eq!(receive::<Vec<f64>>(there.as_fd()).unwrap(), Some(value));
        assert_eq!(receive_fds(there.as_fd(), fds.len()).unwrap().len(), fds.len());
        drop(here);
        assert_eq!(receive::<u64>(there.as_fd()).unwrap(), None);
    }
}
