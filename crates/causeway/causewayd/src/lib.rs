//! A message bus for D-Bus programs and for native members, which have its order log in their memory.
//!
//! The program `causewayd` is a command line over this library; tests serve a bus in a thread of their own with
//! [`serve_alone`].
//!
//! It speaks D-Bus on Unix sockets as dbus-daemon does, in one thread, and passes messages in one order. From the
//! bottom up:
//!
//! | module | what it is |
//! |---|---|
//! | `member`, `message`, `end`, `error` | what a connection, a message and an end are; names of errors |
//! | [`log`] | lines for administrators |
//! | `names`, `matches`, `calls`, `quota`, `limit`, `policy`, `activation` | state and decisions, without sockets |
//! | `connection`, `long`, `descriptors`, `listen` | one socket each, without names |
//! | [`systemd`] | sockets of a service manager |
//! | `report` | what connections hold and have done: the facts; `bus/report.rs` says who a connection is, `serve/report.rs` collects facts over several turns, `report.rs` of causeway-bus has what the authority sees of members |
//! | `bus` | delivers a message of a member to others |
//! | [`driver`] | the methods of `org.freedesktop.DBus` |
//! | `accept` | a message of a client, from its connection to the driver or the bus |
//! | [`launch`], `children` | programs that are started |
//! | `pool`, `blocking` | threads for what may wait: files that are read, programs that are started |
//! | `metrics` | OpenMetrics, by a thread of their own |
//! | `serve` | the loop that joins all, clients and native members |
//! | [`args`], `config`, [`config_file`], `policy_file`, `service_file`, `text_file`, `users` | what it is told |
//! | `pid_file` | the file with the number of its process |
//! | [`native_path`] | where a session serves native members |
//! | [`alone`](serve_alone), [`background`] | a bus in a thread of a program; one that goes on in the background |

mod accept;
mod activation;
mod alone;
pub mod args;
pub mod background;
mod blocking;
mod bus;
mod calls;
mod children;
mod config;
pub mod config_file;
mod connection;
mod descriptors;
pub mod driver;
mod end;
mod error;
pub mod launch;
mod limit;
mod listen;
pub mod log;
mod long;
mod matches;
mod member;
mod message;
mod metrics;
mod names;
pub mod native_path;
mod pid_file;
mod policy;
mod policy_file;
mod pool;
mod quota;
mod report;
mod room;
mod serve;
mod service_file;
pub mod systemd;
mod text_file;
mod users;

pub use alone::serve_alone;
pub use bus::Bus;
pub use children::Children;
pub use config::{Config, make_transient_service_dir};
pub use listen::{Listener, NativePlace, new_guid};
pub use metrics::Endpoint as MetricsEndpoint;
pub use pid_file::PidFile;
pub use serve::Server;
