//! What mechanisms over sockets share: the sizes of their buffers, and how long a message may be in them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use causeway_os::socket;

use weighbridge_harness::axis::{Axis, Values};
use weighbridge_harness::contract::{Facts, Unsupported};
use weighbridge_harness::host::Host;
use weighbridge_harness::params::CaseParams;

const SNDBUF: Axis = Axis {
    name: "sndbuf",
    default: "default",
    values: Values::Bytes,
    about: "SO_SNDBUF as asked for; the kernel doubles it for its bookkeeping; default is what the kernel gives",
};
const RCVBUF: Axis = Axis {
    name: "rcvbuf",
    default: "default",
    values: Values::Bytes,
    about: "SO_RCVBUF as asked for; the kernel doubles it, and Unix sockets do not use it",
};

/// Sizes of the buffers.
pub const AXES: &[Axis] = &[SNDBUF, RCVBUF];

/// May this case have buffers of the size that it asks for?
pub fn fits_buffers(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    for (axis, path) in [(SNDBUF, "net/core/wmem_max"), (RCVBUF, "net/core/rmem_max")] {
        let most = host.sysctl_number(path).unwrap_or(u64::MAX);
        let name = path.replace('/', ".");
        match params.number(axis.name) {
            Some(bytes) if bytes as u64 > most => {
                return Err(Unsupported(format!(
                    "{}={bytes} exceeds {name} = {most}; raise it with sysctl {name}={bytes}",
                    axis.name
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sets the sizes that the case asks for.
///
/// # Errors
/// The kernel's, or it gave another size than the double of what was asked for, as it does below its minimum.
pub fn set_buffers(socket: impl AsFd, params: &CaseParams) -> io::Result<()> {
    let socket = socket.as_fd();
    let is_double = |axis: Axis, asked: usize, given: usize| {
        if given == 2 * asked {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "{}={asked} is not what the kernel gives: {} instead",
            axis.name,
            given / 2
        )))
    };
    if let Some(bytes) = params.number(SNDBUF.name) {
        socket::set_send_buffer_bytes(socket, bytes)?;
        is_double(SNDBUF, bytes, socket::send_buffer_bytes(socket)?)?;
    }
    if let Some(bytes) = params.number(RCVBUF.name) {
        socket::set_receive_buffer_bytes(socket, bytes)?;
        is_double(RCVBUF, bytes, socket::receive_buffer_bytes(socket)?)?;
    }
    Ok(())
}

/// What the kernel keeps of a send buffer for itself: `unix_dgram_sendmsg()` refuses longer messages with EMSGSIZE.
const OVERHEAD_BYTES: u64 = 32;

/// May a Unix socket that keeps messages apart carry those of this case, with the buffers that it asks for?
pub fn fits_unix_message(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    fits_buffers(host, params)?;
    let payload = params.payload_bytes as u64;
    let (name, buffer) = match params.number(SNDBUF.name) {
        Some(bytes) => ("sndbuf", 2 * bytes as u64),
        None => ("net.core.wmem_default", host.sysctl_number("net/core/wmem_default").unwrap_or(u64::MAX)),
    };
    let most = buffer.saturating_sub(OVERHEAD_BYTES);
    if payload <= most {
        return Ok(());
    }
    let wanted = payload.saturating_add(OVERHEAD_BYTES).div_ceil(2);
    let wmem_max = host.sysctl_number("net/core/wmem_max").unwrap_or(u64::MAX);
    let first = if wanted > wmem_max {
        format!("raise net.core.wmem_max = {wmem_max} with sysctl net.core.wmem_max={wanted}, then ")
    } else {
        String::new()
    };
    Err(Unsupported(format!(
        "a message of {payload} bytes exceeds the send buffer ({name}: {buffer} bytes, of which it takes {most}); \
         {first}set the axis sndbuf={wanted}"
    )))
}

/// Sizes of the buffers, as they are.
///
/// # Errors
/// The error of the system call that failed.
pub fn facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    Ok(Facts::from([
        ("sndbuf_bytes".into(), socket::send_buffer_bytes(socket)?.to_string()),
        ("rcvbuf_bytes".into(), socket::receive_buffer_bytes(socket)?.to_string()),
    ]))
}
