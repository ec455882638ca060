//! `weighbridge man`: manual pages, made from the same source as the help.

use clap_mangen::Man as Page;

use crate::args::{self, Man};
use crate::{Exit, Failure, nearest, output};

pub fn man(args: &Man) -> Result<Exit, Failure> {
    let mut program = args::command();
    // Gives every command the name that it is called by, `weighbridge run`.
    program.build();
    let page = match &args.command {
        None => program,
        Some(name) => {
            let command = program.find_subcommand(name).ok_or_else(|| {
                let known: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
                Failure::mistake(match nearest::words(name, &known).as_slice() {
                    [] => format!("there is no command `{name}`; there are {}", known.join(", ")),
                    [nearest, ..] => format!("there is no command `{name}`; did you mean `{nearest}`?"),
                })
            })?;
            command.clone().name(format!("weighbridge-{name}")).version(env!("CARGO_PKG_VERSION"))
        }
    };
    let mut text = Vec::new();
    Page::new(page)
        .render(&mut text)
        .map_err(|error| Failure::new(format!("the page cannot be made: {error}")))?;
    output::print(text)?;
    Ok(Exit::Fine)
}
