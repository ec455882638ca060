//! What the traffic of a capture costs a broker: CPU time and context switches, from curves that the laboratory measured
//! (`weighbridge run --suite dbus-curves`). What its messages take on their way, by size alone: [`Transmission`].
//!
//! Each message of the capture has one cost: that of a message that is relayed, of a broadcast with so many recipients and so many rules
//! that do not match, of a call to the broker itself, of a name or of a connection. [`Curves`] reads these costs from a record,
//! [`Predictor`] adds them up, and follows the broker's queue to say how often it sleeps. What is not in the model: what else the machine does,
//! and the time that programs take between two messages where the capture does not say it.

mod curves;
mod full_speed;
mod predict;
mod transmission;

pub use curves::{Curves, Placement, Quantity};
pub use predict::{Cost, Paced, Part, Predictor};
pub use transmission::{ClassTime, Transmission};
