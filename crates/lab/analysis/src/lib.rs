//! Pure analysis of what was measured: [`explain`] says what a cost is made of (counts times prices, and what is left), [`timeline`] when each
//! thing happened (events of the kernel and marks of the roles as lanes, arrows and phases).

#[cfg(test)]
#[macro_use]
extern crate causeway_testkit;

pub mod explain;
pub mod timeline;
