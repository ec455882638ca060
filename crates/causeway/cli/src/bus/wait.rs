//! `wait`: until a name has an owner.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use causeway_bus::wire::Args;

use super::client::{DRIVER, check_service, next_signal, within};
use super::which::Place;
use crate::failure::Failure;

/// Prints the owner of a name as soon as it has one. The exit code says whether the time was over first.
pub fn wait(place: &Place, name: &str, timeout: Option<Duration>) -> Result<ExitCode, Failure> {
    check_service(name)?;
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let (place, asked) = (place.clone(), name.to_owned());
    let known = within(timeout, move || {
        let mut bus = place.open()?;
        // First the rule: an owner that comes after the question is seen.
        let rule = format!("type='signal',sender='{DRIVER}',member='NameOwnerChanged',arg0='{asked}'");
        bus.add_match(&rule)?;
        let owner = bus.name_owner(&asked)?;
        Ok((bus, owner))
    });
    let (mut bus, mut owner) = match known {
        Err(failure @ Failure::NoAnswer(_)) => {
            eprintln!("causeway: {failure}");
            return Ok(ExitCode::FAILURE);
        }
        other => other?,
    };
    while owner.is_none() {
        let Some(signal) = next_signal(&mut bus, deadline)? else {
            eprintln!("causeway: nobody has the name {name} after {:?}", timeout.unwrap_or_default());
            return Ok(ExitCode::FAILURE);
        };
        owner = match Args::of(&signal).texts().collect::<Vec<_>>()[..] {
            [changed, _, new] if changed == name && !new.is_empty() => Some(new.to_owned()),
            _ => None,
        };
    }
    writeln!(io::stdout().lock(), "{}", owner.unwrap_or_default())?;
    Ok(ExitCode::SUCCESS)
}
