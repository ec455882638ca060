//! `<policy>` elements to rules.

use roxmltree::Node;
use weighbridge_dbus::wire::Kind;

use crate::config::Config;
use crate::policy::{Filter, NamePattern, Rule, Subject};
use crate::users;

/// Adds a `<policy>` to a configuration.
///
/// # Errors
/// It says something that cannot be left out safely: which element or attribute.
pub fn add(config: &mut Config, node: Node<'_, '_>) -> Result<(), String> {
    let mut rules = Vec::new();
    for child in node.children().filter(Node::is_element) {
        match child.tag_name().name() {
            name @ ("allow" | "deny") => rules.extend(rule(child, name == "allow")?),
            other => return Err(format!("<{other}> is no rule of a policy")),
        }
    }
    let policy = &mut config.policy;
    match (node.attribute("context"), node.attribute("user"), node.attribute("group")) {
        (Some("default"), None, None) => policy.default.extend(rules),
        (Some("mandatory"), None, None) => policy.mandatory.extend(rules),
        (None, Some(user), None) => match users::uid(user) {
            Some(uid) => policy.users.push((uid, rules)),
            None => {
                config.remarks.push(format!("there is no user {user}; the policy for this user is left out"))
            }
        },
        (None, None, Some(group)) => match users::gid(group) {
            Some(gid) => policy.groups.push((gid, rules)),
            None => config
                .remarks
                .push(format!("there is no group {group}; the policy for this group is left out")),
        },
        _ => {
            let what = node.attributes().map(|attribute| attribute.name()).collect::<Vec<_>>().join(", ");
            return Err(format!(
                "a <policy> has one of context=\"default\", context=\"mandatory\", user and group; at_console is not done (here: {what})"
            ));
        }
    }
    Ok(())
}

/// An `<allow>` or `<deny>`; nothing where it is about a user that does not exist.
fn rule(node: Node<'_, '_>, allows: bool) -> Result<Option<Rule>, String> {
    let get = |name: &str| node.attribute(name);
    let about = |prefix: &str| node.attributes().any(|attribute| attribute.name().starts_with(prefix));
    let is_send = about("send_");
    let is_receive = about("receive_");
    let (is_own, is_user) = (about("own"), get("user").is_some() || get("group").is_some());
    let kinds = [is_send, is_receive, is_own, is_user];
    if kinds.iter().filter(|is| **is).count() > 1 {
        return Err("a rule is about one of send_…, receive_…, own…, user and group".into());
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
            (Some(user), None) => match users::uid(user) {
                Some(uid) => Subject::User(Some(uid)),
                None => return Ok(None),
            },
            (None, Some(group)) => match users::gid(group) {
                Some(gid) => Subject::Group(Some(gid)),
                None => return Ok(None),
            },
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

fn filter(node: Node<'_, '_>, prefix: &str, allows: bool) -> Result<Filter, String> {
    let mut filter = Filter::any(allows);
    let mut exact_peer = None;
    for attribute in node.attributes() {
        let (name, value) = (attribute.name(), attribute.value());
        let text = (value != "*").then(|| value.to_owned());
        let number = || value.parse().map_err(|_| format!("{name} is `{value}`, which is no number"));
        match name.strip_prefix(prefix).unwrap_or(name) {
            "type" => filter.kind = kind(value)?,
            "path" => filter.path = text,
            "interface" => filter.interface = text,
            "member" => filter.member = text,
            "error" => filter.error = text,
            "destination" | "sender" => exact_peer = Some(text.map_or(NamePattern::Any, NamePattern::Exact)),
            "destination_prefix" => filter.peer = NamePattern::Prefix(value.into()),
            "broadcast" => filter.broadcast = Some(truth(name, value)?),
            "requested_reply" => filter.requested_reply = truth(name, value)?,
            "eavesdrop" => filter.eavesdrop = truth(name, value)?,
            "min_fds" => filter.min_fds = number()?,
            "max_fds" => filter.max_fds = number()?,
            "log" => {}
            _ => return Err(format!("{name} is no attribute of a rule")),
        }
    }
    if let Some(peer) = exact_peer {
        filter.peer = peer;
    }
    Ok(filter)
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{name} is true or false, not `{value}`")),
    }
}

fn kind(word: &str) -> Result<Option<Kind>, String> {
    let kinds = [Kind::MethodCall, Kind::MethodReturn, Kind::Error, Kind::Signal];
    match kinds.into_iter().find(|kind| kind.word() == word) {
        Some(kind) => Ok(Some(kind)),
        None if word == "*" => Ok(None),
        None => Err(format!("`{word}` is no type of message")),
    }
}
