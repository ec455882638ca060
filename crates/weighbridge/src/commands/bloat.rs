//! `weighbridge bloat`: in which symbols and sections two ELF files differ.

use weighbridge_guest::bloat::{Bloat, Sizes};

use crate::args;
use crate::values::TextOrJson;
use crate::{Exit, Failure, output};

/// Prints what grew and what shrank.
pub fn bloat(args: &args::Bloat) -> Result<Exit, Failure> {
    let sizes = |path| Sizes::of(path).map_err(|error| Failure::new(error.to_string()));
    let bloat = Bloat::new(&sizes(&args.old)?, &sizes(&args.new)?);
    output::print(match args.format {
        TextOrJson::Text => bloat.text(),
        TextOrJson::Json => serde_json::to_string_pretty(&bloat).expect("sizes are plain data") + "\n",
    })?;
    Ok(Exit::Fine)
}
