//! Captures of D-Bus traffic: pcap and pcapng, and the texts of `dbus-monitor`.
//!
//! A capture is read as far as it is valid. Damage is skipped up to the next packet that can be made out, and counted in
//! [`Problems`]; nothing ends the reading but the end of the file or an error of its source.
//!
//! The readers are our own because those of libraries end at the first damaged record.
//!
//! Sources of the formats: draft-ietf-opsawg-pcap (pcap), draft-ietf-opsawg-pcapng (pcapng), and the output of dbus-monitor.

mod monitor;
mod pcap;
mod pcapng;
mod profile;
mod window;
mod write;

pub use write::Writer;

use std::fmt;
use std::io::{self, Read};

use causeway_dbus_wire::wire::{Endian, MESSAGE_BYTES_MAX};
use window::Window;

/// The link type of D-Bus messages.
pub const LINK_TYPE: u32 = 231;

/// Link types under which programs without one for D-Bus write its messages: the one that early versions of Bustle used, and those that are
/// free for everybody's use. Their packets must look like messages.
fn may_be_dbus(link_type: u32) -> bool {
    matches!(link_type, 0 | 147..=162)
}

/// Names of the most frequent link types, as tcpdump.org lists them.
const LINK_TYPES: [(u32, &str); 22] = [
    (0, "BSD loopback"),
    (1, "Ethernet"),
    (12, "raw IP"),
    (101, "raw IP"),
    (105, "IEEE 802.11"),
    (108, "OpenBSD loopback"),
    (113, "Linux cooked capture"),
    (127, "IEEE 802.11 with radiotap"),
    (187, "Bluetooth HCI"),
    (189, "USB"),
    (192, "per-packet information"),
    (201, "Bluetooth HCI"),
    (220, "USB"),
    (227, "CAN"),
    (228, "IPv4"),
    (229, "IPv6"),
    (239, "NFLOG"),
    (252, "exported PDUs of Wireshark"),
    (253, "netlink"),
    (254, "Bluetooth monitor"),
    (271, "vsock"),
    (276, "Linux cooked capture 2"),
];

/// The format of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// As `dbus-monitor --pcap` and `bustle-pcap` write it.
    Pcap,
    /// As `busctl capture` writes it.
    PcapNg,
    /// The text of `dbus-monitor --profile`: headers without flags and bodies.
    Profile,
    /// The text of `dbus-monitor` as it is: headers without flags, and arguments.
    Monitor,
}

impl Format {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Format::Pcap => "pcap",
            Format::PcapNg => "pcapng",
            Format::Profile => "dbus-monitor --profile",
            Format::Monitor => "dbus-monitor",
        }
    }

    /// Is it a text, which has lines and does not tell the sizes of messages?
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Format::Profile | Format::Monitor)
    }
}

/// One message as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970, by the clock of the recording program.
    pub time_ns: u64,
    /// Bytes that the message had; more than `bytes` where the capture has a limit.
    pub original_bytes: usize,
    /// The bytes that were recorded.
    pub bytes: &'a [u8],
}

/// What of a capture could not be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Places where damage was skipped.
    pub damaged: u64,
    /// Bytes, or lines of text, that were skipped there.
    pub skipped: u64,
    /// The capture ends inside a packet.
    pub ends_early: bool,
    /// Bytes of that packet, which are not used.
    pub left: u64,
    /// Packets of other link types.
    pub foreign: u64,
    /// The link type of the first of them.
    pub foreign_type: Option<u32>,
}

/// Why a source cannot be read as a capture.
#[derive(Debug)]
pub enum NotACapture {
    /// It begins like none of the formats.
    Unknown,
    /// It has nothing in it.
    Empty,
    /// It holds packets of another link type.
    LinkType(u32),
    /// It is compressed, with this program.
    Compressed(&'static str),
    /// It could not be read.
    Io(io::Error),
}

impl fmt::Display for NotACapture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotACapture::Unknown => f.write_str(
                "is not a capture of D-Bus messages; make one with `weighbridge dbus capture` or `dbus-monitor --pcap`",
            ),
            NotACapture::Empty => f.write_str("is empty"),
            NotACapture::LinkType(other) => {
                let known = LINK_TYPES.iter().find(|(number, _)| number == other).map(|(_, name)| *name);
                let name = match other {
                    147..=162 => "private use",
                    _ => known.unwrap_or("unknown here"),
                };
                write!(
                    f,
                    "is a capture of link type {other} ({name}), not of D-Bus messages ({LINK_TYPE}); make one with `weighbridge dbus capture` or `dbus-monitor --pcap`"
                )
            }
            NotACapture::Compressed(program) => {
                write!(f, "is compressed; `{program} -dc FILE | weighbridge dbus analyse -` reads it")
            }
            NotACapture::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for NotACapture {}

impl From<io::Error> for NotACapture {
    fn from(error: io::Error) -> NotACapture {
        NotACapture::Io(error)
    }
}

/// Reads the packets of a capture from first to last, whatever its format.
///
/// ```no_run
/// use weighbridge_dbus_traffic::capture::Reader;
///
/// let mut reader = Reader::new(std::fs::File::open("boot.pcap")?)?;
/// while let Some(packet) = reader.next_packet()? {
///     println!("{} ns: {} bytes", packet.time_ns, packet.original_bytes);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    window: Window<R>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Pcap(pcap::Pcap),
    PcapNg(pcapng::PcapNg),
    Profile(profile::Profile),
    Monitor(monitor::Monitor),
}

impl<R: Read> Reader<R> {
    /// Looks at the first bytes to find the format.
    ///
    /// # Errors
    /// It is none, is empty, or cannot be read.
    pub fn new(source: R) -> Result<Reader<R>, NotACapture> {
        let mut window = Window::new(source);
        // The header of the file, and of a record with the first bytes of a message.
        let start = window.peek(pcap::FILE_HEADER_BYTES + pcap::RECOGNIZABLE_BYTES)?;
        if start.is_empty() {
            return Err(NotACapture::Empty);
        }
        let source = if let Some(pcap) = pcap::Pcap::begin(start)? {
            window.consume(pcap::FILE_HEADER_BYTES);
            Source::Pcap(pcap)
        } else if pcapng::PcapNg::is_start(start) {
            Source::PcapNg(pcapng::PcapNg::default())
        } else if profile::Profile::is_start(start) {
            Source::Profile(profile::Profile::default())
        } else if monitor::Monitor::is_start(start) {
            Source::Monitor(monitor::Monitor::default())
        } else if let Some((_, program)) = COMPRESSED.iter().find(|(magic, _)| start.starts_with(magic)) {
            return Err(NotACapture::Compressed(*program));
        } else {
            return Err(NotACapture::Unknown);
        };
        Ok(Reader { window, source })
    }

    /// The format that was found.
    #[must_use]
    pub fn format(&self) -> Format {
        match self.source {
            Source::Pcap(_) => Format::Pcap,
            Source::PcapNg(_) => Format::PcapNg,
            Source::Profile(_) => Format::Profile,
            Source::Monitor(_) => Format::Monitor,
        }
    }

    /// What could not be used so far.
    #[must_use]
    pub fn problems(&self) -> Problems {
        self.window.problems
    }

    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read.
    pub fn next_packet(&mut self) -> io::Result<Option<Packet<'_>>> {
        match &mut self.source {
            Source::Pcap(pcap) => pcap.next(&mut self.window),
            Source::PcapNg(pcapng) => pcapng.next(&mut self.window),
            Source::Profile(profile) => profile.next(&mut self.window),
            Source::Monitor(monitor) => monitor.next(&mut self.window),
        }
    }
}

/// How compressed files begin, and the program that reads them.
const COMPRESSED: [(&[u8], &str); 4] =
    [(b"\x1F\x8B", "gzip"), (b"\x28\xB5\x2F\xFD", "zstd"), (b"\xFD7zXZ", "xz"), (b"BZh", "bzip2")];

/// Bytes of the message that begins so; `None` if this is none, or its length is not there.
fn message_bytes(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<16>().filter(|head| is_message_start(*head))?;
    let endian = if head[0] == b'l' { Endian::Little } else { Endian::Big };
    let [body, fields] =
        [4, 12].map(|at| endian.u32([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize);
    16_usize.checked_add(fields)?.checked_next_multiple_of(8)?.checked_add(body)
}

/// Do these bytes begin like a message?
fn is_message_start(bytes: &[u8]) -> bool {
    matches!(bytes, [b'l' | b'B', 1..=4, _, 1, ..])
}

/// Could this be the length of a recorded packet?
fn is_plausible_length(captured: usize, original: usize) -> bool {
    (16..=MESSAGE_BYTES_MAX).contains(&captured) && (captured..=MESSAGE_BYTES_MAX).contains(&original)
}
