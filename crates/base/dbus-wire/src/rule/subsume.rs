//! Whether one rule makes another superfluous.

use super::{ArgMatch, MatchRule, PathMatch};
use crate::wire::Arg;
use crate::wire::names::{is_below_name, is_below_path};

impl MatchRule {
    /// Does this rule match every message that `other` matches? If it says so, that holds for all messages and owners of
    /// names; it may miss a case that follows only from several conditions together. A rule subsumes itself.
    pub fn subsumes(&self, other: &MatchRule) -> bool {
        (self.eavesdrop || !other.eavesdrop)
            && (self.kind.is_none() || self.kind == other.kind)
            && implied(&self.sender, &other.sender)
            && implied(&self.interface, &other.interface)
            && implied(&self.member, &other.member)
            && implied(&self.destination, &other.destination)
            && self
                .path
                .as_ref()
                .is_none_or(|path| other.path.as_ref().is_some_and(|other| path.subsumes(other)))
            && self.args.iter().all(|(index, arg)| {
                other.args.iter().any(|(same, other)| same == index && arg.subsumes(other))
            })
    }
}

fn implied(wanted: &Option<String>, given: &Option<String>) -> bool {
    wanted.is_none() || wanted == given
}

impl PathMatch {
    fn subsumes(&self, other: &PathMatch) -> bool {
        match (self, other) {
            (PathMatch::Exact(path), PathMatch::Exact(other)) => path == other,
            (PathMatch::Exact(_), PathMatch::Namespace(_)) => false,
            (PathMatch::Namespace(space), PathMatch::Exact(other) | PathMatch::Namespace(other)) => {
                is_below_path(other, space)
            }
        }
    }
}

impl ArgMatch {
    fn subsumes(&self, other: &ArgMatch) -> bool {
        match (self, other) {
            (_, ArgMatch::Text(text)) => self.matches(Arg::Text(text)),
            (ArgMatch::Namespace(space), ArgMatch::Namespace(other)) => is_below_name(other, space),
            _ => self == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CONDITIONS, all_but, rule};

    #[test]
    fn the_wider_rule_subsumes_the_narrower() {
        for (wide, narrow) in [
            ("", "type='signal'"),
            ("type='signal'", "type='signal',member='A'"),
            ("path_namespace='/a'", "path='/a/b'"),
            ("path_namespace='/a'", "path_namespace='/a/b'"),
            ("arg0namespace='com.a'", "arg0='com.a.b'"),
            ("arg0path='/a/'", "arg0='/a/b'"),
            ("eavesdrop='true'", ""),
        ] {
            assert!(rule(wide).subsumes(&rule(narrow)), "{wide} > {narrow}");
            assert!(!rule(narrow).subsumes(&rule(wide)), "{narrow} > {wide}");
        }
        assert!(!rule("arg0path='/a/'").subsumes(&rule("arg0path='/a/b'")), "`/` matches only the second");
    }

    #[test]
    fn every_condition_must_be_implied() {
        let all = all_but(None);
        assert!(all.subsumes(&all));
        for (index, [satisfied, _]) in CONDITIONS.iter().enumerate() {
            assert!(rule(satisfied).subsumes(&all), "{satisfied}");
            assert!(!all.subsumes(&rule(satisfied)), "{satisfied}");
            assert!(!all.subsumes(&all_but(Some(index))), "{satisfied}");
            assert!(!all_but(Some(index)).subsumes(&all), "{satisfied}");
        }
    }

    #[test]
    fn conditions_of_other_kinds_and_arguments_imply_nothing() {
        for (one, other) in [
            ("path='/a'", "path_namespace='/a'"),
            ("path_namespace='/a/b'", "path_namespace='/a'"),
            ("arg0='/a'", "arg1='/a'"),
            ("arg0='/a'", "arg0path='/a'"),
            ("arg0namespace='a'", "arg0path='a'"),
            ("arg0namespace='a.b'", "arg0namespace='a'"),
        ] {
            assert!(!rule(one).subsumes(&rule(other)), "{one} > {other}");
        }
        assert!(rule("path='/a'").subsumes(&rule("path='/a'")));
    }
}
