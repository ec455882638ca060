//! `<policy>` elements to rules.

use causeway_dbus_wire::wire::Kind;
use roxmltree::Node;

use crate::config::Config;
use crate::policy::{Filter, NamePattern, Rule, Subject};
use crate::users;

const POLICY_ATTRIBUTES: &str = "context user group at_console";
const RULE_ATTRIBUTES: &str = "own own_prefix user group send_type send_path send_interface send_member send_error \
    send_destination send_destination_prefix send_broadcast send_requested_reply receive_type receive_path receive_interface \
    receive_member receive_error receive_sender receive_requested_reply eavesdrop min_fds max_fds log";

/// Adds a `<policy>` to a configuration.
///
/// # Errors
/// It says something that cannot be left out safely: which element or attribute.
pub fn add(config: &mut Config, node: Node<'_, '_>) -> Result<(), String> {
    check_form(node, POLICY_ATTRIBUTES)?;
    let mut rules = Vec::new();
    for child in node.children().filter(Node::is_element) {
        match child.tag_name().name() {
            name @ ("allow" | "deny") => rules.extend(rule(child, name == "allow")?),
            other => return Err(format!("unknown policy rule <{other}>")),
        }
    }
    if let Some(who) = ["user", "group"].into_iter().find(|name| node.has_attribute(*name))
        && rules.iter().any(|rule| matches!(rule.subject, Subject::User(_) | Subject::Group(_)))
    {
        return Err(format!(
            "a rule about who may connect applies to all users: move it from <policy {who}=…> to <policy context=\"default\"> or \"mandatory\""
        ));
    }
    let policy = &mut config.policy;
    match (node.attribute("context"), node.attribute("user"), node.attribute("group")) {
        (Some("default"), None, None) => policy.default.extend(rules),
        (Some("mandatory"), None, None) => policy.mandatory.extend(rules),
        (None, Some(user), None) => match users::uid(user) {
            Some(uid) => policy.users.push((uid, rules)),
            None => config.warnings.push(format!("unknown user {user}; the policy for this user is ignored")),
        },
        (None, None, Some(group)) => match users::gid(group) {
            Some(gid) => policy.groups.push((gid, rules)),
            None => {
                config.warnings.push(format!("unknown group {group}; the policy for this group is ignored"))
            }
        },
        _ => {
            let what = node.attributes().map(|attribute| attribute.name()).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "a <policy> has one of context=\"default\", context=\"mandatory\", user and group; at_console is not supported (here: {what})"
            ));
        }
    }
    Ok(())
}

/// An `<allow>` or `<deny>`; nothing where it is about a user that does not exist.
fn rule(node: Node<'_, '_>, allows: bool) -> Result<Option<Rule>, String> {
    check_form(node, RULE_ATTRIBUTES)?;
    if let Some(child) = node.first_element_child() {
        return Err(format!("unexpected element <{}> in a rule", child.tag_name().name()));
    }
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
        match (get("user"), get("group")) {
            (Some("*"), None) => Subject::User(None),
            (None, Some("*")) => Subject::Group(None),
            (Some(user), None) => {
                let Some(uid) = users::uid(user) else { return Ok(None) };
                Subject::User(Some(uid))
            }
            (None, Some(group)) => {
                let Some(gid) = users::gid(group) else { return Ok(None) };
                Subject::Group(Some(gid))
            }
            _ => return Err("a rule has one of user and group".into()),
        }
    } else if is_send {
        Subject::Send(filter(node, "send_", allows)?)
    } else {
        // With `eavesdrop` alone it is about receiving.
        Subject::Receive(filter(node, "receive_", allows)?)
    };
    Ok(Some(Rule { allows, subject }))
}

/// The conditions of a rule about messages, with attributes that begin with `send_` or `receive_`.
fn filter(node: Node<'_, '_>, prefix: &str, allows: bool) -> Result<Filter, String> {
    check_combination(node, prefix)?;
    let mut filter = Filter::any(allows);
    for attribute in node.attributes() {
        let (name, value) = (attribute.name(), attribute.value());
        let text = (value != "*").then(|| value.to_owned());
        let number = || value.parse().map_err(|_| format!("invalid number in {name}: `{value}`"));
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

/// An element has these attributes and no others; text where only elements are expected is a mistake.
fn check_form(node: Node<'_, '_>, attributes: &str) -> Result<(), String> {
    let element = node.tag_name().name();
    let mut names = node.attributes().map(|attribute| attribute.name());
    if let Some(other) = names.find(|name| !attributes.split(' ').any(|known| known == *name)) {
        return Err(format!("unknown attribute {other} of <{element}>"));
    }
    let texts = node.children().filter(Node::is_text).filter_map(|text| text.text());
    match texts.map(str::trim).find(|text| !text.is_empty()) {
        Some(text) => Err(format!("unexpected text `{text}` in <{element}>")),
        None => Ok(()),
    }
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

/// Refusals: `tests/it/configuration.rs`.
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
            add(&mut config, node).unwrap_or_else(|why| panic!("{policies}: {why}"));
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
