//! What is shown to native members before the first can join: clients, names and wake filters, in parts. There may be tens of thousands.

use std::ops::Bound;
use std::path::Path;
use std::rc::Rc;

use super::ending::CLAIMS;
use super::filters::FEW;
use super::native::Native;
use super::work::{ENTRY, PARTS, Work};
use super::{Bus, DirectoryUpdate};
use crate::member::{MemberId, Stage};

/// Up to here all is shown.
#[derive(Debug)]
enum Showing {
    Members(MemberId),
    Names(Rc<str>),
    Filters(MemberId),
}

impl Work for Showing {
    fn go_on(&mut self, bus: &mut Bus) -> bool {
        for _ in 0..PARTS {
            let Some(steps) = bus.show_next(self) else {
                bus.native.is_shown = true;
                return true;
            };
            if !bus.step(steps) {
                break;
            }
        }
        false
    }

    fn is_of_log(&self) -> bool {
        true
    }
}

impl Bus {
    /// Native members can join here once everything is shown, before which no further message is passed.
    pub fn serve_natively(&mut self, path: &Path) {
        self.native = Native::at(path);
        self.begin(Showing::Members(MemberId(0)));
    }

    /// Is everything shown to native members?
    pub fn is_shown_natively(&self) -> bool {
        self.native.is_shown
    }

    /// Shows the next thing; returns the steps that it took, or nothing behind the last.
    fn show_next(&mut self, shown: &mut Showing) -> Option<usize> {
        let next_of = |bus: &Bus, after: MemberId| {
            bus.members.range((Bound::Excluded(after), Bound::Unbounded)).next().map(|(id, _)| *id)
        };
        let mut steps = ENTRY;
        match shown {
            Showing::Members(after) => match next_of(self, *after) {
                Some(id) => {
                    *after = id;
                    if self.members[&id].stage == Stage::Active {
                        self.update_directory(DirectoryUpdate::Arrived(id));
                    }
                }
                None => *shown = Showing::Names("".into()),
            },
            Showing::Names(after) => {
                let next = self.names.after(after).next().map(Rc::clone);
                match next {
                    Some(name) => {
                        *after = Rc::clone(&name);
                        steps += self.names.queue(&name).len() / CLAIMS;
                        self.update_directory(DirectoryUpdate::Name(name));
                    }
                    None => *shown = Showing::Filters(MemberId(0)),
                }
            }
            Showing::Filters(after) => {
                let id = next_of(self, *after)?;
                *after = id;
                steps += self.matches.of(id).len().min(FEW);
                self.renew_filter(id);
            }
        }
        Some(steps)
    }
}
