//! Generated policies: rules of all kinds, in all places, with values from few words, so that many apply to a message.

use causeway_dbus_wire::random::Random;
use causeway_dbus_wire::wire::Kind;

use super::both;
use super::decisions::{Request, Sent, To, can_be_others, compare, configured};
use crate::support::*;

const NAMES: [&str; 3] = ["com.a", "com.a.b", "com.b"];
const PLACES: &[&str] = &[
    "context='default'",
    "context='default'",
    "user='root'",
    "user='nobody'",
    "group='games'",
    "group='daemon'",
    "context='mandatory'",
    "at_console='false'",
    "user='no such user'",
];
const POLICIES: u64 = 20;

/// A rule, with attributes that may stand together.
fn rule(random: &mut Random) -> String {
    let verdict = random.one_of(&["allow", "deny"]);
    let mut attributes: Vec<(String, &str)> = Vec::new();
    match random.below(8) {
        0 => attributes.push(match random.below(2) {
            0 => ("own".into(), random.one_of(&["com.a", "com.a.b", "com.b", "*"])),
            _ => ("own_prefix".into(), random.one_of(&["com", "com.a", "co", "com.b"])),
        }),
        number => {
            let (is_send, prefix) = if number < 5 { (true, "send_") } else { (false, "receive_") };
            let mut add = |random: &mut Random, key: &str, one_in: usize, values: &[&'static str]| {
                let is_added = random.below(one_in) == 0;
                if is_added {
                    attributes.push((format!("{prefix}{key}"), random.one_of(values)));
                }
                is_added
            };
            add(random, "type", 2, &["method_call", "method_return", "error", "signal", "*"]);
            let has_path = add(random, "path", 3, &["/com/a", "/com/b", "*"]);
            let has_interface = add(random, "interface", 3, &["com.a", "com.i.I", "com.i.J", "*"]);
            let has_member = (has_path || has_interface) && add(random, "member", 2, &["M", "N", "*"]);
            if !has_interface && !has_member {
                add(random, "error", 5, &["com.e.E", "com.e.F", "*"]);
            }
            add(random, "requested_reply", 5, &["true", "false"]);
            if is_send {
                let has_destination =
                    add(random, "destination", 3, &["com.a", "com.a.b", "com.b", "*", DRIVER]);
                if !has_destination {
                    add(random, "destination_prefix", 5, &["com", "com.a", "co"]);
                    add(random, "broadcast", 6, &["true", "false"]);
                }
            } else {
                add(random, "sender", 3, &["com.a", "com.a.b", "com.b", "*", DRIVER]);
            }
            if attributes.is_empty() {
                attributes.push((format!("{prefix}type"), "signal"));
            }
            let others: [(&str, &[&str]); 3] =
                [("eavesdrop", &["true", "false"]), ("max_fds", &["0", "5"]), ("min_fds", &["0", "1"])];
            for (key, values) in others {
                if random.below(6) == 0 {
                    attributes.push((key.into(), random.one_of(values)));
                }
            }
        }
    }
    let attributes: Vec<String> = attributes.iter().map(|(key, value)| format!("{key}='{value}'")).collect();
    format!("<{verdict} {}/>", attributes.join(" "))
}

fn policies(random: &mut Random) -> String {
    let policy = |random: &mut Random| {
        let rules: String = (0..=random.below(4)).map(|_| rule(random)).collect();
        format!("<policy {}>{rules}</policy>", random.one_of(PLACES))
    };
    (0..=random.below(5)).map(|_| policy(random)).collect()
}

fn requests() -> Vec<Request> {
    let own = NAMES.into_iter().chain(["com", "com.a.b.c", "org.x"]);
    let mut requests: Vec<Request> = own.map(|name| Request::Own(name.into())).collect();
    let some = |text: &str| Some(text.to_owned());
    for kind in [Kind::MethodCall, Kind::Signal] {
        let names = ["com.a", "com.b", "com.none", DRIVER].map(|name| To::Name(name.into()));
        let all = names.into_iter().chain([To::OtherEnd]).chain((kind == Kind::Signal).then_some(To::All));
        for to in all {
            for (path, interface, member) in
                [("/com/a", None, "M"), ("/com/a", some("com.a"), "M"), ("/com/b", some("com.i.I"), "N")]
            {
                if kind == Kind::Signal && interface.is_none() {
                    continue;
                }
                let sent =
                    Sent { path: some(path), interface, member: some(member), ..Sent::new(kind, to.clone()) };
                if matches!(to, To::OtherEnd | To::All) {
                    requests.push(Request::Receive(sent.clone()));
                }
                requests.push(Request::Send(sent));
            }
        }
    }
    for kind in [Kind::MethodReturn, Kind::Error] {
        for is_asked in [true, false] {
            for (interface, path, member) in
                [(None, None, None), (some("com.a"), None, None), (None, some("/com/a"), some("M"))]
            {
                let error = (kind == Kind::Error).then(|| "com.e.E".to_owned());
                let sent = Sent { interface, path, member, error, is_asked, ..Sent::new(kind, To::OtherEnd) };
                requests.push(Request::Send(sent.clone()));
                requests.push(Request::Receive(sent));
            }
        }
    }
    requests
}

#[test]
fn generated_policies_decide_as_in_dbus_daemon() {
    if !can_be_others() {
        return;
    }
    let names = NAMES.map(str::to_owned);
    let (mut count, mut wrong) = (0, Vec::new());
    for seed in 1..=POLICIES {
        let mut random = Random(seed);
        let elements = policies(&mut random);
        let folder = temp_dir("policies");
        let file = folder.path().join("bus.conf");
        std::fs::write(&file, configured(random.below(3) > 0, &elements)).unwrap();
        let Some(brokers) = both(&file, folder.path()) else { return };
        let (compared, differing) = compare(&brokers, &names, &requests());
        count += compared;
        wrong.extend(differing.into_iter().map(|line| format!("seed {seed}, {elements}\n  {line}")));
    }
    println!("{count} decisions");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

/// dbus-daemon treats no user as at the console since version 1.11.18. What a file denies to those who are holds for everybody here.
#[test]
fn nobody_is_at_the_console_and_what_is_denied_there_is_denied_to_all() {
    if !can_be_others() {
        return;
    }
    let folder = temp_dir("policies");
    let file = folder.path().join("bus.conf");
    let rules = "<policy context='default'><allow own='com.b'/></policy>\
        <policy at_console='true'><allow own='com.a'/><deny own='com.b'/></policy>\
        <policy at_console='false'><allow own='com.a.b'/></policy>";
    std::fs::write(&file, configured(true, rules)).unwrap();
    let Some(brokers) = both(&file, folder.path()) else { return };
    let owned = |bus: &Broker, name: &str| {
        super::decisions::Court::of(bus, &[]).decide(&Request::Own(name.into()))[1].clone()
    };
    for (name, ours, theirs) in
        [("com.a", "AccessDenied", "AccessDenied"), ("com.a.b", "ok", "ok"), ("com.b", "AccessDenied", "ok")]
    {
        assert_eq!(brokers.each_ref().map(|bus| owned(bus, name)), [ours, theirs], "{name}");
    }
}
