//! The figures that others have published, as the program carries them. Each file has a head line; cells may be empty.

use std::collections::BTreeMap;

/// Stefan Westerfeld on systemd-devel, 4 March and 15 April 2014.
pub const KDBUS_2014: &str = include_str!("../../data/kdbus-2014.csv");
/// Kay Sievers on systemd-devel, March 2014: the least and the most of three tools.
pub const KDBUS_I7_2014: &str = include_str!("../../data/kdbus-i7-2014.csv");
/// Eric Dumazet on linux-kernel, 6 November 2006.
pub const EPOLL_2006: &str = include_str!("../../data/epoll-2006.csv");
/// Jesper Dangaard Brouer on linux-kernel, 17 December 2014.
pub const SLAB_TEST_2014: &str = include_str!("../../data/slab_test-2014.csv");
/// The output of time_bench, 2014.
pub const TIME_BENCH_2014: &str = include_str!("../../data/time_bench-2014.csv");
/// Alban Crequy's articles on D-Bus, 15 September 2010 to 25 February 2011.
pub const DBUS_2011: &str = include_str!("../../data/dbus-2011.csv");
/// The slides of akbench, 2025.
pub const AKBENCH_2025: &str = include_str!("../../data/akbench-2025.csv");

/// A line of a table.
pub struct Row(BTreeMap<String, String>);

impl Row {
    /// The text in a column; empty where the column is not there.
    pub fn text(&self, column: &str) -> &str {
        self.0.get(column).map_or("", String::as_str)
    }

    /// The number in a column.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).parse().ok()
    }
}

/// The lines of a table.
pub fn rows(table: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let heads = reader.headers().expect("the carried tables have heads").clone();
    let row = |record: csv::StringRecord| {
        Row(heads.iter().map(String::from).zip(record.iter().map(String::from)).collect())
    };
    reader.records().map(|record| row(record.expect("the carried tables are whole"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_2010_is_in_the_table() {
        assert_eq!(super::super::start_of_2010_s(), Some([11.87, 10.56]));
    }

    #[test]
    fn the_carried_tables_have_the_rows_and_columns_of_their_sources() {
        // 23 sizes in two placements with two harnesses; four settings for 15 s; 24 lines of two kernels; 7; 20; 30.
        for (table, count, texts, numbers) in [
            (
                KDBUS_2014,
                92,
                "harness placement",
                "payload_bytes copy_roundtrips_per_s memfd_roundtrips_per_s kdbus_max_roundtrips_per_s ibench_roundtrips_per_s speedup",
            ),
            (KDBUS_I7_2014, 3, "tool", "payload_bytes least_roundtrips_per_s most_roundtrips_per_s"),
            (EPOLL_2006, 60, "options", "second events_per_s"),
            (SLAB_TEST_2014, 48, "kernel section", "object_bytes count"),
            (
                TIME_BENCH_2014,
                7,
                "kernel test",
                "tsc_cycles_per_op ns_per_op period_s invoke_count tsc_interval",
            ),
            (DBUS_2011, 30, "measurement machine system unit", "value"),
            (AKBENCH_2025, 20, "family benchmark unit", "mean stddev"),
        ] {
            let rows = rows(table);
            assert_eq!(rows.len(), count, "{}", &table[..40]);
            for row in &rows {
                assert!(texts.split(' ').all(|column| !row.text(column).is_empty()), "{:?}", row.0);
                let is_number = |column| row.number(column).is_some_and(|number| number > 0.0);
                assert!(numbers.split(' ').all(is_number), "{:?}", row.0);
            }
        }
    }
}
