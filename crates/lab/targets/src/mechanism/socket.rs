//! What mechanisms over sockets share: the sizes of their buffers, and how long a message may be in them.

use causeway_os::socket as os;

use super::fits_sysctl;
use crate::prelude::*;

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

pub(super) const AXES: &[Axis] = &[SNDBUF, RCVBUF];

/// One of the two buffers of a socket.
struct Size {
    axis: Axis,
    limit: &'static str,
    set: fn(BorrowedFd<'_>, usize) -> causeway_os::Result<()>,
    get: fn(BorrowedFd<'_>) -> causeway_os::Result<usize>,
}

const SIZES: [Size; 2] = [
    Size {
        axis: SNDBUF,
        limit: "net/core/wmem_max",
        set: |socket, bytes| os::set_send_buffer_bytes(socket, bytes),
        get: |socket| os::send_buffer_bytes(socket),
    },
    Size {
        axis: RCVBUF,
        limit: "net/core/rmem_max",
        set: |socket, bytes| os::set_receive_buffer_bytes(socket, bytes),
        get: |socket| os::receive_buffer_bytes(socket),
    },
];

/// May this case have buffers of the size that it asks for?
pub(super) fn fits_buffers(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
    SIZES.iter().try_for_each(|Size { axis, limit, .. }| match params.number(axis.name) {
        Some(bytes) => fits_sysctl(host, limit, bytes as u64, &format!("{}={bytes}", axis.name)),
        None => Ok(()),
    })
}

/// Sets the sizes that the case asks for. It is an error where the kernel gives another size than the double of what was asked for,
/// as it does below its minimum.
pub(super) fn set_buffers(socket: &OwnedFd, params: &CaseParams) -> io::Result<()> {
    for Size { axis, set, get, .. } in SIZES {
        let Some(asked) = params.number(axis.name) else { continue };
        set(socket.as_fd(), asked)?;
        let given = get(socket.as_fd())?;
        if given != 2 * asked {
            return Err(io::Error::other(format!(
                "{}={asked} is not what the kernel gives: {} instead",
                axis.name,
                given / 2
            )));
        }
    }
    Ok(())
}

/// What the kernel keeps of a send buffer for itself: `unix_dgram_sendmsg()` refuses longer messages with EMSGSIZE.
const OVERHEAD_BYTES: u64 = 32;

/// May a Unix socket that keeps messages apart carry those of this case, with the buffers that it asks for?
pub(super) fn fits_unix_message(host: &Host, params: &CaseParams) -> Result<(), Unsupported> {
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
    let first = (wanted > wmem_max).then(|| {
        format!("raise net.core.wmem_max = {wmem_max} with sysctl net.core.wmem_max={wanted}, then ")
    });
    let first = first.unwrap_or_default();
    Err(Unsupported(format!(
        "a message of {payload} bytes exceeds the send buffer ({name}: {buffer} bytes, of which it takes {most}); \
         {first}set the axis sndbuf={wanted}"
    )))
}

pub(super) fn facts(socket: BorrowedFd<'_>) -> io::Result<Facts> {
    Ok(Facts::from([
        ("sndbuf_bytes".into(), os::send_buffer_bytes(socket)?.to_string()),
        ("rcvbuf_bytes".into(), os::receive_buffer_bytes(socket)?.to_string()),
    ]))
}
