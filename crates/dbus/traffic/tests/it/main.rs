//! Captures from bytes to findings, and our parser against that of zbus.

mod captures;
mod common;
mod oracle;
