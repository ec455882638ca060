//! The columns of `results`, in their order. `docs/fleet-schema.md` has the same table, and a test holds it to this one.
//!
//! Within version 1 a column is added at the end or at its place, may be missing in older files, and is never renamed nor given another
//! type; anything else is version 2 in a folder of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};

use crate::rows::{Row, mitigations, normalized};

/// The version of the table: the first part of every name in the store.
pub const VERSION: u32 = 1;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Utf8`
    Text,
    /// `Int64`
    Int,
    /// `Float64`
    Float,
    /// `Boolean`
    Bool,
    /// `Timestamp(µs, UTC)`
    Time,
    /// `List<Utf8>`
    Texts,
    /// `Map<Utf8, Utf8>`
    TextMap,
    /// `Map<Utf8, Float64>`
    FloatMap,
}

impl Kind {
    /// As the document writes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Int => "int64",
            Kind::Float => "float64",
            Kind::Bool => "boolean",
            Kind::Time => "timestamp µs UTC",
            Kind::Texts => "list of text",
            Kind::TextMap => "map text → text",
            Kind::FloatMap => "map text → float64",
        }
    }

    fn data_type(self) -> DataType {
        let map = |value: DataType| {
            let entries = vec![Field::new("keys", DataType::Utf8, false), Field::new("values", value, true)];
            DataType::Map(
                Arc::new(Field::new("entries", DataType::Struct(Fields::from(entries)), false)),
                false,
            )
        };
        match self {
            Kind::Text => DataType::Utf8,
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Texts => DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))),
            Kind::TextMap => map(DataType::Utf8),
            Kind::FloatMap => map(DataType::Float64),
        }
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known.
    Null,
    /// Of [`Kind::Text`].
    Text(String),
    /// Of [`Kind::Int`] and [`Kind::Time`].
    Int(i64),
    /// Of [`Kind::Float`].
    Float(f64),
    /// Of [`Kind::Bool`].
    Bool(bool),
    /// Of [`Kind::Texts`].
    Texts(Vec<String>),
    /// Of [`Kind::TextMap`].
    TextMap(BTreeMap<String, String>),
    /// Of [`Kind::FloatMap`].
    FloatMap(BTreeMap<String, f64>),
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// What it says, in one line.
    pub about: &'static str,
    /// Of a row.
    pub of: fn(Row<'_>) -> Value,
}

/// The table as the libraries know it.
pub fn arrow() -> Arc<Schema> {
    let field = |column: &Column| Field::new(column.name, column.kind.data_type(), true);
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// The same with the columns that names in the store have: `campaign` and `day`.
pub fn with_partitions() -> Arc<Schema> {
    let of_names = [("campaign", DataType::Utf8), ("day", DataType::Date32)]
        .map(|(name, of)| Arc::new(Field::new(name, of, true)));
    Arc::new(Schema::new(arrow().fields().iter().cloned().chain(of_names).collect::<Vec<_>>()))
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

macro_rules! values {
    ($($from:ty => $value:expr;)*) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value {
                $value(value)
            }
        })*
    };
}

values! {
    String => Value::Text;
    &str => |text: &str| Value::Text(text.into());
    &String => |text: &String| Value::Text(text.clone());
    i64 => Value::Int;
    u32 => |number: u32| Value::Int(number.into());
    u64 => |number: u64| Value::Int(number as i64);
    usize => |number: usize| Value::Int(number as i64);
    f64 => Value::Float;
    bool => Value::Bool;
    Vec<String> => Value::Texts;
    BTreeMap<String, String> => Value::TextMap;
    BTreeMap<String, f64> => Value::FloatMap;
}

macro_rules! columns {
    ($($name:ident: $kind:ident, $about:literal, |$row:ident| $of:expr;)*) => {
        /// All columns.
        pub const COLUMNS: &[Column] = &[
            $(Column { name: stringify!($name), kind: Kind::$kind, about: $about, of: |$row| Value::from($of) },)*
        ];
    };
}

columns! {
    record_id: Text, "SHA-256 of the record: its name in the store", |row| &row.record.id;
    schema: Int, "version of the record's form", |row| row.record.header.schema;
    case_id: Text, "the case", |row| row.outcome.case.to_string();
    outcome: Text, "`measured`, `skipped`, `void` or `interrupted`", |row| row.outcome.outcome.name();
    why: Text, "one sentence, where it was not measured", |row| row.outcome.why.as_ref();
    complete: Bool, "was everything measured that the record planned?", |row| row.record.complete;

    pattern: Text, "how the ends talk", |row| &row.outcome.case.pattern;
    mechanism: Text, "by what", |row| &row.outcome.case.mechanism;
    payload_bytes: Int, "bytes of payload", |row| row.outcome.case.payload_bytes;
    placement: Text, "where the roles were to run", |row| &row.outcome.case.placement;
    resolved_placement: Text, "where they ran", |row| row.case.map(|case| &case.resolved_placement);
    axes: TextMap, "what differs from the default, by name", |row| row.outcome.case.axes.clone();
    unit: Text, "of `value`, `lo`, `hi`", |row| row.summary.map(|of| &of.unit);
    higher_is_better: Bool, "true of rates, false of costs", |row| row.case.map(|case| case.higher_is_better);

    value: Float, "median over the runs", |row| row.summary.map(|of| of.median);
    lo: Float, "lower end of its interval at 95 % within the session", |row| ci95(row).map(|ends| ends[0]);
    hi: Float, "upper end", |row| ci95(row).map(|ends| ends[1]);
    runs: Int, "runs", |row| row.summary.map(|of| of.runs);
    spread_between: Float, "half the interquartile range of the runs over their median", |row| row.summary.map(|of| of.spread_between);
    spread_within: Float, "the same of samples inside runs", |row| row.summary.map(|of| of.spread_within);
    hub: Text, "the case with which it took turns", |row| to_hub(row).map(|of| of.hub.to_string());
    to_hub: Float, "its cost as a multiple of the hub's", |row| to_hub(row).map(|of| of.median);
    to_hub_lo: Float, "lower end of its interval at 95 %", |row| to_hub(row).and_then(|of| Some(of.ci95?[0]));
    to_hub_hi: Float, "upper end", |row| to_hub(row).and_then(|of| Some(of.ci95?[1]));
    sets: Int, "sets in which both took turns", |row| to_hub(row).map(|of| of.sets);
    slow_share: Float, "share of the time in a slow state of the machine, 0 to 1", |row| row.summary.and_then(|of| of.slow_share);
    stopped_by: Text, "why no further runs were made", |row| row.summary.map(|of| spelled(&of.stopped_by));
    anomalies: Texts, "counts that the case must not have", |row| row.summary.map(|of| of.anomalies.clone());
    per_op: FloatMap, "counts of an operation, all roles together", |row| row.summary.map(per_op);
    p50_ns: Float, "median of single operations, where each was timed", |row| percentile(row, 0.5);
    p99_ns: Float, "their 99th percentile", |row| percentile(row, 0.99);

    machine: Text, "name of the machine, which stays over boots", |row| &row.record.identity.machine;
    machine_from: Text, "what the name is taken from: `label`, `machine-id`, `dmi`, `hostname`", |row| &row.record.identity.machine_from;
    boot_id: Text, "changes with every boot, and is the same in all containers of a machine", |row| row.record.header.machine.boot_id.as_ref();
    booted: Time, "when the kernel was booted", |row| row.record.identity.booted.as_deref().and_then(crate::clock::microseconds);
    hostname: Text, "name of the host, in a container that of the container", |row| &row.record.header.machine.hostname;
    hw_class: Text, "fingerprint of hardware that may stand in for each other", |row| &row.record.identity.hw_class;
    arch: Text, "architecture", |row| &row.record.header.machine.arch;
    cpu_vendor: Text, "who made the CPU", |row| row.record.identity.cpu_vendor.as_ref();
    cpu_family: Text, "its family", |row| row.record.identity.cpu_family.as_ref();
    cpu_model: Text, "number of its model", |row| row.record.identity.cpu_model_number.as_ref();
    cpu_stepping: Text, "its stepping", |row| row.record.identity.cpu_stepping.as_ref();
    cpu_name: Text, "its name", |row| &row.record.header.machine.cpu_model;
    microcode: Text, "revision of its microcode", |row| row.record.header.machine.microcode.as_ref();
    sockets: Int, "packages", |row| distinct(row, |cpu| (cpu.package, 0));
    cores: Int, "cores", |row| distinct(row, |cpu| (cpu.package, cpu.core));
    threads: Int, "CPUs online", |row| row.record.header.machine.cpus.len();
    llc_bytes: Int, "size of one last-level cache", |row| row.record.header.machine.caches.iter().max_by_key(|cache| cache.level).map(|cache| cache.size_bytes);
    numa_nodes: Int, "NUMA nodes", |row| row.record.header.machine.nodes.len();
    memory_bytes: Int, "memory", |row| row.record.header.machine.memory_bytes;
    dmi_vendor: Text, "vendor of the machine by its firmware", |row| row.record.identity.dmi_vendor.as_ref();
    dmi_product: Text, "product", |row| row.record.identity.dmi_product.as_ref();
    dmi_board: Text, "board", |row| row.record.identity.dmi_board.as_ref();
    dmi_bios: Text, "firmware and its version", |row| row.record.identity.dmi_bios.as_ref();
    instance_type: Text, "type of a cloud's instance: the label `instance_type`, or what the firmware says (EC2)", |row| row.record.identity.instance_type.as_ref();
    hypervisor: Text, "vendor, or `none`", |row| &row.record.header.machine.virtualisation;
    emulator: Text, "emulator and its version, of a guest of ours", |row| row.record.identity.emulator.as_ref();
    allowed_cpus: Text, "CPUs that the session might use, as the kernel writes lists", |row| list(&row.record.header.machine.allowed_cpus);
    cgroup_cpu_max: Text, "quota and period of its control group", |row| row.record.identity.cgroup_cpu_max.as_ref();
    cgroup_memory_max: Text, "memory of its control group", |row| row.record.identity.cgroup_memory_max.as_ref();
    clock_source: Text, "what the kernel reads for the clock", |row| &row.record.header.machine.clock.kernel_source;
    icount: Bool, "are all nanoseconds instructions of an emulated machine?", |row| row.record.header.machine.clock.counts_instructions();

    kernel_release: Text, "`uname -r`", |row| &row.record.header.machine.kernel;
    kernel_build: Text, "`uname -v`", |row| &row.record.header.machine.kernel_build;
    kernel_build_id: Text, "build id of the running kernel", |row| row.record.identity.kernel_build_id.as_ref();
    cmdline: Text, "its command line without what only one machine has", |row| row.record.header.machine.command_line.as_deref().map(normalized);
    mitigations_sha: Text, "fingerprint of what it does about vulnerabilities", |row| mitigations(&row.record.header.machine.mitigations);
    libc: Text, "C library and version", |row| row.record.header.machine.libc.as_ref();
    tool_version: Text, "version of the program", |row| &row.record.header.tool.version;
    tool_commit: Text, "commit that it was built from", |row| row.record.header.tool.commit.as_ref();
    tool_profile: Text, "`release` or `debug`", |row| &row.record.header.tool.profile;

    started: Time, "when the session began, by the clock of the machine", |row| row.record.started_us;
    ended: Time, "when it ended; null where it was killed", |row| row.record.ended_us;
    plan_id: Text, "the plan", |row| row.record.header.provenance.plan_id.as_ref();
    shard: Int, "which part of it, from 1", |row| row.record.header.provenance.shard;
    shards: Int, "of how many", |row| row.record.header.provenance.shards;
    attempt: Int, "records of the same plan, machine and boot before", |row| row.record.header.provenance.attempt;
    scheduler: Text, "what started it", |row| row.record.header.provenance.scheduler.as_ref();
    job_id: Text, "the job, in the scheduler's words", |row| row.record.header.provenance.job_id.as_ref();
    restarts: Int, "how often the scheduler had started it before", |row| row.record.header.provenance.restarts;
    labels: TextMap, "labels of the session", |row| row.record.header.labels.clone();
    facts: TextMap, "settings of kernel and machine: `sysctl:`, `power:`, `mitigation:`, `limit:` and a name", |row| row.record.facts.clone();
}

fn ci95(row: Row<'_>) -> Option<[f64; 2]> {
    row.summary?.ci95
}

fn to_hub<'a>(row: Row<'a>) -> Option<&'a weighbridge_record::ToHub> {
    row.summary?.to_hub.as_ref()
}

/// As the record spells a value that is one word.
fn spelled(value: &impl serde::Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(String::from)
}

fn per_op(of: &weighbridge_record::Summary) -> BTreeMap<String, f64> {
    let all = serde_json::to_value(&of.per_op).unwrap_or_default();
    let counts = all.as_object().into_iter().flatten();
    counts.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
}

fn percentile(row: Row<'_>, p: f64) -> Option<f64> {
    let all = &row.summary?.distribution.as_ref()?.percentiles;
    all.iter().find(|percentile| percentile.p == p).map(|percentile| percentile.ns)
}

fn distinct(row: Row<'_>, of: fn(&weighbridge_record::Cpu) -> (u32, u32)) -> usize {
    row.record.header.machine.cpus.iter().map(of).collect::<std::collections::BTreeSet<_>>().len()
}

/// `0-3,8`.
fn list(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    let parts = sorted.chunk_by(|one, next| *next == one + 1);
    let part = |part: &[u32]| match part {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    parts.map(part).collect::<Vec<_>>().join(",")
}
