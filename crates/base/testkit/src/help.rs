//! The help of a program and of all its commands, for tests that hold what is said of all options alike.

use std::process::{Command, Output, Stdio};

/// The help of a program, or of a command of it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The words that lead to the command; none for the program.
    pub words: Vec<String>,
    /// What `--help` prints.
    pub text: String,
}

/// An option as a help text has it.
#[derive(Clone, Debug)]
pub struct Opt {
    /// Without its hyphens.
    pub name: String,
    /// The name of its value, if it takes one.
    pub value: Option<String>,
    /// What it says of itself.
    pub about: String,
}

impl Page {
    /// The names in its list of commands, but for `help`.
    pub fn commands(&self) -> Vec<String> {
        let Some((_, list)) = self.text.split_once("Commands:\n") else { return Vec::new() };
        let lines = list.lines().take_while(|line| line.starts_with("  "));
        let names =
            lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        names.filter(|name| *name != "help").map(str::to_owned).collect()
    }

    /// Its options.
    pub fn options(&self) -> Vec<Opt> {
        let mut found: Vec<Opt> = Vec::new();
        let mut is_open = false;
        for line in self.text.lines() {
            // A heading, or what stands below the options.
            is_open &= line.is_empty() || line.starts_with(' ');
            let line = line.trim_start();
            let long = line.strip_prefix("--").or_else(|| {
                let (short, long) = line.split_once(", --")?;
                (short.len() == 2 && short.starts_with('-')).then_some(long)
            });
            match (long, found.last_mut()) {
                (Some(long), _) => {
                    is_open = true;
                    let end =
                        long.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(long.len());
                    let (name, rest) = long.split_at(end);
                    let value = rest.trim_start_matches([' ', '[', '=']).strip_prefix('<');
                    let value = value.and_then(|value| value.split_once('>'));
                    found.push(Opt {
                        name: name.to_owned(),
                        value: value.map(|(value, _)| value.to_owned()),
                        about: value.map_or(rest, |(_, about)| about).trim().to_owned(),
                    });
                }
                (None, Some(option)) if is_open && !line.is_empty() => {
                    option.about.push(' ');
                    option.about.push_str(line);
                }
                _ => {}
            }
        }
        found
    }
}

/// The pages of a program and of all commands below it. `program` is called with the arguments of one call.
///
/// # Panics
/// A command has no help.
pub fn pages(mut program: impl FnMut(&[&str]) -> Command) -> Vec<Page> {
    let (mut open, mut found) = (vec![Vec::<String>::new()], Vec::new());
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let output = output(&mut program, &arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let page = Page { words: words.clone(), text: String::from_utf8_lossy(&output.stdout).into_owned() };
        open.extend(page.commands().into_iter().map(|name| words.iter().cloned().chain([name]).collect()));
        found.push(page);
    }
    found
}

/// Whatever the caller does with the streams of its commands.
fn output(program: &mut impl FnMut(&[&str]) -> Command, arguments: &[&str]) -> Output {
    let mut command = program(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().expect("the program starts")
}

/// Every option that takes bytes or a time refuses what is none with the words of the one parser that all programs have for it: `of_size` and
/// `of_time`. How many options of each there are.
///
/// # Panics
/// An option does not, or takes a bare number of bytes or seconds.
pub fn assert_one_form(
    mut program: impl FnMut(&[&str]) -> Command,
    of_size: &str,
    of_time: &str,
) -> [usize; 2] {
    let mut seen = [0; 2];
    for page in pages(&mut program) {
        for Opt { name, value, about } in page.options() {
            let Some(value) = value.filter(|value| !value.ends_with("_PER_S")) else { continue };
            // The text of possible values describes words, not a size or a time.
            let about = about.split("ossible values:").next().unwrap_or_default();
            let says = |words: &[&str]| words.iter().any(|word| about.contains(word));
            let is_size = value.contains("BYTES") || says(&[" bytes", "Bytes ", "KiB", "MiB"]);
            let is_time = value.contains("TIME") || says(&["in seconds", "milliseconds"]);
            let forms = [(is_size, of_size), (is_time, of_time)];
            for (seen, (_, form)) in seen.iter_mut().zip(forms).filter(|(_, (is_it, _))| *is_it) {
                let option = format!("--{name}");
                let mut arguments: Vec<&str> = page.words.iter().map(String::as_str).collect();
                arguments.extend([option.as_str(), "4Q"]);
                let output = output(&mut program, &arguments);
                let why = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(2), "{arguments:?}: {why}");
                assert!(why.contains(form), "{arguments:?} is not read as others are: {why}");
                *seen += 1;
            }
        }
    }
    seen
}
