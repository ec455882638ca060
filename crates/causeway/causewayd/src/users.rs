//! Names of users and groups to their numbers, from the files that every system has. Directories of other kinds are not asked:
//! they may wait for a network.

/// The number of a user, who is given by name or number.
pub fn uid(user: &str) -> Option<u32> {
    number("/etc/passwd", user)
}

/// The number of a group, which is given by name or number.
pub fn gid(group: &str) -> Option<u32> {
    number("/etc/group", group)
}

/// A user, its own group, and the further groups that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Account {
    /// Of a user that is given by name or number; nothing if the table has none.
    pub fn of(user: &str) -> Option<Account> {
        Account::in_tables(
            user,
            &std::fs::read_to_string("/etc/passwd").ok()?,
            &std::fs::read_to_string("/etc/group").ok()?,
        )
    }

    fn in_tables(user: &str, users: &str, groups: &str) -> Option<Account> {
        let is_it = |parts: &Vec<&str>| parts[0] == user || parts.get(2) == Some(&user);
        let parts = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(is_it)?;
        let (name, uid, gid) = (parts[0], parts.get(2)?.parse().ok()?, parts.get(3)?.parse().ok()?);
        let with_it = |line: &str| {
            let parts: Vec<&str> = line.split(':').collect();
            let has_it = parts.get(3)?.split(',').any(|member| member == name);
            if has_it { parts[2].parse().ok() } else { None }
        };
        let others = groups.lines().filter_map(with_it).filter(|other| *other != gid);
        Some(Account { uid, gid, groups: std::iter::once(gid).chain(others).collect() })
    }
}

fn number(table: &str, name: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    let text = std::fs::read_to_string(table).ok()?;
    let mut entries = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    entries.find(|parts| parts[0] == name)?.get(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn a_user_has_its_group_and_those_that_name_it() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbus:x:100:102::/nonexistent:/usr/sbin/nologin\n";
        let groups = "root:x:0:\nbus:x:102:\naudit:x:7:bus,other\nwheel:x:8:others\n";
        let account = Account { uid: 100, gid: 102, groups: vec![102, 7] };
        for user in ["bus", "100"] {
            assert_eq!(Account::in_tables(user, users, groups), Some(account.clone()));
        }
        assert_eq!(Account::in_tables("other", users, groups), None);
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_by_number() {
        assert_eq!((super::uid("17"), super::gid("18")), (Some(17), Some(18)));
        assert_eq!(super::uid("no such user"), None);
        if std::fs::read_to_string("/etc/passwd").is_ok_and(|text| text.starts_with("root:x:0:")) {
            assert_eq!(super::uid("root"), Some(0));
        }
    }
}
