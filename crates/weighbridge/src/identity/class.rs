//! What makes two machines alike: facts that stay over boots, settings and days.

use weighbridge_record::{Machine, digest};

use super::Files;

/// The first CPU, as it names itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub vendor: Option<String>,
    pub family: Option<String>,
    pub model: Option<String>,
    pub stepping: Option<String>,
}

impl Cpu {
    /// From the fields of x86, or those of Arm.
    pub fn read(files: &Files) -> Cpu {
        let text = files.text("proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let of_arm = field("CPU variant").zip(field("CPU revision"));
        Cpu {
            vendor: field("vendor_id").or_else(|| field("CPU implementer")),
            family: field("cpu family").or_else(|| field("CPU architecture")),
            model: field("model").or_else(|| field("CPU part")),
            stepping: field("stepping").or(of_arm.map(|(variant, revision)| format!("{variant}p{revision}"))),
        }
    }
}

/// The hash of a class.
pub fn hash(files: &Files, machine: &Machine, cpu: &Cpu) -> String {
    digest::short(facts(files, machine, cpu).join("\n").as_bytes())
}

/// One line for each fact. None may change with a boot, a setting or a frequency: a class that splits compares nothing.
fn facts(files: &Files, machine: &Machine, cpu: &Cpu) -> Vec<String> {
    let text = |of: &Option<String>| of.clone().unwrap_or_default();
    let packages: std::collections::BTreeSet<u32> = machine.cpus.iter().map(|cpu| cpu.package).collect();
    let mut caches: Vec<String> = machine
        .caches
        .iter()
        .map(|cache| format!("L{} {} {}", cache.level, cache.r#type, cache.size_bytes))
        .collect();
    caches.sort();
    vec![
        format!("arch {}", machine.arch),
        format!(
            "cpu {} {} {} {}",
            text(&cpu.vendor),
            text(&cpu.family),
            text(&cpu.model),
            text(&cpu.stepping)
        ),
        format!("name {}", machine.cpu_model),
        // Present, and not online: that is a setting.
        format!("present {}", files.text("sys/devices/system/cpu/present").unwrap_or_default()),
        format!("packages {}", packages.len()),
        format!("caches {}", caches.join(", ")),
        format!("nodes {}", machine.nodes.len()),
        format!("memory {} GiB", memory_gib(files, machine)),
        format!("hypervisor {}", machine.virtualisation),
        format!("product {} {}", text(&files.dmi("sys_vendor")), text(&files.dmi("product_name"))),
    ]
}

/// Memory that is installed: blocks of memory, which the kernel counts before it takes anything for itself; where it does not tell them, what
/// it has left, whose last GiB moves with every kernel.
fn memory_gib(files: &Files, machine: &Machine) -> u64 {
    let block = files.text("sys/devices/system/memory/block_size_bytes");
    let block = block.and_then(|digits| u64::from_str_radix(digits.trim_start_matches("0x"), 16).ok());
    let is_block = |name: &str| name.strip_prefix("memory").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let entries = std::fs::read_dir(files.path("sys/devices/system/memory")).into_iter().flatten().flatten();
    let blocks = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_block)).count() as u64;
    let bytes = block.map(|block| block * blocks).filter(|bytes| *bytes > 0);
    bytes.unwrap_or(machine.memory_bytes).div_ceil(1 << 30)
}
