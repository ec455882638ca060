//! The session with Zenoh: a client of a router, or a peer on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use zenoh::{Config, Session, Wait};

use crate::failure::{Failure, Result};
use crate::keys::{self, Realm};
use crate::status::{Status, log};
use crate::wire::host_id;

/// How often a router that is not there is looked for.
const RETRY: Duration = Duration::from_millis(500);

/// Where the session goes, and as whom.
#[derive(Clone, Debug)]
pub struct Place {
    /// Bridges of one realm hear each other.
    pub realm: String,
    /// The name of this host in it.
    pub host: String,
    /// Routers, one of which is used at a time.
    pub routers: Vec<String>,
    /// Where to listen without a router.
    pub listen: Vec<String>,
    /// After this time without a sign of life, an end counts as gone.
    pub lease: Duration,
    /// The folder with certificates, if there are any.
    pub tls: Option<PathBuf>,
}

/// The session of a bridge.
#[derive(Debug)]
pub struct Net {
    /// Zenoh.
    pub session: Session,
    /// The keys of the realm.
    pub realm: Realm,
    /// The name of this host.
    pub host: String,
    /// Its number.
    pub id: u64,
    /// Which of all processes that were the bridge of this host.
    pub incarnation: u32,
    /// See [`Place::lease`].
    pub lease: Duration,
}

impl Place {
    /// The settings of the session.
    pub fn config(&self) -> Result<Config> {
        let mut config = Config::default();
        let mut set = |key: &str, value: serde_json::Value| {
            config
                .insert_json5(key, &value.to_string())
                .map_err(|error| Failure::Usage(format!("Zenoh does not take {value} for {key}: {error}")))
        };
        let is_client = !self.routers.is_empty();
        set("mode", json!(if is_client { "client" } else { "peer" }))?;
        set("scouting/gossip/enabled", json!(false))?;
        set("scouting/multicast/enabled", json!(!is_client && self.listen.is_empty()))?;
        set("scouting/multicast/interface", json!("lo"))?;
        if is_client {
            set("connect/endpoints", json!(self.routers))?;
        } else {
            let loopback = vec!["tcp/127.0.0.1:0".to_owned()];
            set("listen/endpoints", json!(if self.listen.is_empty() { &loopback } else { &self.listen }))?;
        }
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX).max(100);
        set("transport/link/tx/lease", json!(lease_ms))?;
        if let Some(folder) = &self.tls {
            for (key, value) in tls_settings(folder) {
                set(&key, value)?;
            }
        }
        Ok(config)
    }

    /// Opens the session. Where no router answers, it says so and waits, until `stop` is set: nothing local has begun then.
    pub fn open(&self, status: &Status, stop: &AtomicBool) -> Result<Option<Arc<Net>>> {
        let config = self.config()?;
        let session = loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            match zenoh::open(config.clone()).wait() {
                Ok(session) => break session,
                Err(error) => {
                    // Where that is in Zenoh's source is left out.
                    let why = error.to_string();
                    status.fail(&format!(
                        "no router at {} ({}); trying again, and nothing local waits for it",
                        self.routers.join(", "),
                        why.split(" at /").next().unwrap_or_default().trim_end()
                    ));
                    std::thread::sleep(RETRY);
                }
            }
        };
        status.is_connected.store(true, Ordering::Relaxed);
        log(&format!("realm {}, host {}: connected", self.realm, self.host));
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Some(Arc::new(Net {
            session,
            realm: Realm::new(&self.realm),
            host: self.host.clone(),
            id: host_id(&self.host),
            // It tells two processes apart, and orders nothing: clocks differ.
            incarnation: (since.as_millis() as u32) ^ std::process::id().rotate_left(20),
            lease: self.lease,
        })))
    }
}

/// Where the certificates of a folder are, as settings of Zenoh for both ends of a connection.
pub fn tls_settings(folder: &Path) -> Vec<(String, serde_json::Value)> {
    let files = [
        ("root_ca_certificate", "ca.pem"),
        ("connect_certificate", "cert.pem"),
        ("connect_private_key", "key.pem"),
        ("listen_certificate", "cert.pem"),
        ("listen_private_key", "key.pem"),
    ];
    let mut settings: Vec<_> =
        files.map(|(key, file)| (format!("transport/link/tls/{key}"), json!(folder.join(file)))).into();
    settings.push(("transport/link/tls/enable_mtls".into(), json!(true)));
    settings
}

impl Net {
    /// Whether there is a router or another bridge.
    pub fn is_connected(&self) -> bool {
        let info = self.session.info();
        info.routers_zid().wait().next().is_some() || info.peers_zid().wait().next().is_some()
    }

    /// The realms of other bridges that can be seen from here; a sentence if there are some, and none is ours.
    pub fn other_realms(&self) -> Option<String> {
        let found =
            self.session.liveliness().get(Realm::all_hosts()).timeout(Duration::from_secs(2)).wait().ok()?;
        let own = self.realm.host(&self.host);
        let mut others = std::collections::BTreeSet::new();
        for reply in found {
            let Ok(sample) = reply.into_result() else { continue };
            let key = sample.key_expr().as_str();
            let realm = key.split('/').nth(2).unwrap_or("");
            if key == own {
                continue;
            }
            if own.split('/').nth(2) == Some(realm) {
                return None;
            }
            others.insert(keys::name(realm).unwrap_or_else(|| realm.to_owned()));
        }
        let own = own.split('/').nth(2).and_then(keys::name).unwrap_or_default();
        (!others.is_empty()).then(|| {
            let others = others.into_iter().collect::<Vec<_>>().join(", ");
            format!("there are bridges here, but of the realm {others} and none of {own}: give both ends the same --realm")
        })
    }
}
