//! `<policy>` elements to rules.

use std::path::Path;

use causeway_dbus_wire::number::leading_integer;
use causeway_dbus_wire::wire::Kind;
use roxmltree::Node;

use crate::config::Config;
use crate::config_file::{self, Content, check_form};
use crate::policy::{Filter, NamePattern, Rule, Subject};
use crate::users;

const RULE_ATTRIBUTES: &str = "own own_prefix user group send_type send_path send_interface send_member send_error \
    send_destination send_destination_prefix send_broadcast send_requested_reply receive_type receive_path receive_interface \
    receive_member receive_error receive_sender receive_requested_reply eavesdrop min_fds max_fds log";
/// Most file descriptors that `min_fds` and `max_fds` may name: as many as dbus-daemon lets a message have.
const FDS_MAX: u32 = 32 << 20;

/// Adds a `<policy>` of a file to a configuration.
///
/// # Errors
/// Something in it is wrong: which element, and the reason.
pub fn add<'a, 'input>(
    config: &mut Config,
    node: Node<'a, 'input>,
    file: &Path,
) -> Result<(), (Node<'a, 'input>, String)> {
    let mut warnings = Vec::new();
    let mut warn =
        |node, why: String| warnings.push(format!("{}:{}: {why}", file.display(), config_file::line(node)));
    let mut rules = Vec::new();
    for child in node.children().filter(Node::is_element) {
        let rule = match child.tag_name().name() {
            name @ ("allow" | "deny") => rule(child, name == "allow").map_err(|why| (child, why))?,
            other => return Err((child, format!("unknown policy rule <{other}>"))),
        };
        match rule {
            Ok(rule) => rules.push(rule),
            Err(NoSuchAccount { what, name }) => {
                warn(child, format!("unknown {what} {name}; the rule is ignored"))
            }
        }
    }
    let policy = &mut config.policy;
    let attributes = ["context", "user", "group", "at_console"];
    let given: Vec<&str> = attributes.into_iter().filter(|name| node.has_attribute(*name)).collect();
    let [attribute] = given[..] else {
        let why = format!(
            "a <policy> has one of the attributes context, user, group and at_console (here: {})",
            given.join(", ")
        );
        return Err((node, why));
    };
    let is_of_connect = |rule: &Rule| matches!(rule.subject, Subject::User(_) | Subject::Group(_));
    match (attribute, node.attribute(attribute).unwrap_or_default()) {
        ("context", "default") => policy.default.extend(rules),
        ("context", "mandatory") => policy.mandatory.extend(rules),
        ("context", other) => {
            return Err((node, format!("the context of a <policy> is default or mandatory, not `{other}`")));
        }
        // No user counts as at the console, as in dbus-daemon since version 1.11.18.
        ("at_console", "false") => policy.at_no_console.extend(rules),
        ("at_console", "true") => {
            let (allows, denies): (Vec<Rule>, Vec<Rule>) = rules.into_iter().partition(|rule| rule.allows);
            if !allows.is_empty() {
                warn(
                    node,
                    "no user counts as at the console; <allow> in at_console=\"true\" is ignored".into(),
                );
            }
            if !denies.is_empty() {
                warn(
                    node,
                    "no user counts as at the console; <deny> in at_console=\"true\" holds for all users"
                        .into(),
                );
            }
            policy.at_no_console.extend(denies);
        }
        ("at_console", other) => {
            return Err((node, format!("at_console must be true or false, not `{other}`")));
        }
        (who, name) => {
            let account = if who == "user" { users::uid(name) } else { users::gid(name) };
            match account {
                None => warn(node, format!("unknown {who} {name}; the policy for this {who} is ignored")),
                Some(_) if rules.iter().any(is_of_connect) => {
                    let why = format!(
                        "a rule about who may connect applies to all users: move it from <policy {who}=…> to <policy context=\"default\"> or \"mandatory\""
                    );
                    return Err((node, why));
                }
                Some(uid) if who == "user" => policy.users.push((uid, rules)),
                Some(gid) => policy.groups.push((gid, rules)),
            }
        }
    }
    config.warnings.extend(warnings);
    Ok(())
}

/// A user or group that the tables of the system lack.
struct NoSuchAccount {
    what: &'static str,
    name: String,
}

/// An `<allow>` or `<deny>`.
fn rule(node: Node<'_, '_>, allows: bool) -> Result<Result<Rule, NoSuchAccount>, String> {
    check_form(node, RULE_ATTRIBUTES, Content::Nothing)?;
    let get = |name: &str| node.attribute(name);
    let about = |prefix: &str| node.attributes().any(|attribute| attribute.name().starts_with(prefix));
    let (is_send, is_receive) = (about("send_"), about("receive_"));
    let (is_own, is_user) = (about("own"), get("user").is_some() || get("group").is_some());
    let is_message = ["eavesdrop", "min_fds", "max_fds"].iter().any(|name| get(name).is_some());
    let kinds = [is_send, is_receive, is_own, is_user];
    if kinds.iter().filter(|is| **is).count() > 1 || ((is_own || is_user) && is_message) {
        return Err("a rule is about one of send_…, receive_…, own…, user and group; eavesdrop, min_fds and max_fds belong to send_… and receive_…".into());
    }
    if !kinds.contains(&true) && get("eavesdrop").is_none() {
        return Err("a rule without send_…, receive_…, own…, user, group or eavesdrop matches nothing".into());
    }
    let subject = if is_own {
        Subject::Own(match (get("own"), get("own_prefix")) {
            (Some("*"), None) => NamePattern::Any,
            (Some(name), None) => NamePattern::Exact(name.into()),
            (None, Some(prefix)) => NamePattern::Prefix(prefix.into()),
            _ => return Err("a rule has one of own and own_prefix".into()),
        })
    } else if is_user {
        let (what, name) = match (get("user"), get("group")) {
            (Some(user), None) => ("user", user),
            (None, Some(group)) => ("group", group),
            _ => return Err("a rule has one of user and group".into()),
        };
        let id = match (what, name) {
            (_, "*") => None,
            ("user", user) => users::uid(user),
            (_, group) => users::gid(group),
        };
        if id.is_none() && name != "*" {
            return Ok(Err(NoSuchAccount { what, name: name.into() }));
        }
        if what == "user" { Subject::User(id) } else { Subject::Group(id) }
    } else if is_send {
        Subject::Send(filter(node, "send_", allows)?)
    } else {
        // With `eavesdrop` alone it is about receiving.
        Subject::Receive(filter(node, "receive_", allows)?)
    };
    Ok(Ok(Rule { allows, subject }))
}

/// The conditions of a rule about messages, with attributes that begin with `send_` or `receive_`.
fn filter(node: Node<'_, '_>, prefix: &str, allows: bool) -> Result<Filter, String> {
    check_combination(node, prefix)?;
    let mut filter = Filter::any(allows);
    for attribute in node.attributes() {
        let (name, value) = (attribute.name(), attribute.value());
        let text = (value != "*").then(|| value.to_owned());
        let number = || {
            let parsed = leading_integer(value).and_then(|(number, _)| u32::try_from(number).ok());
            let parsed = parsed.filter(|number| *number <= FDS_MAX);
            parsed.ok_or_else(|| format!("{name} must be a number from 0 to {FDS_MAX}, not `{value}`"))
        };
        match name.strip_prefix(prefix).unwrap_or(name) {
            "type" => filter.kind = kind(value)?,
            "path" => filter.path = text,
            "interface" => filter.interface = text,
            "member" => filter.member = text,
            "error" => filter.error = text,
            "destination" | "sender" => filter.peer = text.map_or(NamePattern::Any, NamePattern::Exact),
            "destination_prefix" => filter.peer = NamePattern::Prefix(value.into()),
            "broadcast" => filter.broadcast = Some(truth(name, value)?),
            "requested_reply" => filter.requested_reply = truth(name, value)?,
            "eavesdrop" => filter.eavesdrop = truth(name, value)?,
            "min_fds" => filter.min_fds = number()?,
            "max_fds" => filter.max_fds = number()?,
            // `log`: nothing is logged.
            _ => {}
        }
    }
    // Eavesdropping is about receiving: a `<deny send_…>` holds with and without it.
    filter.eavesdrop &= allows || prefix == "receive_";
    if let (NamePattern::Exact(name), Some(true)) = (&filter.peer, filter.broadcast) {
        return Err(format!(
            "no message is both a broadcast and for {name}: remove send_broadcast or send_destination"
        ));
    }
    Ok(filter)
}

/// Conditions that dbus-daemon refuses together, because no message satisfies them or more messages do than their author thinks of.
fn check_combination(node: Node<'_, '_>, prefix: &str) -> Result<(), String> {
    let has = |name: &str| node.has_attribute(format!("{prefix}{name}").as_str());
    if has("destination") && has("destination_prefix") {
        return Err("a rule has one of send_destination and send_destination_prefix".into());
    }
    if has("member") && !has("interface") && !has("path") {
        return Err(format!("{prefix}member needs {prefix}interface or {prefix}path"));
    }
    if has("error") && (has("member") || has("interface")) {
        return Err(format!(
            "an error has no member and no interface: remove {prefix}error, or the other two"
        ));
    }
    Ok(())
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{name} must be true or false, not `{value}`")),
    }
}

fn kind(word: &str) -> Result<Option<Kind>, String> {
    let kinds = [Kind::MethodCall, Kind::MethodReturn, Kind::Error, Kind::Signal];
    match kinds.into_iter().find(|kind| kind.word() == word) {
        Some(kind) => Ok(Some(kind)),
        None if word == "*" => Ok(None),
        None => Err(format!("unknown message type `{word}`")),
    }
}

/// Refusals: `tests/it/compared/configuration.rs`.
#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::policy::Policy;

    type SetCondition<'a> = &'a dyn Fn(&mut Filter);

    fn config(policies: &str) -> Config {
        let text = format!("<busconfig>{policies}</busconfig>");
        let (document, mut config) = (Document::parse(&text).unwrap(), Config::default());
        for node in document.root_element().children() {
            add(&mut config, node, Path::new("test.conf"))
                .unwrap_or_else(|(_, why)| panic!("{policies}: {why}"));
        }
        config
    }

    fn subject(rule: &str) -> Option<Rule> {
        config(&format!("<policy context='default'>{rule}</policy>")).policy.default.pop()
    }

    #[test]
    fn each_attribute_about_messages_becomes_a_condition() {
        let some = |text: &str| Some(text.to_owned());
        let conditions: [(&str, SetCondition<'_>); 9] = [
            ("type='*'", &|_| {}),
            ("type='signal'", &|it| it.kind = Some(Kind::Signal)),
            ("type='method_call'", &|it| it.kind = Some(Kind::MethodCall)),
            ("path='/a'", &|it| it.path = some("/a")),
            ("path='*'", &|_| {}),
            ("interface='a.B'", &|it| it.interface = some("a.B")),
            ("error='a.E'", &|it| it.error = some("a.E")),
            ("requested_reply='true'", &|it| it.requested_reply = true),
            ("requested_reply='false'", &|it| it.requested_reply = false),
        ];
        for (attribute, set) in conditions {
            let filter = |allows| {
                let mut filter = Filter::any(allows);
                set(&mut filter);
                filter
            };
            let send = subject(&format!("<allow send_{attribute}/>"));
            assert_eq!(
                send,
                Some(Rule { allows: true, subject: Subject::Send(filter(true)) }),
                "{attribute}"
            );
            let receive = subject(&format!("<deny receive_{attribute}/>"));
            let expected = Rule { allows: false, subject: Subject::Receive(filter(false)) };
            assert_eq!(receive, Some(expected), "{attribute}");
        }
    }

    #[test]
    fn attributes_of_one_direction_and_of_both_become_conditions() {
        let some = |text: &str| Some(text.to_owned());
        let any = || Filter::any(true);
        for (rule, wanted) in [
            (
                "send_path='/' send_member='M'",
                Subject::Send(Filter { path: some("/"), member: some("M"), ..any() }),
            ),
            (
                "send_destination='a.B'",
                Subject::Send(Filter { peer: NamePattern::Exact("a.B".into()), ..any() }),
            ),
            ("send_destination='*'", Subject::Send(any())),
            (
                "send_destination_prefix='a'",
                Subject::Send(Filter { peer: NamePattern::Prefix("a".into()), ..any() }),
            ),
            ("send_broadcast='true'", Subject::Send(Filter { broadcast: Some(true), ..any() })),
            ("send_broadcast='false'", Subject::Send(Filter { broadcast: Some(false), ..any() })),
            ("send_type='*' min_fds='2'", Subject::Send(Filter { min_fds: 2, ..any() })),
            ("receive_type='*' max_fds='3'", Subject::Receive(Filter { max_fds: 3, ..any() })),
            (
                "receive_sender='a.B'",
                Subject::Receive(Filter { peer: NamePattern::Exact("a.B".into()), ..any() }),
            ),
            ("send_type='*' eavesdrop='true'", Subject::Send(Filter { eavesdrop: true, ..any() })),
            // Alone it is about receiving.
            ("eavesdrop='true'", Subject::Receive(Filter { eavesdrop: true, ..any() })),
            ("own='*'", Subject::Own(NamePattern::Any)),
            ("own='a.B'", Subject::Own(NamePattern::Exact("a.B".into()))),
            ("own_prefix='a.B'", Subject::Own(NamePattern::Prefix("a.B".into()))),
            ("user='*'", Subject::User(None)),
            ("user='7'", Subject::User(Some(7))),
            ("group='*'", Subject::Group(None)),
            ("group='7'", Subject::Group(Some(7))),
        ] {
            let found = subject(&format!("<allow {rule}/>"));
            assert_eq!(found, Some(Rule { allows: true, subject: wanted }), "{rule}");
        }
    }

    #[test]
    fn policies_hold_for_those_that_they_name() {
        let own = |name: &str| Rule { allows: true, subject: Subject::Own(NamePattern::Exact(name.into())) };
        let config = config(
            "<policy user='7'><allow own='a.user'/></policy><policy group='5'><allow own='a.group'/></policy>\
             <policy context='mandatory'><allow own='a.mandatory'/></policy>\
             <policy context='default'><allow own='a.default'/><deny user='no such user'/></policy>\
             <policy user='no such user'><allow own='a.B'/></policy>\
             <policy group='no such group'><allow own='a.B'/></policy>",
        );
        let Policy { default, groups, users, mandatory, .. } = config.policy;
        assert_eq!((default, mandatory), (vec![own("a.default")], vec![own("a.mandatory")]));
        assert_eq!((users, groups), (vec![(7, vec![own("a.user")])], vec![(5, vec![own("a.group")])]));
        let warnings = config.warnings.join(" ");
        assert!(
            warnings.contains("unknown user no such user")
                && warnings.contains("unknown group no such group")
        );
    }
}
