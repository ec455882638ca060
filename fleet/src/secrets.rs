//! Credentials come from the environment and go nowhere: not into a record, not into the store, not into an error.

use std::env;

/// Variables of object stores whose values are secret.
const SECRET: [&str; 12] = [
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "AWS_ACCESS_KEY_ID",
];

/// Parts of a query whose values are secret.
const PARAMETERS: [&str; 5] =
    ["sig=", "X-Amz-Signature=", "X-Amz-Credential=", "X-Amz-Security-Token=", "token="];

/// Shorter values are words of any text.
const SHORTEST: usize = 8;

const HIDDEN: &str = "…";

/// The secrets of the environment: the name of the variable and its value.
fn known() -> Vec<(&'static str, String)> {
    let of = |name: &'static str| Some((name, env::var(name).ok().filter(|value| value.len() >= SHORTEST)?));
    SECRET.into_iter().filter_map(of).collect()
}

/// The variable whose value stands in these bytes.
pub fn found_in(bytes: &[u8]) -> Option<&'static str> {
    let stands = |value: &str| bytes.windows(value.len()).any(|part| part == value.as_bytes());
    known().into_iter().find(|(_, value)| stands(value)).map(|(name, _)| name)
}

/// A text without secrets: values of the environment, signatures in addresses, `user:password@`.
pub fn hidden(text: &str) -> String {
    let mut out = text.to_owned();
    for (_, value) in known() {
        out = out.replace(&value, HIDDEN);
    }
    for parameter in PARAMETERS {
        let mut parts = out.split(parameter);
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part
                .find(|c: char| c == '&' || c.is_whitespace() || "\"'`)".contains(c))
                .unwrap_or(part.len());
            whole.push_str(parameter);
            whole.push_str(HIDDEN);
            whole.push_str(&part[end..]);
        }
        out = whole;
    }
    without_passwords(&out)
}

fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority = part.find(|c: char| c == '/' || c.is_whitespace()).unwrap_or(part.len());
        let host = part[..authority].rfind('@').filter(|at| part[..*at].contains(':'));
        out.push_str("://");
        out.push_str(host.map_or("", |_| HIDDEN));
        out.push_str(&part[host.unwrap_or(0)..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_passwords_are_left_out_of_a_text() {
        let text = "PUT https://me:hunter2@host/a?x=1&sig=abc%3D&y=2 and \"s3://b/k?X-Amz-Signature=ff\" at s3://bucket/a@b:c";
        let shown = hidden(text);
        assert_eq!(
            shown,
            "PUT https://…@host/a?x=1&sig=…&y=2 and \"s3://b/k?X-Amz-Signature=…\" at s3://bucket/a@b:c"
        );
    }
}
