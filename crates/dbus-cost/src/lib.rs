//! What the traffic of a capture costs a broker: CPU time and context switches, from curves that the laboratory measured
//! (`weighbridge run --suite dbus-curves`).
//!
//! Each message of the capture has one cost: that of a message that is relayed, of a broadcast with so many recipients, or of a call to the
//! broker itself. [`Curves`] reads these costs by size from a record, [`predict`] adds them up. What is not in the model: comparisons
//! with match rules that do not match, the coming and going of connections, and that a busy broker handles several messages for one wake-up.

mod curves;
mod predict;

pub use curves::{Curves, Quantity};
pub use predict::{Cost, Part, predict};
