//! Certificates: who has none of the realm's authority does not get in, and access rules of Zenoh name hosts by theirs.

use std::path::Path;
use std::process::Stdio;

use crate::support::{
    Bridge, GROUP, Host, Running, eventually, free_port, options, program, read_until, temp_dir, tick, zenohd,
};

fn make(folder: &Path, hosts: &[&str]) {
    let mut command = program(&["tls", folder.to_str().unwrap()]);
    let output = command.args(hosts).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A router with certificates, and what its configuration says beside them.
fn router(folder: &Path, port: u16, rules: &str) -> Running {
    let file = |name: &str| folder.join("router").join(name).to_str().unwrap().to_owned();
    let config = format!(
        r#"{{ "listen": {{ "endpoints": ["tls/127.0.0.1:{port}"] }}, "scouting": {{ "multicast": {{ "enabled": false }} }},
            "transport": {{ "link": {{ "tls": {{ "root_ca_certificate": "{}", "listen_certificate": "{}", "listen_private_key": "{}",
            "enable_mtls": true }} }} }} {rules} }}"#,
        file("ca.pem"),
        file("cert.pem"),
        file("key.pem"),
    );
    let path = folder.join(format!("router-{port}.json5"));
    std::fs::write(&path, config).unwrap();
    let mut command = match zenohd() {
        Some(zenohd) => {
            let mut command = std::process::Command::new(zenohd);
            command.arg("-c").arg(&path);
            command
        }
        None => {
            let endpoint = format!("tls/127.0.0.1:{port}");
            let mut command = program(&["router", "--listen", &endpoint]);
            command.arg("--config").arg(&path);
            command
        }
    };
    let running = Running::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    eventually("no router listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

fn bridge(host: &Host, port: u16, certificates: &Path) -> Bridge {
    let endpoint = format!("tls/127.0.0.1:{port}");
    let tls = certificates.to_str().unwrap();
    host.bridge_with(&["--router", &endpoint, "--tls", tls, "--export", GROUP, "--import", GROUP])
}

#[test]
fn certificates_of_one_command_let_hosts_in_and_those_of_another_authority_are_refused() {
    let folder = temp_dir("bridge");
    let (realm, other_realm) = (folder.path().join("realm"), folder.path().join("other-realm"));
    make(&realm, &["router", "a"]);
    // The authority that is there is used again.
    make(&realm, &["b"]);
    make(&other_realm, &["c"]);
    let port = free_port();
    let _router = router(&realm, port, "");
    let hosts = ["a", "b", "c"].map(Host::new);
    let [a, b] = [0, 1].map(|at: usize| bridge(&hosts[at], port, &realm.join(&hosts[at].name)));
    a.linked(1);
    b.linked(1);
    let c = bridge(&hosts[2], port, &other_realm.join("c"));
    eventually("it is not said", || {
        c.stat()["last_error"].as_str().is_some_and(|why| why.contains("no router at"))
    });
    let mut subscriber = hosts[1].subscribe();
    let _ = hosts[0].group.publisher().unwrap().publish(&tick(0, 8)).unwrap();
    read_until(&mut subscriber, "the message has not come", |seen| seen.contains_key(&0));
    assert_eq!(c.stat()["connected"], false);
    assert_eq!(a.route("out", "")["peers"], 1);
}

/// The rule names the host by its certificate, and the topic by its key.
#[test]
fn an_access_rule_of_zenoh_denies_one_topic_to_one_host() {
    let folder = temp_dir("bridge");
    let realm = folder.path().join("realm");
    make(&realm, &["router", "a", "b", "c"]);
    let rules = r#", "access_control": { "enabled": true, "default_permission": "allow",
        "rules": [{ "id": "secret", "messages": ["put", "reply"], "flows": ["egress"], "permission": "deny", "key_exprs": ["cw/1/test/prices/7"] }],
        "subjects": [{ "id": "b", "cert_common_names": ["b"] }],
        "policies": [{ "rules": ["secret"], "subjects": ["b"] }] }"#;
    let port = free_port();
    let _router = router(&realm, port, rules);
    let hosts = ["a", "b", "c"].map(|name| Host::with(name, options().capacity_bytes(32 << 20)));
    let mut bridges = hosts.each_ref().map(|host| bridge(host, port, &realm.join(&host.name)));
    bridges[0].linked(2);
    let mut subscribers = hosts.each_ref().map(Host::subscribe);
    let mut publisher = hosts[0].group.publisher().unwrap();
    // Each that is denied costs a question, one after the other.
    for number in 0..15 {
        for topic in [6, 7] {
            let _ = publisher.publish_with_topic(topic, &tick(number, 8)).unwrap();
        }
    }
    // A long one, which comes in parts.
    let _ = publisher.publish_with_topic(7, &tick(15, 3 << 20)).unwrap();
    let _ = publisher.publish_with_topic(6, &tick(15, 3 << 20)).unwrap();
    let is_all = |seen: &crate::support::Seen| seen.received == 16;
    let c = read_until(&mut subscribers[2], "host c does not get all", |seen| {
        [6, 7].iter().all(|topic| seen.get(topic).is_some_and(is_all))
    });
    assert_eq!(c.len(), 2);
    // What is denied on its key is denied when it is sent again, too, and counts as lost.
    let b = read_until(&mut subscribers[1], "host b does not get the topic that it may have", |seen| {
        seen.get(&6).is_some_and(is_all)
    });
    assert_eq!(b.len(), 1, "{b:?}");
    eventually("what is kept back is not counted", || {
        bridges[1].route("in", "a")["lost"].as_u64() >= Some(15)
    });
    let why = bridges[1].route("in", "a")["last_error"].as_str().unwrap().to_owned();
    assert!(why.contains("a rule of Zenoh keeps them back"), "{why}");
    // It asks for all of these at once.
    bridges[1].process.kill();
    for number in 16..36 {
        let _ = publisher.publish_with_topic(6 + (number % 2) as u32, &tick(number, 8)).unwrap();
    }
    bridges[1] = bridge(&hosts[1], port, &realm.join("b"));
    read_until(&mut subscribers[1], "what it may have is lost beside what it may not have", |seen| {
        seen.get(&6).is_some_and(|seen| seen.received == 10)
    });
}
