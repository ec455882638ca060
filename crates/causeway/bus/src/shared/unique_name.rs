//! The numbers of connections in shared memory, and the names that connections have by them.

use causeway_dbus_wire::driver::DRIVER;

use super::AUTHORITY_ID;

/// Number of the first connection, whose unique name is `:1.0`.
pub const FIRST_ID: u64 = AUTHORITY_ID + 1;
/// Numbers from here on are those of clients that have not said Hello, and have no unique name.
pub const FIRST_UNNAMED_ID: u64 = 1 << 60;
/// What messages name as the sender that has not said Hello: nobody can have this name.
pub const UNNAMED: &str = ":not.active.yet";

const PREFIX: &str = ":1.";

/// The unique name of the connection with this number.
pub fn unique_name(id: u64) -> String {
    // Of a number below the first, which is read from memory that is wild, it is a name that nobody has.
    if id >= FIRST_UNNAMED_ID { UNNAMED.into() } else { format!("{PREFIX}{}", id.wrapping_sub(FIRST_ID)) }
}

/// The number of the connection with this unique name.
pub fn unique_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number: u64 = digits.parse().ok()?;
    // As it is written on the bus: without a sign, or zeros before it.
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    number.checked_add(FIRST_ID).filter(|id| is_plain && *id < FIRST_UNNAMED_ID)
}

/// The name by which messages name a sender: the bus itself has its well-known name only.
pub fn name_of(id: u64) -> String {
    if id == AUTHORITY_ID { DRIVER.into() } else { unique_name(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_one_name_and_what_is_none_has_no_number() {
        assert_eq!((unique_name(FIRST_ID), unique_number(":1.0")), (":1.0".into(), Some(FIRST_ID)));
        for id in [FIRST_ID, 9, FIRST_UNNAMED_ID - 1] {
            assert_eq!(unique_number(&unique_name(id)), Some(id));
        }
        for none in [0, AUTHORITY_ID, FIRST_UNNAMED_ID, u64::MAX] {
            assert_eq!(unique_number(&unique_name(none)), None, "{none}");
        }
        for other in [
            ":1.07",
            ":1.+7",
            ":1.",
            ":2.7",
            ":1.7.1",
            "1.7",
            ":1.1152921504606846974",
            ":1.99999999999999999999",
        ] {
            assert_eq!(unique_number(other), None, "{other}");
        }
        assert_eq!((name_of(AUTHORITY_ID).as_str(), name_of(7).as_str()), (DRIVER, ":1.5"));
    }
}
