//! AddMatch and RemoveMatch.

use causeway_dbus_wire::rule::{MAX_RULE_BYTES, MatchRule};
use causeway_dbus_wire::wire::Body;

use super::request::{Answer, Refusal, Request, refused};
use crate::bus::{Bus, DirectoryUpdate};
use crate::error;
use crate::quota::Resource;

pub(super) fn rule(text: &str) -> Result<MatchRule, Refusal> {
    if text.len() > MAX_RULE_BYTES {
        let why = format!("a match rule has at most {MAX_RULE_BYTES} bytes, not {}", text.len());
        return refused(error::LIMITS_EXCEEDED, why);
    }
    text.parse().map_err(|why| Refusal(error::MATCH_RULE_INVALID, why))
}

pub fn add_match(bus: &mut Bus, request: Request<'_>) -> Answer {
    let rule = rule(request.text(0))?;
    let uid = bus.members[&request.from].identity.credentials.uid;
    if !bus.quota.charge(request.from, uid, Resource::Matches, 1) {
        return refused(error::LIMITS_EXCEEDED, "this connection or its user has too many match rules");
    }
    bus.matches.add(request.from, rule);
    bus.update_directory(DirectoryUpdate::Rules(request.from));
    Ok(Some(Body::default()))
}

pub fn remove_match(bus: &mut Bus, request: Request<'_>) -> Answer {
    if !bus.matches.remove(request.from, &rule(request.text(0))?) {
        return refused(error::MATCH_RULE_NOT_FOUND, "this connection has no such rule");
    }
    let uid = bus.members[&request.from].identity.credentials.uid;
    bus.quota.release(request.from, uid, Resource::Matches, 1);
    bus.update_directory(DirectoryUpdate::Rules(request.from));
    Ok(Some(Body::default()))
}
