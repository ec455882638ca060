//! The policy and service files of Debian's packages: both brokers start with each of them and decide the same.
//!
//! `CAUSEWAY_POLICIES=1 cargo test -p causewayd --test it -- packages:: --nocapture` downloads the packages with `apt-get download`; a folder in place
//! of `1` keeps them for the next time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use causeway_dbus_wire::wire::{Body, Kind, Marshal, names};
use roxmltree::{Document, Node, ParsingOptions};

use super::decisions::{Request, Sent, To, can_be_others, compare, configured, well_known};
use super::{answer, both};
use crate::support::*;

const VARIABLE: &str = "CAUSEWAY_POLICIES";
/// Packages of Debian 12 that ship policy files.
const PACKAGES: &[&str] = &[
    "accountsservice",
    "avahi-daemon",
    "backintime-qt",
    "blueman",
    "bluez",
    "bluez-meshd",
    "bolt",
    "cinnamon-settings-daemon",
    "colord",
    "connman",
    "connman-vpn",
    "cups-pk-helper",
    "dnsmasq-base",
    "firewalld",
    "flatpak",
    "fprintd",
    "fwupd",
    "gdm3",
    "geoclue-2.0",
    "iio-sensor-proxy",
    "input-remapper-daemon",
    "iwd",
    "kde-config-cron",
    "kde-config-sddm",
    "kde-config-systemd",
    "kinfocenter",
    "kio-admin",
    "kwalletmanager",
    "kylin-display-switch",
    "libkpmcore12",
    "libteam-utils",
    "libvirt-dbus",
    "lightdm",
    "low-memory-monitor",
    "mandos",
    "modemmanager",
    "netplan.io",
    "network-manager",
    "network-manager-fortisslvpn",
    "network-manager-iodine",
    "network-manager-l2tp",
    "network-manager-openconnect",
    "network-manager-openvpn",
    "network-manager-pptp",
    "network-manager-ssh",
    "network-manager-sstp",
    "network-manager-vpnc",
    "nfs-ganesha",
    "oddjob",
    "oddjob-mkhomedir",
    "ofono",
    "packagekit",
    "plasma-desktop",
    "plasma-disks",
    "plasma-firewall",
    "policycoreutils-dbus",
    "polkitd",
    "power-profiles-daemon",
    "powerdevil",
    "pulseaudio",
    "ratbagd",
    "realmd",
    "repowerd",
    "rtkit",
    "sddm",
    "snapper",
    "software-properties-common",
    "sssd-dbus",
    "switcheroo-control",
    "sysprof",
    "system-config-printer-common",
    "system-tools-backends",
    "systemd",
    "systemd-container",
    "systemd-homed",
    "systemd-oomd",
    "systemd-resolved",
    "systemd-timesyncd",
    "thermald",
    "timekpr-next",
    "tpm2-abrmd",
    "tuned",
    "udisks2",
    "ukui-control-center",
    "ukui-power-manager",
    "ukui-settings-daemon",
    "upower",
    "urfkill",
    "usbguard",
    "wpasupplicant",
];
const POLICY_FOLDERS: &[&str] = &[
    "usr/share/dbus-1/system.d",
    "etc/dbus-1/system.d",
    "usr/share/dbus-1/session.d",
    "etc/dbus-1/session.d",
];
const SERVICE_FOLDERS: &[&str] = &["usr/share/dbus-1/services", "usr/share/dbus-1/system-services"];
/// So many must be there: some may have left the registry since.
const LEAST: usize = 60;

/// The packages, unpacked in a folder each; nothing where they cannot be had.
fn unpacked(folder: &Path) -> Option<Vec<PathBuf>> {
    if ["apt-get", "dpkg-deb"].iter().any(|program| !is_installed(program)) {
        skipped("apt-get and dpkg-deb, which download and unpack the packages, are not installed");
        return None;
    }
    let unpack = |package: &&&str| {
        let target = folder.join(package);
        let is_of_package = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{package}_")))
        };
        let find =
            || std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).find(is_of_package);
        let archive = find().or_else(|| {
            let mut download = Command::new("apt-get");
            download.args(["-qq", "download", package]).current_dir(folder).output().unwrap();
            find()
        })?;
        let status = Command::new("dpkg-deb").arg("-x").args([&archive, &target]).status().unwrap();
        status.success().then_some(target)
    };
    let unpacked: Vec<PathBuf> = PACKAGES.iter().filter_map(|package| unpack(&package)).collect();
    if unpacked.is_empty() {
        skipped("the registry of packages does not answer");
        return None;
    }
    assert!(unpacked.len() >= LEAST, "{} packages, of {}", unpacked.len(), PACKAGES.len());
    Some(unpacked)
}

/// Files with this ending in these folders of a package.
fn files(package: &Path, folders: &[&str], ending: &str) -> Vec<PathBuf> {
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(package.join(folder)).ok()).flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == ending));
    files.sort();
    files
}

/// Requests that the rules of a policy are about, and some that miss them narrowly; and the names in the file.
fn requests(text: &str) -> (Vec<Request>, Vec<String>) {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let Ok(document) = Document::parse_with_options(text, options) else { return (Vec::new(), Vec::new()) };
    let is_rule = |node: &Node<'_, '_>| node.has_tag_name("allow") || node.has_tag_name("deny");
    let rules: Vec<Node<'_, '_>> = document.descendants().filter(is_rule).collect();
    let attribute = |names: &[&str]| {
        let all = rules.iter().flat_map(|rule| names.iter().filter_map(|name| rule.attribute(*name)));
        all.map(str::to_owned).collect::<Vec<_>>()
    };
    let named =
        attribute(&["own", "own_prefix", "send_destination", "send_destination_prefix", "receive_sender"]);
    let mut requests = BTreeSet::new();
    for name in attribute(&["own", "own_prefix"]) {
        for name in [name.clone(), format!("{name}.Below"), format!("{name}x")] {
            if names::is_well_known(&name) {
                requests.insert(Request::Own(name));
            }
        }
    }
    let names = well_known(named);
    let default = names.first().cloned();
    for rule in rules {
        requests.extend(around(rule, "send_", default.as_deref()).into_iter().map(Request::Send));
        requests.extend(around(rule, "receive_", None).into_iter().map(Request::Receive));
    }
    (requests.into_iter().collect(), names)
}

/// Messages around a rule whose attributes begin in this way: the one that it names, and others that differ in one thing.
fn around(rule: Node<'_, '_>, prefix: &str, default: Option<&str>) -> Vec<Sent> {
    let get = |key: &str| rule.attribute(format!("{prefix}{key}").as_str()).filter(|value| *value != "*");
    if !rule.attributes().any(|attribute| attribute.name().starts_with(prefix)) {
        return Vec::new();
    }
    let kinds = match get("type") {
        Some("signal") => vec![Kind::Signal],
        Some("method_return") => vec![Kind::MethodReturn],
        Some("error") => vec![Kind::Error],
        Some(_) => vec![Kind::MethodCall],
        None => vec![Kind::MethodCall, Kind::Signal],
    };
    let below = get("destination_prefix").map(|prefix| format!("{prefix}.Below"));
    let to = get("destination").or(default).map(str::to_owned).or(below);
    let to = to.filter(|name| names::is_well_known(name)).map_or(To::OtherEnd, To::Name);
    let text = |value: Option<&str>, is_valid: fn(&str) -> bool| {
        value.filter(|value| is_valid(value)).map(str::to_owned)
    };
    let mut messages = Vec::new();
    for kind in kinds {
        let is_answer = matches!(kind, Kind::MethodReturn | Kind::Error);
        let error = text(get("error"), names::is_interface).or_else(|| Some("com.example.Error".into()));
        let interface = text(get("interface"), names::is_interface);
        let other = || Some("com.example.Other".to_owned());
        let exact = Sent {
            path: text(get("path"), names::is_path)
                .or_else(|| Some("/com/example".into()))
                .filter(|_| !is_answer),
            interface: interface.clone().or_else(|| other().filter(|_| kind == Kind::Signal)),
            member: text(get("member"), names::is_member).or_else(|| Some("M".into())).filter(|_| !is_answer),
            error: error.filter(|_| kind == Kind::Error),
            is_asked: is_answer,
            ..Sent::new(kind, if is_answer { To::OtherEnd } else { to.clone() })
        };
        messages.push(Sent { interface: other(), ..exact.clone() });
        if !is_answer {
            messages.push(Sent { member: Some("Other".into()), ..exact.clone() });
            messages.push(Sent { path: Some("/".into()), ..exact.clone() });
        }
        if kind == Kind::Signal {
            messages.push(Sent { to: To::All, ..exact.clone() });
        } else {
            messages.push(Sent { interface: None, ..exact.clone() });
        }
        messages.push(exact);
    }
    messages
}

/// Compares the decisions of both brokers with a file in the folder that they include. Returns how many, and those that differ.
fn compare_policy(file: &Path) -> Option<(usize, Vec<String>)> {
    let folder = temp_dir("packages");
    let included = folder.path().join("included");
    std::fs::create_dir(&included).unwrap();
    std::fs::copy(file, included.join("file.conf")).unwrap();
    let bus = folder.path().join("bus.conf");
    std::fs::write(&bus, configured(true, "<includedir>included</includedir>")).unwrap();
    let (requests, names) = requests(&std::fs::read_to_string(file).unwrap_or_default());
    Some(compare(&both(&bus, folder.path())?, &names, &requests))
}

/// The names that all service files together provide, and what a start of each is answered: their programs are where none is.
fn compare_services(packages: &[PathBuf]) -> Option<(usize, Vec<String>)> {
    let folder = temp_dir("packages");
    let services = packages.iter().flat_map(|package| files(package, SERVICE_FOLDERS, "service"));
    for (number, file) in services.enumerate() {
        // A link to another file of the package may lead to this machine's.
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let text = text.replace("Exec=", "Exec=/nonexistent");
        std::fs::write(folder.path().join(format!("{number:04}.service")), text).unwrap();
    }
    let brokers = both(with_services(&folder, "").as_ref(), folder.path())?;
    let [ours, theirs] = brokers.each_ref().map(|bus| {
        let mut client = bus.client();
        let mut names = texts(&client.ask_driver("ListActivatableNames", Body::default()).unwrap());
        names.sort();
        let start = |name: String| {
            let mut out = Marshal::default();
            out.text(&name);
            out.u32(0);
            let answer = answer(&mut client, "StartServiceByName", out.into_body("su"));
            format!("{name}: {answer}")
        };
        names.into_iter().map(start).collect::<Vec<_>>()
    });
    let wrong = if ours == theirs { Vec::new() } else { vec![format!("{ours:?}\n{theirs:?}")] };
    Some((ours.len(), wrong))
}

#[test]
fn files_of_packages_decide_as_in_dbus_daemon() {
    let Some(setting) = std::env::var_os(VARIABLE) else {
        return skipped(&format!(
            "{VARIABLE}=1 downloads and compares packages, {VARIABLE}=FOLDER keeps them"
        ));
    };
    let temporary = temp_dir("packages");
    let folder = if setting == "1" { temporary.path().to_owned() } else { PathBuf::from(setting) };
    std::fs::create_dir_all(&folder).unwrap();
    let unpacked = if can_be_others() { unpacked(&folder) } else { None };
    let Some(packages) = unpacked else { return };
    let (mut count, mut file_count, mut wrong) = (0, 0, Vec::new());
    for file in packages.iter().flat_map(|package| files(package, POLICY_FOLDERS, "conf")) {
        let Some((compared, differing)) = compare_policy(&file) else { return };
        (count, file_count) = (count + compared, file_count + 1);
        wrong.extend(differing.into_iter().map(|line| format!("{}: {line}", file.display())));
    }
    let Some((services, differing)) = compare_services(&packages) else { return };
    wrong.extend(differing);
    println!(
        "{} packages, {file_count} policy files, {count} decisions, {services} services",
        packages.len()
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
