//! Our numbers compared with those of other tools, measured now, in turn.
//!
//! [`definitions`] says what is compared with what, [`definition`] what such a definition is; [`external`] runs other
//! people's programs under a [`supervisor`], and [`parse`] finds the figure in what they print; [`turns`] measures theirs and ours, [`verdict`]
//! judges the ratio, and [`table`] and [`json`] show it.

pub mod definition;
pub mod definitions;
pub mod external;
pub mod json;
pub mod parse;
pub mod supervisor;
pub mod table;
pub mod turns;
pub mod verdict;

use weighbridge_lab::host::Host;
use weighbridge_lab::target::{self, Refusal};
use weighbridge_record::CaseId;

use definition::{Definition, Tool};
use turns::Compared;

/// What can be compared on this machine, and what cannot.
#[derive(Debug, Default)]
pub struct Scope {
    /// To be measured.
    pub compared: Vec<Compared>,
    /// Tools that are not installed, with their comparisons.
    pub missing: Vec<(&'static Tool, Vec<&'static str>)>,
    /// Comparisons whose case of ours this machine cannot hold, and why.
    pub refused: Vec<(&'static Definition, String)>,
    /// Whether all checks were asked for, so that what has no equal is worth a word.
    pub is_everything: bool,
}

impl Scope {
    /// Looks for the tools and prepares our cases.
    pub fn new(selected: &[&'static Definition], host: &Host) -> Scope {
        let is_everything = selected.len() == existing().count();
        let mut scope = Scope { is_everything, ..Scope::default() };
        for definition in selected {
            let Some(program) = external::find(definition.command[0], definition.tool) else {
                scope.misses(definition);
                continue;
            };
            match target::prepare(&case(definition), host) {
                Ok(case) => scope.compared.push(Compared::new(definition, case, program)),
                Err(Refusal::NotHere(why) | Refusal::NoSuchCase(why)) => {
                    scope.refused.push((definition, why))
                }
            }
        }
        scope
    }

    fn misses(&mut self, definition: &'static Definition) {
        match self.missing.iter_mut().find(|(tool, _)| tool.name == definition.tool.name) {
            Some((_, names)) => names.push(definition.name),
            None => self.missing.push((definition.tool, vec![definition.name])),
        }
    }
}

/// The comparisons whose case of ours this program has.
pub fn existing() -> impl Iterator<Item = &'static Definition> {
    definitions::ALL.iter().filter(|definition| target::resolve(&case(definition)).is_ok())
}

fn case(definition: &Definition) -> CaseId {
    definition.case.parse().expect("definitions are tested to have well-formed ids")
}
