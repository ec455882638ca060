//! Serves a bus at a socket and nothing else: `authority SOCKET`.

use std::os::fd::AsFd;

use causeway_bus::{Authority, AuthorityOptions, Error};

fn main() -> Result<(), Error> {
    let Some(path) = std::env::args().nth(1) else { panic!("usage: authority SOCKET") };
    let mut authority = Authority::create(AuthorityOptions::default())?;
    authority.serve_at(path)?;
    // Ends with its standard input.
    authority.run(std::io::stdin().as_fd())
}
