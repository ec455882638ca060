//! The contracts, below everything that keeps them: what a mechanism promises a pattern, and what is measured once types are
//! erased.
//!
//! A mechanism does not know which pattern drives it, and a pattern does not know which mechanism it drives. What a pattern
//! needs to know about a mechanism is in [`Caps`]; what a mechanism needs to know about a case is in
//! [`CaseParams`](crate::params::CaseParams). Which targets exist is in [`catalogue`](crate::catalogue).

mod caps;
mod mechanism;
mod pattern;
mod resources;
mod target;

pub use caps::Caps;
pub use mechanism::{Endpoint, Mechanism, attach_at_once};
pub use pattern::{PatternInfo, Unit, role_names};
pub use resources::{EndResources, Facts, Figures, Side};
pub use target::{CounterCheck, Family, InSuites, Prepared, Target, Unsupported, carries_nothing};
