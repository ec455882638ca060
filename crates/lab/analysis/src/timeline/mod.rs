//! When each thing happens: events of the kernel and marks of the roles, on one clock, as lanes, arrows and phases.
//!
//! Pure: bytes, formats and marks in; values and text out. [`Trace::decode`] reads the pages of the kernel's trace buffers ·
//! [`Subject`] is what was observed: roles with their threads and marks, and the trace, if there is one · [`phases`] divides each operation ·
//! [`lanes`] says who did what and when · [`broker`] divides a broker's time by its system calls · [`chrome`] writes all of it for ui.perfetto.dev · [`picture`] picks a few operations to draw.

pub mod broker;
pub mod chrome;
mod format;
pub mod lanes;
mod pages;
pub mod phases;
pub mod picture;
mod subject;
mod trace;

pub use format::{Format, FormatError};
pub use pages::check_page_format;
pub use subject::{Mark, Operation, Point, Role, Subject};
pub use trace::{CALL_EVENTS, EVENTS, Event, Formats, Gap, Happened, OPTIONAL_EVENTS, Trace};
