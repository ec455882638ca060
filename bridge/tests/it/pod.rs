//! The example of a pod, as the one who copies it relies on it.

use std::path::Path;

use causeway_bridge::args::{Arguments, Command};
use clap::Parser;
use serde_yaml::Value;

fn strings(list: &Value) -> Vec<String> {
    let list = list.as_sequence().into_iter().flatten();
    list.map(|word| word.as_str().expect("words are strings").to_owned()).collect()
}

/// The folder at which a container has a volume, and whether it can write there.
fn mount<'a>(container: &'a Value, volume: &str) -> Option<(&'a Path, bool)> {
    let mounts = container["volumeMounts"].as_sequence()?;
    let found = mounts.iter().find(|mount| mount["name"] == volume)?;
    Some((Path::new(found["mountPath"].as_str()?), found["readOnly"] != true))
}

#[test]
fn the_pod_of_the_example_shares_the_folder_of_the_socket_and_its_commands_are_understood() {
    let pod: Value = serde_yaml::from_str(include_str!("../../../dist/kubernetes/bridge.yaml")).unwrap();
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&"v1".into(), &"Pod".into()));
    let (spec, security) = (&pod["spec"], &pod["spec"]["securityContext"]);
    let users = ["runAsUser", "runAsGroup"].map(|field| security[field].as_u64().expect("a number"));
    assert!(users.iter().all(|user| ![0, 65534].contains(user)) && security["runAsNonRoot"] == true);

    let volumes = spec["volumes"].as_sequence().unwrap();
    let containers = spec["containers"].as_sequence().unwrap();
    for container in containers {
        assert!(container["securityContext"]["runAsUser"].is_null(), "both are processes of one user");
        for mount in container["volumeMounts"].as_sequence().unwrap() {
            assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{mount:?}");
        }
    }
    let named = |name: &str| containers.iter().find(|container| container["name"] == name).unwrap();
    let (program, bridge) = (named("ticker"), named("bridge"));
    let words = |of: &Value| [strings(&of["command"]), strings(&of["args"])].concat();
    let arguments = Arguments::try_parse_from(words(bridge)).unwrap().bridge;

    // The socket lies in a folder that both have, at the same place, and not on a mount of the socket alone.
    let socket = &arguments.groups[0].path;
    for container in [program, bridge] {
        assert_eq!(mount(container, "causeway"), Some((socket.parent().unwrap(), true)));
    }
    assert!(words(program).iter().any(|word| Path::new(word) == socket), "{:?}", words(program));
    assert!(arguments.exports[0].contain(&arguments.groups[0].name), "nothing crosses");
    // The file system of the image cannot be written.
    let state = arguments.state.unwrap();
    assert!(
        state.starts_with(socket.parent().unwrap())
            && bridge["securityContext"]["readOnlyRootFilesystem"] == true
    );
    assert!(arguments.metrics.unwrap().starts_with(socket.parent().unwrap()));
    assert_eq!(mount(bridge, "certificates"), Some((arguments.tls.unwrap().as_path(), false)));
    assert!(arguments.routers.iter().all(|router| router.starts_with("tls/")), "certificates are for tls/");

    let probe = Arguments::try_parse_from(strings(&bridge["livenessProbe"]["exec"]["command"])).unwrap();
    let Some(Command::Stat(asked)) = probe.command else { panic!("{:?}", probe.command) };
    assert_eq!(asked.state, Some(state));
}
