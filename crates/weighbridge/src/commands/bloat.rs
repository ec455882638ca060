//! `weighbridge bloat`: in which symbols and sections two ELF files differ.

use globset::GlobBuilder;
use weighbridge_guest::bloat::{self, Bloat, Sizes};

use crate::args;
use crate::values::TextOrJson;
use crate::{Exit, Failure, output};

pub fn bloat(args: &args::Bloat) -> Result<Exit, Failure> {
    let sizes = |path| Sizes::of(path).map_err(Failure::of);
    // A mistake in a name is told before files are read.
    let wanted = args.symbols.as_deref().map(matcher).transpose()?;
    let (old, new) = (sizes(&args.old)?, sizes(&args.new)?);
    let Some(wanted) = wanted else {
        let bloat = Bloat::new(&old, &new);
        return shown(args.format, || bloat.text(), &bloat);
    };
    let symbols = Bloat::of_symbols(&old, &new, |name| wanted.is_match(name));
    if symbols.is_empty() {
        let glob = args.symbols.as_deref().unwrap_or_default();
        return Err(Failure::mistake(format!(
            "no symbol of either file matches `{glob}`; a glob is as in 'kmem_cache_*' or '{{kfree,kmem_cache_alloc}}'"
        )));
    }
    shown(args.format, || bloat::listed(&symbols), &symbols)
}

fn shown(
    format: TextOrJson,
    text: impl Fn() -> String,
    data: &impl serde::Serialize,
) -> Result<Exit, Failure> {
    output::print(match format {
        TextOrJson::Text => text(),
        TextOrJson::Json => output::json(data),
    })?;
    Ok(Exit::Fine)
}

fn matcher(glob: &str) -> Result<globset::GlobMatcher, Failure> {
    let glob_of = GlobBuilder::new(glob).build();
    let built =
        glob_of.map_err(|error| Failure::mistake(format!("`{glob}` is not a glob: {}", error.kind())))?;
    Ok(built.compile_matcher())
}
