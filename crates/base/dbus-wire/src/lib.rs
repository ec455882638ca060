//! D-Bus as bytes: what stands in a message, a match rule, an address, an answer of the driver. Nothing here opens a file or a socket.
//!
//! | module | from | to |
//! |---|---|---|
//! | [`address`] | values in addresses of buses | bytes, and back |
//! | [`wire`] | bytes of a message | header and arguments, and back |
//! | [`rule`] | text of a match rule | which messages it matches, which rules it makes superfluous |
//! | [`sasl`] | lines of the authentication | what the other side answers |
//! | [`driver`] | the driver's names and the numbers of its answers | |
//! | [`introspection`] | objects and their interfaces | what a service says of them |
//! | [`random`] | a seed | match rules and signals to try a bus with |

pub mod address;
pub mod driver;
pub mod introspection;
pub mod number;
pub mod random;
pub mod rule;
pub mod sasl;
pub mod wire;
