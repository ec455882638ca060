//! Manual pages and completions, made from the same source as the help.

use std::io::{self, Write};

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;

/// Prints the page of the program, or of the command below it that the words name.
pub fn man(mut program: Command, words: &[String]) -> Result<(), Failure> {
    // Gives every command the name that it is called by, and its global options.
    program.build();
    let mut command = &program;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            let within = command.get_bin_name().unwrap_or("causeway");
            Failure::Usage(if known.is_empty() {
                format!("`{within}` has no commands; leave {word:?} out")
            } else {
                format!("`{within}` has no command {word:?}; it has {}", known.join(", "))
            })
        })?;
    }
    let name =
        std::iter::once("causeway").chain(words.iter().map(String::as_str)).collect::<Vec<_>>().join("-");
    let page = command.clone().name(name).version(env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(io::stdout().lock().write_all(&text)?)
}

/// Prints the script for a shell.
pub fn completions(mut program: Command, shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "causeway", &mut script);
    Ok(io::stdout().lock().write_all(&script)?)
}
