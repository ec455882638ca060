//! `weighbridge bloat`: in which symbols and sections two ELF files differ.

use weighbridge_guest::bloat::{Bloat, Sizes};

use crate::args;
use crate::values::TextOrJson;
use crate::{Exit, Failure, output};

pub fn bloat(args: &args::Bloat) -> Result<Exit, Failure> {
    let sizes = |path| Sizes::of(path).map_err(Failure::of);
    let bloat = Bloat::new(&sizes(&args.old)?, &sizes(&args.new)?);
    output::print(match args.format {
        TextOrJson::Text => bloat.text(),
        TextOrJson::Json => output::json(&bloat),
    })?;
    Ok(Exit::Fine)
}
