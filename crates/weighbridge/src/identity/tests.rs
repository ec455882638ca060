//! Identities of machines that are folders.

use std::collections::BTreeMap;

use causeway_testkit::{TempDir, temp_dir};
use weighbridge_record::{Cache, Cpu, Node};

use super::*;

const CPUINFO: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n\
                       cpu MHz\t\t: 2599.998\nbogomips\t: 5199.99\n";

/// A system with these files.
fn system(files: &[(&str, &str)]) -> (TempDir, Files) {
    let folder = temp_dir("identity");
    let write = |(name, text): (&str, &str)| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    files.iter().copied().for_each(write);
    let files = Files { root: folder.path().into() };
    (folder, files)
}

fn machine() -> Machine {
    Machine {
        hostname: "job-3".into(),
        arch: "x86_64".into(),
        cpu_model: "AMD EPYC".into(),
        cpus: vec![Cpu { cpu: 0, core: 0, package: 0, llc: 0, node: 0 }],
        caches: vec![Cache { level: 3, r#type: "Unified".into(), size_bytes: 32 << 20, line_bytes: 64 }],
        nodes: vec![Node { node: 0, cpus: vec![0], memory_bytes: 1 }],
        memory_bytes: 15_900 << 20,
        virtualisation: "KVM".into(),
        ..Machine::default()
    }
}

#[test]
fn the_name_of_a_machine_is_what_a_label_says_else_a_hash_else_its_host_name() {
    let id = "0123456789abcdef0123456789abcdef";
    let (_folder, files) =
        system(&[("etc/machine-id", &format!("{id}\n")), ("sys/class/dmi/id/board_asset_tag", "i-0abc1234")]);
    let of = |files: &Files, label: Option<&str>| {
        let found = identity(files, &machine(), label.map(str::to_owned));
        (found.machine, found.machine_from)
    };
    assert_eq!(of(&files, Some("n17")), ("n17".into(), "label".into()));
    let (name, from) = of(&files, None);
    assert_eq!((name.len(), from.as_str()), (16, "machine-id"));
    // HMAC-SHA-256 of APPLICATION under the sixteen bytes of the id, by Python's `hmac`.
    assert_eq!(name, "f365a5db8b3d9262");
    assert!(!id.contains(&name) && !name.contains(&id[..8]), "the raw id is confidential");
    fs::write(files.path("etc/machine-id"), "uninitialized\n").unwrap();
    let (name, from) = of(&files, None);
    assert_eq!((name.len(), from.as_str()), (16, "dmi"));
    fs::remove_dir_all(files.path("sys")).unwrap();
    assert_eq!(of(&files, None), ("job-3".into(), "hostname".into()));
}

#[test]
fn a_class_stays_over_boots_and_settings_and_changes_with_the_hardware() {
    let block = "sys/devices/system/memory/block_size_bytes";
    let present = "sys/devices/system/cpu/present";
    let (_folder, files) = system(&[
        ("proc/cpuinfo", CPUINFO),
        (present, "0-3"),
        (block, "8000000"),
        ("sys/devices/system/memory/memory0/state", "online"),
        ("sys/devices/system/memory/memory1/state", "online"),
    ]);
    let class = |machine: &Machine| identity(&files, machine, None).hw_class;
    let first = class(&machine());
    let mut other_boot = machine();
    other_boot.hostname = "job-4".into();
    other_boot.boot_id = Some("other".into());
    other_boot.memory_bytes -= 300 << 20;
    other_boot.microcode = Some("0xb204011".into());
    other_boot.mitigations = BTreeMap::from([("spectre_v2".into(), "off".into())]);
    other_boot.power = BTreeMap::from([("governor".into(), "powersave".into())]);
    other_boot.kernel = "6.13".into();
    fs::write(
        files.path("proc/cpuinfo"),
        CPUINFO.replace("2599.998", "3100.1").replace("5199.99", "5200.02"),
    )
    .unwrap();
    assert_eq!(class(&other_boot), first, "a boot, a setting, a frequency are no other class");
    let others: [(&str, &str, &str); 3] = [
        ("proc/cpuinfo", "model\t\t: 17", "model\t\t: 18"),
        (present, "0-3", "0-7"),
        (block, "8000000", "80000000"),
    ];
    for (file, from, to) in others {
        let before = fs::read_to_string(files.path(file)).unwrap();
        fs::write(files.path(file), before.replace(from, to)).unwrap();
        assert_ne!(class(&machine()), first, "{file}: {to}");
        fs::write(files.path(file), before).unwrap();
    }
    assert_ne!(class(&Machine { virtualisation: "none".into(), ..machine() }), first);
}

#[test]
fn an_instance_of_a_cloud_is_known_by_its_firmware_and_limits_are_the_tightest_of_all_groups() {
    let (_folder, files) = system(&[
        ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"),
        ("sys/class/dmi/id/product_name", "m7a.large\n"),
        ("sys/class/dmi/id/bios_vendor", "Amazon EC2"),
        ("sys/class/dmi/id/bios_version", "1.0"),
        ("proc/self/cgroup", "0::/pods/one\n"),
        ("sys/fs/cgroup/pods/one/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/pods/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/pods/one/memory.max", "max\n"),
        ("proc/stat", "cpu 1 2\nbtime 1767225600\n"),
    ]);
    let found = identity(&files, &machine(), None);
    assert_eq!(found.instance_type.as_deref(), Some("m7a.large"));
    assert_eq!(found.dmi_bios.as_deref(), Some("Amazon EC2 1.0"));
    assert_eq!(found.cgroup_cpu_max.as_deref(), Some("50000 100000"));
    assert_eq!(found.cgroup_memory_max.as_deref(), Some("max"));
    assert_eq!(found.booted.as_deref(), Some("2026-01-01T00:00:00Z"));
    // The first two as their clouds have them; what identifies Azure, the asset tag of the chassis, says nothing of the type either.
    let others = [
        ("Google", "Google Compute Engine"),
        ("Microsoft Corporation", "Virtual Machine"),
        ("LENOVO", "m7a.large"),
    ];
    for (vendor, product) in others {
        fs::write(files.path("sys/class/dmi/id/sys_vendor"), vendor).unwrap();
        fs::write(files.path("sys/class/dmi/id/product_name"), product).unwrap();
        fs::write(files.path("sys/class/dmi/id/chassis_asset_tag"), "7783-7084-3265-9085-8269-3286-77")
            .unwrap();
        let found = identity(&files, &machine(), None);
        assert_eq!(found.instance_type, None, "{vendor}");
        assert_eq!(found.dmi_product.as_deref(), Some(product));
    }
}

#[test]
fn the_build_id_is_found_among_other_notes_and_half_a_note_is_none() {
    let note = |kind: u32, name: &[u8], content: &[u8]| {
        let mut bytes = Vec::new();
        [name.len() as u32, content.len() as u32, kind]
            .iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        for part in [name, content] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    };
    let notes = [note(6, b"Xen\0", &[1, 2, 3]), note(3, b"GNU\0", &[0xab, 0xcd, 0xef])].concat();
    assert_eq!(build_id(&notes).as_deref(), Some("abcdef"));
    assert_eq!(build_id(&notes[..notes.len() - 3]), None);
    assert_eq!(build_id(&[]), None);
}

#[test]
fn a_scheduler_is_known_by_its_variables() {
    let of = |set: &[(&str, &str)]| {
        started_by(|name| set.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned()))
    };
    let slurm = of(&[
        ("SLURM_JOB_ID", "12"),
        ("SLURM_ARRAY_JOB_ID", "10"),
        ("SLURM_ARRAY_TASK_ID", "2"),
        ("SLURM_RESTART_COUNT", "1"),
    ]);
    assert_eq!(
        (slurm.scheduler.as_deref(), slurm.job_id.as_deref(), slurm.restarts),
        (Some("slurm"), Some("10_2"), Some(1))
    );
    let pod = of(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("HOSTNAME", "bench-3")]);
    assert_eq!((pod.scheduler.as_deref(), pod.job_id.as_deref()), (Some("kubernetes"), Some("bench-3")));
    assert_eq!(of(&[]), Provenance::default());
}

#[test]
fn a_clock_that_cannot_be_right_is_told() {
    let wrong = |now, booted| clock_is_wrong(now, booted);
    assert!(wrong("1970-01-01T00:01:00Z", None).unwrap().contains("before this program was written"));
    let before = wrong("2026-03-01T00:00:00Z", Some("2026-03-02T00:00:00Z")).unwrap();
    assert!(before.contains("before it was booted") && before.contains("timedatectl"), "{before}");
    assert_eq!(wrong("2026-03-03T00:00:00Z", Some("2026-03-02T00:00:00Z")), None);
}

#[test]
fn a_name_with_anything_in_it_is_one_name_of_a_file() {
    assert_eq!(in_file_name("../a b/ü.x"), "-a-b--.x");
    assert_eq!(in_file_name("node-17.example"), "node-17.example");
}
