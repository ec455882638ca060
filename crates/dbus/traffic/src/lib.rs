//! Traffic of a D-Bus as facts: captures in, who said what to whom and at what cost out. Nothing here opens a file or a socket.
//!
//! | module | from | to |
//! |---|---|---|
//! | [`bus`] | messages in order | who has which name and which rules at that time |
//! | [`capture`] | pcap, pcapng, text of `dbus-monitor --profile` | messages with their times |
//! | [`traffic`] | messages with their times | counts, latencies, recipients, habits |
//! | [`lint`] | rules and what they matched | findings |
//! | [`cost`] | traffic, and curves that were measured of a broker | the broker's CPU time and switches |
//! | [`anonymize`] | a message | a message of the same shape without its strings |

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod anonymize;
pub mod bus;
pub mod capture;
pub mod cost;
pub mod lint;
mod symbols;
pub mod traffic;
