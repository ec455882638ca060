//! libcauseway: Causeway for programs in C. `include/causeway.h` has the log and calls, `include/causeway-bus.h` the bus,
//! `docs/c.md` the rules for their users.
//!
//! There is no logic of its own here. Each exported function checks what it was given, calls one function of
//! [`causeway`] or [`causeway_bus`], and says what came of it as a number; `bindings.txt` has which, and which it lacks.
//!
//! | module | what it is |
//! |---|---|
//! | `error` | the numbers, and [`error::cw_error`] |
//! | `fork` | whether this process is the one that made a handle |
//! | `handle` | the way into every function: one thread at a time, no panic out, no handle of another process |
//! | `input` | pointers and lengths of the caller, checked |
//! | `lent` | an object together with what is borrowed from it |
//! | `group`, `publisher`, `subscriber`, `large`, `call` | what `causeway.h` declares |
//! | `bus`, `bus_message`, `bus_body` | what `causeway-bus.h` declares |

// Types have the names that they have in the headers.
#![allow(non_camel_case_types)]

pub mod bus;
pub mod bus_body;
pub mod bus_message;
pub mod call;
pub mod error;
mod fork;
pub mod group;
pub mod handle;
mod input;
pub mod large;
mod lent;
pub mod publisher;
pub mod subscriber;
