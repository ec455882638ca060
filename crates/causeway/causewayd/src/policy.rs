//! Who may connect, own, send and receive, as the `<policy>` elements of a configuration say. Pure decisions.
//!
//! Of the rules of a member the last one that applies decides. Source: dbus-daemon(1), "CONFIGURATION FILE".

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use causeway_dbus_wire::wire::{Header, Kind, names::is_below_name};
use rustc_hash::FxHashMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub allows: bool,
    pub subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Who may connect, as the next one; `None` is `*`.
    User(Option<u32>),
    Group(Option<u32>),
    Own(NamePattern),
    Send(Filter),
    Receive(Filter),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamePattern {
    #[default]
    Any,
    Exact(String),
    /// This one and those below it.
    Prefix(String),
}

impl NamePattern {
    pub fn has(&self, name: &str) -> bool {
        match self {
            NamePattern::Any => true,
            NamePattern::Exact(own) => own == name,
            NamePattern::Prefix(prefix) => is_below_name(name, prefix),
        }
    }
}

/// Which messages a rule is about: those that satisfy all conditions. A condition on a field that a message lacks is satisfied, as in
/// dbus-daemon; the interface is the exception.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kind: Option<Kind>,
    pub path: Option<String>,
    pub interface: Option<String>,
    pub member: Option<String>,
    pub error: Option<String>,
    /// `send_destination`, `send_destination_prefix` or `receive_sender`: a name of the other side.
    pub peer: NamePattern,
    pub broadcast: Option<bool>,
    /// `…_requested_reply`: of replies, an `<allow>` is about requested ones, and a `<deny>` about others, unless this says otherwise.
    pub requested_reply: bool,
    pub eavesdrop: bool,
    pub min_fds: u32,
    pub max_fds: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    pub header: &'a Header<'a>,
    pub is_requested_reply: bool,
    /// Is the receiver not its destination?
    pub is_eavesdropped: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Rules {
    own: Vec<(bool, NamePattern)>,
    send: Vec<(bool, Filter)>,
    receive: Vec<(bool, Filter)>,
    /// Is everything allowed that is not a reply to nothing?
    is_open: bool,
}

impl Rules {
    pub fn may_own(&self, name: &str) -> bool {
        let last = self.own.iter().rev().find(|(_, pattern)| pattern.has(name));
        self.is_open || last.is_some_and(|(allows, _)| *allows)
    }

    /// May the member send this? `peer_has` says whether the receiver has one of these names.
    pub fn may_send(&self, message: Passing<'_>, peer_has: &dyn Fn(&NamePattern) -> bool) -> bool {
        self.may(&self.send, message, peer_has)
    }

    /// May the member receive this? `peer_has` says whether the sender has one of these names.
    pub fn may_receive(&self, message: Passing<'_>, peer_has: &dyn Fn(&NamePattern) -> bool) -> bool {
        self.may(&self.receive, message, peer_has)
    }

    /// Is there any message for another one that the member may receive? If not, it need not be looked for.
    pub fn may_eavesdrop(&self) -> bool {
        self.is_open || self.receive.iter().any(|(allows, filter)| *allows && filter.eavesdrop)
    }

    fn may(
        &self,
        rules: &[(bool, Filter)],
        message: Passing<'_>,
        peer_has: &dyn Fn(&NamePattern) -> bool,
    ) -> bool {
        if self.is_open {
            return !is_reply(message.header) || message.is_requested_reply;
        }
        let last = rules.iter().rev().find(|(allows, filter)| filter.applies(*allows, message, peer_has));
        last.is_some_and(|(allows, _)| *allows)
    }
}

impl Filter {
    /// One without conditions.
    pub fn any(allows: bool) -> Filter {
        Filter { requested_reply: allows, max_fds: u32::MAX, ..Filter::default() }
    }

    fn names_nothing(&self) -> bool {
        let names = [&self.path, &self.interface, &self.member, &self.error];
        self.kind.is_none() && names.iter().all(|name| name.is_none()) && self.peer == NamePattern::Any
    }

    fn applies(&self, allows: bool, message: Passing<'_>, peer_has: &dyn Fn(&NamePattern) -> bool) -> bool {
        let header = message.header;
        let same = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is.is_none_or(|is| is == wanted))
        };
        // A message without an interface may be meant for any: a rule that denies one applies, and a rule that allows one does not.
        let interface = same(&self.interface, header.interface)
            && (!allows || self.interface.is_none() || header.interface.is_some());
        let reply = header.reply_serial.is_none()
            || if allows {
                // In dbus-daemon, `eavesdrop` lets replies pass that nobody waits for. Here it does so for other messages with a reply serial.
                let passes_unasked = self.eavesdrop && !is_reply(header);
                message.is_requested_reply || !self.requested_reply || passes_unasked
            } else {
                !message.is_requested_reply || self.requested_reply
            };
        let eavesdrop = if allows {
            self.eavesdrop || !message.is_eavesdropped
        } else {
            !self.eavesdrop || message.is_eavesdropped
        };
        self.kind.is_none_or(|kind| kind == header.kind)
            && reply
            && eavesdrop
            && interface
            && same(&self.path, header.path)
            && same(&self.member, header.member)
            && same(&self.error, header.error_name)
            && self.broadcast.is_none_or(|broadcast| broadcast == header.is_broadcast())
            && (self.min_fds..=self.max_fds).contains(&header.unix_fds)
            && (self.peer == NamePattern::Any || peer_has(&self.peer))
    }
}

/// Does it answer a call? A signal may name a serial, too, and is none the less a signal.
pub fn is_reply(header: &Header<'_>) -> bool {
    matches!(header.kind, Kind::MethodReturn | Kind::Error)
}

/// The rules of a user with certain groups: all its connections have them, and get others when the policy changes.
pub type SharedRules = Rc<RefCell<Rules>>;

/// The rules of each user with the same groups, so that a change is not made for every connection.
#[derive(Debug, Default)]
pub struct RulesOf {
    shared: FxHashMap<(u32, Box<[u32]>), SharedRules>,
    /// With so many, those that nobody has any more go.
    most: usize,
}

impl RulesOf {
    /// Those of a user with these groups under this policy.
    pub fn get(&mut self, policy: &Policy, uid: u32, groups: &[u32]) -> SharedRules {
        if self.shared.len() > self.most {
            self.forget_unused();
            self.most = 2 * self.shared.len() + 16;
        }
        let rules = self.shared.entry((uid, groups.into()));
        let rules = rules.or_insert_with(|| Rc::new(RefCell::new(policy.rules_for(uid, groups))));
        Rc::clone(rules)
    }

    /// From now on this policy holds for all.
    pub fn renew(&mut self, policy: &Policy) {
        self.forget_unused();
        for ((uid, groups), rules) in &self.shared {
            rules.replace(policy.rules_for(*uid, groups));
        }
    }

    fn forget_unused(&mut self) {
        self.shared.retain(|_, rules| Rc::strong_count(rules) > 1);
    }
}

/// Adds a rule behind the others. In dbus-daemon, a rule that names nothing replaces those before it, also for messages to which it does not
/// apply, such as replies that were asked for: no rule of this kind is left for them, and they are denied.
fn add(rules: &mut Vec<(bool, Filter)>, allows: bool, filter: &Filter) {
    if filter.names_nothing() {
        rules.clear();
    }
    rules.push((allows, filter.clone()));
}

/// All `<policy>` elements. They hold in the order of the fields.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub default: Vec<Rule>,
    pub groups: Vec<(u32, Vec<Rule>)>,
    pub users: Vec<(u32, Vec<Rule>)>,
    /// For users that are not at the console, as all users are.
    pub at_no_console: Vec<Rule>,
    pub mandatory: Vec<Rule>,
    /// No policy at all, as without a configuration file.
    pub is_open: bool,
}

impl Policy {
    /// May this user connect? The user of the bus may, unless a rule says otherwise.
    pub fn may_connect(&self, uid: u32, groups: &[u32], bus_uid: u32) -> bool {
        let rules = self.default.iter().chain(&self.mandatory);
        let mut verdict = rules.filter_map(|rule| match rule.subject {
            Subject::User(user) => user.is_none_or(|user| user == uid).then_some(rule.allows),
            Subject::Group(group) => group.is_none_or(|group| groups.contains(&group)).then_some(rule.allows),
            _ => None,
        });
        verdict.next_back().unwrap_or(uid == bus_uid)
    }

    pub fn rules_for(&self, uid: u32, groups: &[u32]) -> Rules {
        if self.is_open {
            return Rules { is_open: true, ..Rules::default() };
        }
        let mut rules = Rules::default();
        // As in dbus-daemon, by the numbers of the groups, and not by their places in the files.
        let groups: BTreeSet<u32> = groups.iter().copied().collect();
        let of_group = |group| self.groups.iter().filter(move |(other, _)| *other == group);
        let of_groups = groups.into_iter().flat_map(of_group).flat_map(|(_, rules)| rules);
        let of_user = self.users.iter().filter(|(user, _)| *user == uid).flat_map(|(_, rules)| rules);
        let others = self.at_no_console.iter().chain(&self.mandatory);
        for Rule { allows, subject } in self.default.iter().chain(of_groups).chain(of_user).chain(others) {
            match subject {
                Subject::Own(pattern) => rules.own.push((*allows, pattern.clone())),
                Subject::Send(filter) => add(&mut rules.send, *allows, filter),
                Subject::Receive(filter) => add(&mut rules.receive, *allows, filter),
                Subject::User(_) | Subject::Group(_) => {}
            }
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use causeway_dbus_wire::wire::Builder;

    fn rule(allows: bool, filter: impl FnOnce(&mut Filter)) -> Rule {
        let mut send = Filter::any(allows);
        filter(&mut send);
        Rule { allows, subject: Subject::Send(send) }
    }

    fn may_send(policy: &Policy, message: &Builder<'_>, is_requested_reply: bool) -> bool {
        let bytes = message.build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        let passing = Passing { header: &header, is_requested_reply, is_eavesdropped: false };
        policy.rules_for(0, &[]).may_send(passing, &|pattern| pattern.has("org.Receiver"))
    }

    #[test]
    fn the_last_rule_that_applies_decides_and_nothing_is_allowed_without_one() {
        let mut policy = Policy::default();
        let call = Builder::call("/", "M");
        assert!(!may_send(&policy, &call, false));
        policy.default.push(rule(true, |_| {}));
        policy.default.push(rule(false, |filter| filter.interface = Some("a.B".into())));
        // Without an interface it may be meant for the denied one.
        assert!(!may_send(&policy, &call, false) && may_send(&policy, &call.clone().interface("a.C"), false));
        policy.mandatory.push(rule(true, |filter| filter.peer = NamePattern::Prefix("org".into())));
        assert!(may_send(&policy, &call, false));
        policy.mandatory.push(rule(false, |filter| filter.peer = NamePattern::Prefix("or".into())));
        assert!(may_send(&policy, &call, false));
    }

    #[test]
    fn a_new_policy_reaches_all_that_share_rules_and_those_of_nobody_are_forgotten() {
        let (mut rules_of, closed) = (RulesOf::default(), Policy::default());
        let [one, same] = [(); 2].map(|()| rules_of.get(&closed, 1, &[1, 2]));
        let other = rules_of.get(&closed, 1, &[1]);
        assert!(Rc::ptr_eq(&one, &same) && !Rc::ptr_eq(&one, &other));
        assert!(!one.borrow().may_own("a.B"));
        drop(other);
        rules_of.renew(&Policy { is_open: true, ..Policy::default() });
        assert!([&one, &same].iter().all(|rules| rules.borrow().may_own("a.B")));
        assert_eq!(rules_of.shared.len(), 1);
    }

    #[test]
    fn unused_rules_are_forgotten_when_they_outnumber_those_in_use() {
        let (mut rules_of, closed) = (RulesOf::default(), Policy::default());
        let used: Vec<SharedRules> = (0..10).map(|uid| rules_of.get(&closed, uid, &[])).collect();
        let mut most = 0;
        for uid in 10..1_000 {
            drop(rules_of.get(&closed, uid, &[]));
            most = most.max(rules_of.shared.len());
        }
        assert_eq!(most, 2 * used.len() + 16 + 1);
    }

    fn conditions(set: impl FnOnce(&mut Filter)) -> Filter {
        let mut filter = Filter { requested_reply: true, ..Filter::any(true) };
        set(&mut filter);
        filter
    }

    #[test]
    fn each_condition_tells_messages_apart() {
        let signal = || Builder::signal("/a", "a.B", "M");
        let some = |text: &str| Some(text.to_owned());
        let exact = |name: &str| NamePattern::Exact(name.to_owned());
        for (filter, satisfies, other) in [
            (conditions(|it| it.kind = Some(Kind::Signal)), signal(), Builder::call("/a", "M")),
            (conditions(|it| it.path = some("/a")), signal(), signal().path("/b")),
            (conditions(|it| it.interface = some("a.B")), signal(), signal().interface("a.C")),
            (conditions(|it| it.member = some("M")), signal(), signal().member("N")),
            (conditions(|it| it.error = some("a.E")), Builder::error(3, "a.E"), Builder::error(3, "a.F")),
            (conditions(|it| it.broadcast = Some(true)), signal(), signal().destination(":1.1")),
            (conditions(|it| it.broadcast = Some(false)), signal().destination(":1.1"), signal()),
            (conditions(|it| it.min_fds = 2), signal().unix_fds(2), signal().unix_fds(1)),
            (conditions(|it| it.max_fds = 1), signal().unix_fds(1), signal().unix_fds(2)),
            (conditions(|it| it.peer = exact(":1.5")), signal().sender(":1.5"), signal().sender(":1.6")),
        ] {
            for allows in [true, false] {
                let applies = |message: &Builder<'_>| {
                    let bytes = message.build(1).unwrap();
                    let header = Header::parse(&bytes).unwrap();
                    let passing =
                        Passing { header: &header, is_requested_reply: true, is_eavesdropped: false };
                    filter.applies(allows, passing, &|name| name.has(header.sender.unwrap_or_default()))
                };
                assert!(applies(&satisfies) && !applies(&other), "{allows}: {filter:?}");
            }
        }
    }

    /// dbus-daemon(1): of replies, an `<allow>` is about requested ones and a `<deny>` about others; with `eavesdrop`,
    /// an `<allow>` is about all messages and a `<deny>` about those to others alone.
    #[test]
    fn rules_select_replies_and_eavesdropped_messages_by_their_attribute() {
        let bytes = Builder::reply(3).build(1).unwrap();
        let header = Header::parse(&bytes).unwrap();
        for (allows, attribute, is_so, of_replies, of_eavesdropped) in [
            (true, true, true, true, true),
            (true, true, false, false, true),
            (true, false, true, true, false),
            (true, false, false, true, true),
            (false, true, true, true, true),
            (false, true, false, true, false),
            (false, false, true, false, true),
            (false, false, false, true, true),
        ] {
            let applies = |filter: Filter, is_requested_reply, is_eavesdropped| {
                let passing = Passing { header: &header, is_requested_reply, is_eavesdropped };
                filter.applies(allows, passing, &|_| true)
            };
            let filter = conditions(|it| it.requested_reply = attribute);
            assert_eq!(
                applies(filter, is_so, false),
                of_replies,
                "{allows} requested_reply={attribute}, requested: {is_so}"
            );
            let filter = conditions(|it| it.eavesdrop = attribute);
            assert_eq!(
                applies(filter, true, is_so),
                of_eavesdropped,
                "{allows} eavesdrop={attribute}, eavesdropped: {is_so}"
            );
        }
    }

    #[test]
    fn rules_of_groups_users_and_all_hold_in_this_order() {
        let own =
            |allows, name: &str| Rule { allows, subject: Subject::Own(NamePattern::Exact(name.into())) };
        let policy = Policy {
            default: vec![own(true, "a.all"), own(true, "a.group")],
            groups: vec![(5, vec![own(false, "a.group"), own(true, "a.user")])],
            users: vec![(7, vec![own(false, "a.user"), own(true, "a.console"), own(true, "a.never")])],
            at_no_console: vec![own(false, "a.console"), own(true, "a.never")],
            mandatory: vec![own(false, "a.never")],
            is_open: false,
        };
        let names = ["a.all", "a.group", "a.user", "a.console", "a.never", "a.unknown"];
        for (uid, groups, may) in [
            (1, &[][..], [true, true, false, false, false, false]),
            (1, &[4, 5], [true, false, true, false, false, false]),
            (7, &[5], [true, false, false, false, false, false]),
        ] {
            let rules = policy.rules_for(uid, groups);
            assert_eq!(names.map(|name| rules.may_own(name)), may, "user {uid} of {groups:?}");
        }
    }

    #[test]
    fn rules_about_receiving_decide_what_is_received() {
        let receive =
            |allows, set: fn(&mut Filter)| Rule { allows, subject: Subject::Receive(conditions(set)) };
        let default = vec![receive(true, |_| {}), receive(false, |it| it.member = Some("N".into()))];
        let rules = Policy { default, ..Policy::default() }.rules_for(0, &[]);
        let may_receive = |member| {
            let bytes = Builder::signal("/", "a.B", member).build(1).unwrap();
            let header = Header::parse(&bytes).unwrap();
            let passing = Passing { header: &header, is_requested_reply: false, is_eavesdropped: false };
            rules.may_receive(passing, &|_| true)
        };
        assert!(may_receive("M") && !may_receive("N"));
    }

    #[test]
    fn rule_that_names_nothing_replaces_those_before_it() {
        let asked = Builder::reply(3);
        let mut policy = Policy::default();
        policy.default.push(rule(true, |filter| filter.kind = Some(Kind::MethodReturn)));
        // It is about replies that nobody has asked for.
        policy.default.push(rule(false, |filter| filter.kind = Some(Kind::MethodReturn)));
        assert!(may_send(&policy, &asked, true));
        policy.default.push(rule(false, |_| {}));
        assert!(!may_send(&policy, &asked, true));
    }

    #[test]
    fn condition_on_a_missing_field_is_satisfied_but_not_that_on_the_interface() {
        let reply = Builder::reply(3);
        let may = |set: fn(&mut Filter)| {
            may_send(&Policy { default: vec![rule(true, set)], ..Policy::default() }, &reply, true)
        };
        assert!(may(|filter| filter.path = Some("/a".into())));
        assert!(may(|filter| filter.member = Some("M".into())));
        assert!(may(|filter| filter.error = Some("a.E".into())));
        assert!(!may(|filter| filter.interface = Some("a.B".into())));
    }

    #[test]
    fn group_with_the_higher_number_decides() {
        let own = |allows| vec![Rule { allows, subject: Subject::Own(NamePattern::Any) }];
        let policy = Policy { groups: vec![(60, own(false)), (1, own(true))], ..Policy::default() };
        for groups in [[1, 60], [60, 1]] {
            assert!(!policy.rules_for(0, &groups).may_own("a.B"));
        }
        assert!(policy.rules_for(0, &[1]).may_own("a.B"));
    }

    #[test]
    fn replies_need_a_request_unless_a_rule_says_otherwise() {
        let reply = Builder::reply(3);
        for policy in [
            Policy { is_open: true, ..Policy::default() },
            Policy { default: vec![rule(true, |_| {})], ..Policy::default() },
        ] {
            assert!(may_send(&policy, &reply, true) && !may_send(&policy, &reply, false));
        }
        let any = Policy {
            default: vec![rule(true, |filter| filter.requested_reply = false)],
            ..Policy::default()
        };
        assert!(may_send(&any, &reply, false));
    }

    #[test]
    fn signal_with_a_reply_serial_is_no_reply() {
        let signal = Builder::signal("/", "a.B", "C").reply_serial(3);
        let eavesdrop = rule(true, |filter| filter.eavesdrop = true);
        for policy in [
            Policy { is_open: true, ..Policy::default() },
            Policy { default: vec![eavesdrop], ..Policy::default() },
        ] {
            assert!(may_send(&policy, &signal, false) && !may_send(&policy, &Builder::reply(3), false));
        }
        // As in dbus-daemon.
        assert!(!may_send(
            &Policy { default: vec![rule(true, |_| {})], ..Policy::default() },
            &signal,
            false
        ));
    }

    #[test]
    fn who_eavesdrops_needs_a_rule_that_allows_just_that() {
        let receive = |allows, eavesdrop| Rule {
            allows,
            subject: Subject::Receive(Filter { eavesdrop, ..Filter::any(allows) }),
        };
        let may = |rules: Vec<Rule>| {
            Policy { default: rules, ..Policy::default() }.rules_for(0, &[]).may_eavesdrop()
        };
        assert!(!may(vec![]) && !may(vec![receive(true, false), receive(false, true)]));
        assert!(may(vec![receive(true, true)]));
        assert!(Policy { is_open: true, ..Policy::default() }.rules_for(0, &[]).may_eavesdrop());
    }

    #[test]
    fn the_user_of_the_bus_may_connect_and_others_only_by_a_rule() {
        let mut policy = Policy::default();
        assert!(policy.may_connect(7, &[], 7) && !policy.may_connect(8, &[], 7));
        policy.default.push(Rule { allows: true, subject: Subject::User(None) });
        policy.default.push(Rule { allows: false, subject: Subject::Group(Some(5)) });
        assert!(policy.may_connect(8, &[4], 7) && !policy.may_connect(8, &[5], 7));
        policy.default.push(Rule { allows: true, subject: Subject::User(Some(9)) });
        assert!(policy.may_connect(9, &[5], 7) && !policy.may_connect(8, &[5], 7));
        policy.mandatory.push(Rule { allows: false, subject: Subject::Group(None) });
        assert!(!policy.may_connect(9, &[], 7));
    }
}
