//! Our numbers compared with those of other tools, measured now, in turn.
//!
//! [`definitions`] says what is compared with what, [`definition`] what such a definition is; [`external`] runs other
//! people's programs under a [`supervisor`], and [`parse`] finds the figure in what they print; [`turns`] measures theirs and ours and
//! judges the ratio, and [`record`] makes lines of a record from it, and shows them, with what has no [equal](unequal).

pub mod definition;
pub mod definitions;
pub mod external;
pub mod parse;
pub mod record;
pub mod supervisor;
pub mod turns;
pub mod unequal;

use weighbridge_harness::catalogue::{self, Refusal};
use weighbridge_harness::host::Host;
use weighbridge_record::CaseId;

use definition::Definition;
use turns::Compared;

/// What can be compared on this machine, and what cannot.
#[derive(Debug, Default)]
pub struct Scope {
    pub compared: Vec<Compared>,
    /// Comparisons whose tool is not installed.
    pub missing: Vec<&'static Definition>,
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
                scope.missing.push(definition);
                continue;
            };
            match catalogue::prepare(&case(definition), host) {
                Ok(case) => scope.compared.push(Compared::new(definition, case, program)),
                Err(Refusal::NotHere(why) | Refusal::NoSuchCase(why)) => {
                    scope.refused.push((definition, why))
                }
            }
        }
        scope
    }
}

/// The comparisons whose case of ours this program has.
pub fn existing() -> impl Iterator<Item = &'static Definition> {
    definitions::ALL.iter().filter(|definition| catalogue::resolve(&case(definition)).is_ok())
}

fn case(definition: &Definition) -> CaseId {
    definition.case.parse().expect("definitions are tested to have well-formed ids")
}
