//! Whose time a sample is, and the names of its functions.

use std::collections::BTreeMap;

use weighbridge_harness::contract::Prepared;
use weighbridge_harness::coordinator::Measured;
use weighbridge_record::Profile;

use crate::profile::Stack;
use crate::sampling::Sample;
use crate::symbols::{MemoryMap, Symbols};

/// Which role a process plays, and what it had mapped.
pub(crate) struct Owners(BTreeMap<u32, (String, MemoryMap)>);

impl Owners {
    /// From what the roles of a run report.
    pub fn of(case: &Prepared, measured: &Measured) -> Owners {
        let names = case.role_names();
        let mut owners: BTreeMap<u32, (String, MemoryMap)> = BTreeMap::new();
        for report in &measured.roles {
            let Some(observed) = &report.observed else { continue };
            let name = names[report.role];
            owners
                .entry(report.process)
                // Threads of one process.
                .and_modify(|(known, _)| {
                    if !known.split('+').any(|known| known == name) {
                        *known = format!("{known}+{name}");
                    }
                })
                .or_insert_with(|| (name.into(), MemoryMap::parse(&observed.memory_map)));
            if let Some(beside) = &observed.beside {
                owners.insert(beside.process, (beside.name.clone(), MemoryMap::parse(&beside.memory_map)));
            }
        }
        Owners(owners)
    }

    /// A sample with names.
    pub fn stack(&self, sample: &Sample, symbols: &mut Symbols) -> Stack {
        // All but the innermost address are those to which a call returns, which may be in the next function.
        let inwards = |addresses: &[u64]| -> Vec<u64> {
            let calls = addresses.iter().enumerate();
            let address = |(depth, address): (usize, &u64)| address.saturating_sub(u64::from(depth > 0));
            calls.map(address).rev().collect()
        };
        let kernel = inwards(&sample.kernel).into_iter().map(|address| symbols.kernel(address)).collect();
        let (role, user) = match self.0.get(&sample.process) {
            Some((role, map)) => (role.as_str(), {
                inwards(&sample.user).into_iter().map(|address| symbols.user(map, address)).collect()
            }),
            None if sample.process == 0 => (Profile::IDLE, Vec::new()),
            None => (Profile::OTHERS, Vec::new()),
        };
        Stack { role: role.into(), user, kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_belong_to_roles_to_the_idle_cpu_or_to_others() {
        let mut symbols = Symbols::new();
        let owners = Owners(BTreeMap::from([(7, ("client".to_owned(), MemoryMap::default()))]));
        let mut role = |process| {
            let sample = Sample { process, user: vec![5, 6], ..Sample::default() };
            owners.stack(&sample, &mut symbols)
        };
        assert_eq!(role(7).role, "client");
        assert_eq!(role(7).user, ["[unknown]", "[unknown]"]);
        assert_eq!((role(0).role, role(0).user.len()), (Profile::IDLE.into(), 0));
        assert_eq!(role(8).role, Profile::OTHERS);
    }
}
