//! Explanations of simulated costs, and time lines of traces whose truth is known.

mod explain;
mod prices;
mod timeline;
