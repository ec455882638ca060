//! The number that tells this machine from others.

use std::path::PathBuf;

/// Where it is kept: systemd's file, and the one of D-Bus, which is older.
pub const FILES: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The number of this machine, as 32 hexadecimal digits; `None` if no file has one.
pub fn machine_id() -> Option<String> {
    FILES.into_iter().map(PathBuf::from).find_map(|file| id_in(&std::fs::read_to_string(file).ok()?))
}

fn id_in(text: &str) -> Option<String> {
    let id = text.trim();
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_thirty_two_hexadecimal_digits_are_a_number() {
        let id = "0123456789abcdef0123456789abcdef";
        assert_eq!(id_in(&format!("{id}\n")).as_deref(), Some(id));
        for text in ["", "uninitialized\n", &id[1..], &id.replace('f', "g")] {
            assert_eq!(id_in(text), None, "{text}");
        }
    }
}
