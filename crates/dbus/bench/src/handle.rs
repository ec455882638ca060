//! What the coordinator hands to a role in addition to descriptors: the broker's process and some names, as the plain numbers that an assignment
//! carries.

use std::io;

use weighbridge_harness::contract::EndResources;
use weighbridge_harness::params::CaseParams;

/// What a role knows of its bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerHandle {
    pub pid: u32,
    pub version: String,
    /// Unique name of the connection to which this role sends, where it sends to one.
    pub partner: String,
    /// Address of the broker, for a library that connects by itself.
    pub address: String,
}

impl BrokerHandle {
    /// As numbers: the process, then each text with its length in front. Peers of other builds read them: see
    /// [`PROTOCOL`](weighbridge_harness::peer::PROTOCOL).
    pub fn into_words(self) -> Vec<u64> {
        let mut words = vec![self.pid.into()];
        for text in [self.version, self.partner, self.address] {
            words.push(text.len() as u64);
            words.extend(text.bytes().map(u64::from));
        }
        words
    }

    pub fn of(resources: &EndResources) -> io::Result<BrokerHandle> {
        BrokerHandle::of_words(&resources.words)
    }

    /// The same of a role of a case, which has both ends in the pattern `self`; of these the near end's.
    pub fn of_role(resources: &EndResources, params: &CaseParams) -> io::Result<BrokerHandle> {
        let has_both = params.id.pattern == "self";
        BrokerHandle::of_words(if has_both { resources.near_words() } else { &resources.words })
    }

    fn of_words(words: &[u64]) -> io::Result<BrokerHandle> {
        let mut words = words.iter().copied();
        let mut read = || {
            let pid = u32::try_from(words.next()?).ok()?;
            let mut text = || {
                let len = usize::try_from(words.next()?).ok()?;
                let bytes: Vec<u8> =
                    words.by_ref().take(len).map_while(|word| u8::try_from(word).ok()).collect();
                String::from_utf8(bytes).ok().filter(|text| text.len() == len)
            };
            Some(BrokerHandle { pid, version: text()?, partner: text()?, address: text()? })
        };
        read().ok_or_else(|| io::Error::other("the resources of this role do not name a broker"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_comes_back_and_anything_else_is_refused() {
        let broker = BrokerHandle {
            pid: 77,
            version: "1.14.10".into(),
            partner: ":1.2".into(),
            address: "unix:abstract=a".into(),
        };
        let words = broker.clone().into_words();
        let of = |words: &[u64]| {
            BrokerHandle::of(&EndResources { words: words.into(), ..EndResources::default() })
        };
        assert_eq!(of(&words).unwrap(), broker);
        for end in 0..words.len() {
            assert!(of(&words[..end]).is_err(), "cut after {end}");
        }
    }
}
