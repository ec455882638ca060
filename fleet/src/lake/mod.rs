//! What a store holds, in memory.

mod decode;
mod model;
mod read;

pub use decode::check;
pub use model::{Host, Lake, Names, Part as SessionPart, PartRow, Row, Session};
pub use read::{Wanted, objects, partition, results_folder};
