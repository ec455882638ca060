//! D-Bus as facts: bytes of messages and captures in, what they mean out. Nothing here opens a file or a socket.
//!
//! | module | from | to |
//! |---|---|---|
//! | [`address`] | values in addresses of buses | bytes, and back |
//! | [`wire`] | bytes of a message | header and arguments, and back |
//! | [`rule`] | text of a match rule | which messages it matches, which rules it makes superfluous |
//! | [`bus`] | messages in order | who has which name and which rules at that time |
//! | [`introspection`] | objects and their interfaces | what a service says of them |
//! | [`capture`] | pcap, pcapng, text of `dbus-monitor --profile` | messages with their times |
//! | [`traffic`] | messages with their times | counts, latencies, recipients, habits |
//! | [`lint`] | rules and what they matched | findings |
//! | [`random`] | a seed | match rules and signals to try a bus with |
//! | [`anonymise`] | a message | a message of the same shape without its strings |

pub mod address;
pub mod anonymise;
pub mod bus;
pub mod capture;
pub mod introspection;
pub mod lint;
pub mod random;
pub mod rule;
mod symbols;
pub mod traffic;
pub mod wire;
