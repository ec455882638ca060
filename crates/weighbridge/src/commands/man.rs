//! `weighbridge man`: manual pages, made from the same source as the help.

use clap_mangen::Man as Page;

use crate::args::{self, Man};
use crate::{Exit, Failure, nearest, output};

pub fn man(args: &Man) -> Result<Exit, Failure> {
    let mut program = args::command();
    // Gives every command the name that it is called by, `weighbridge run`.
    program.build();
    let mut command = &program;
    for name in &args.command {
        let within = command;
        command = within.find_subcommand(name).ok_or_else(|| {
            let known: Vec<&str> = within.get_subcommands().map(clap::Command::get_name).collect();
            Failure::mistake(match (known.is_empty(), nearest::words(name, &known).as_slice()) {
                (true, _) => format!("`{}` has no commands; leave `{name}` out", within.get_name()),
                (_, []) => format!("there is no command `{name}`; there are {}", known.join(", ")),
                (_, [nearest, ..]) => format!("there is no command `{name}`; did you mean `{nearest}`?"),
            })
        })?;
    }
    let name = std::iter::once("weighbridge").chain(args.command.iter().map(String::as_str));
    let page = command.clone().name(name.collect::<Vec<_>>().join("-")).version(env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    Page::new(page)
        .render(&mut text)
        .map_err(|error| Failure::new(format!("the page cannot be made: {error}")))?;
    output::print(text)?;
    Ok(Exit::Fine)
}
