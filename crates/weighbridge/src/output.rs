//! The only way to standard output and standard error.
//!
//! Results go to the one, progress and warnings to the other. A reader who has seen enough and closed its end is not an error;
//! a standard error that cannot be written does not end the program.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use causeway_command_line::ascii;
use clap::ColorChoice;
use serde::Serialize;
use weighbridge_report::{Document, Style};

use crate::Failure;
use crate::values::PageFormat;

/// Writes a result to standard output.
pub fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_ref()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A value for programs.
pub fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("what is shown is plain data") + "\n"
}

/// A document for people, or everything for programs.
pub fn rendered(
    format: impl Into<PageFormat>,
    document: impl FnOnce() -> Document,
    everything: &(impl Serialize + ?Sized),
) -> String {
    match format.into() {
        PageFormat::Table => document().text(style()),
        PageFormat::Markdown => document().markdown(),
        PageFormat::Html => document().html(),
        PageFormat::Json => json(everything),
    }
}

pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Does `--verbose` ask for details?
static IS_VERBOSE: OnceLock<bool> = OnceLock::new();

/// To be called once, before anything is done.
pub fn use_verbose(is_verbose: bool) {
    let _ = IS_VERBOSE.set(is_verbose);
}

/// Says what is only worth it to who asks.
pub fn detail(text: impl FnOnce() -> String) {
    if IS_VERBOSE.get() == Some(&true) {
        say(text().trim_end());
    }
}

pub fn warn(sentence: &str) {
    say(&format!("warning: {sentence}"));
}

/// What `--color` says.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// To be called once, before anything is shown.
pub fn choose_color(choice: ColorChoice) {
    let _ = COLOR.set(choice);
}

/// How a table may look on standard output. A shell keeps COLUMNS to itself: where it is exported somebody asks for that
/// width, of a pipe too.
pub fn style() -> Style {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let asked = asked.filter(|columns: &u16| *columns > 0);
    let ascii = ascii::is_wanted(ASCII.get() == Some(&true));
    let choice = COLOR.get().copied().unwrap_or(ColorChoice::Auto);
    if !io::stdout().is_terminal() {
        return Style { width: asked, color: choice == ColorChoice::Always, ascii };
    }
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    Style {
        ascii,
        color: match choice {
            ColorChoice::Auto => !is_set("NO_COLOR") && !is_dumb,
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        },
        width: asked.or(size.map(|size| size.ws_col).filter(|columns| *columns > 0)),
    }
}

/// What `--ascii` says.
static ASCII: OnceLock<bool> = OnceLock::new();

/// To be called once, before anything is shown: `--ascii`.
pub fn use_ascii(is_used: bool) {
    let _ = ASCII.set(is_used);
}
