//! An object store behind an address: a folder, S3, Google's or Azure's.
//!
//! Credentials and endpoints come from the environment, in the variables that each provider's own tools read.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme,
    PutPayload, RetryConfig,
};
use url::Url;

use crate::failure::{Exit, Failure};
use crate::rows::Record;
use crate::schema::VERSION;

/// How long a request may take until it is made again.
const REQUEST: Duration = Duration::from_secs(30);
/// Variables that name a server of the operator's own.
const ENDPOINTS: [&str; 6] = [
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AZURE_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "GOOGLE_BASE_URL",
];
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Where records of a fleet are.
#[derive(Clone, Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    root: Path,
    url: Url,
    patience: Duration,
}

/// A name in the store, below its address.
pub type Name = String;

/// The name of a record as it was.
pub fn raw_name(record: &Record) -> Name {
    format!("v{VERSION}/raw/{}/{}.jsonl.zst", partition(record), record.id)
}

/// The name of its rows.
pub fn results_name(record: &Record) -> Name {
    format!("v{VERSION}/results/{}/{}.parquet", partition(record), record.id)
}

fn partition(record: &Record) -> String {
    format!("campaign={}/day={}", plain(record.campaign()), record.day())
}

/// As a part of a name that no engine has to unescape.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

impl Store {
    /// Opens an address; a plain path is a folder. A request that fails is made again for that long.
    ///
    /// # Errors
    /// One sentence, where the address means nothing or credentials cannot be read.
    pub fn open(address: &str, patience: Duration) -> Result<Store, Failure> {
        let refused = |why: &dyn std::fmt::Display| Failure::hopeless(format!("{address}: {why}"));
        let url = match Url::parse(address) {
            Ok(url) => url,
            Err(_) if !address.contains("://") => folder(address).map_err(|why| refused(&why))?,
            Err(error) => return Err(refused(&error)),
        };
        let (scheme, path) = ObjectStoreScheme::parse(&url)
            .map_err(|_| refused(&"no address of a store; it is a folder, file://, s3://, gs:// or az://"))?;
        let retry = RetryConfig {
            backoff: BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 },
            max_retries: 3,
            retry_timeout: patience,
        };
        let is_local = |name: &str| std::env::var(name).is_ok_and(|endpoint| endpoint.starts_with("http://"));
        let is_plain_http = ENDPOINTS.into_iter().any(is_local);
        let client = ClientOptions::new()
            .with_timeout(REQUEST)
            .with_connect_timeout(Duration::from_secs(5))
            .with_allow_http(is_plain_http);
        // The builders have methods of the same names, and no trait in common.
        macro_rules! built {
            ($builder:ident) => {{
                let builder = $builder::from_env().with_url(address).with_retry(retry);
                Arc::new(builder.with_client_options(client).build().map_err(|error| refused(&error))?)
            }};
        }
        let objects: Arc<dyn ObjectStore> = match scheme {
            ObjectStoreScheme::Local => {
                let path = url.to_file_path().map_err(|()| refused(&"no path of a file"))?;
                let at = |error: std::io::Error| refused(&error);
                std::fs::create_dir_all(&path).map_err(at)?;
                let local = LocalFileSystem::new_with_prefix(&path).map_err(|error| refused(&error))?;
                return Ok(Store { objects: Arc::new(local), root: Path::default(), url, patience });
            }
            ObjectStoreScheme::Memory => Arc::new(object_store::memory::InMemory::new()),
            ObjectStoreScheme::AmazonS3 => built!(AmazonS3Builder),
            ObjectStoreScheme::GoogleCloudStorage => built!(GoogleCloudStorageBuilder),
            ObjectStoreScheme::MicrosoftAzure => built!(MicrosoftAzureBuilder),
            _ => {
                return Err(refused(
                    &"no store that this program writes to; it is a folder, file://, s3://, gs:// or az://",
                ));
            }
        };
        let root = Path::parse(&path).map_err(|error| refused(&error))?;
        Ok(Store { objects, root, url, patience })
    }

    /// The address as it may be shown.
    pub fn shown(&self) -> String {
        crate::secrets::hidden(self.url.as_str())
    }

    /// The address.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What answers.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        self.objects.clone()
    }

    /// Where a name is.
    pub fn place(&self, name: &str) -> Path {
        self.root.parts().chain(Path::from(name).parts()).collect()
    }

    /// The name of a place.
    pub fn name(&self, place: &Path) -> Name {
        let below = place.prefix_match(&self.root).map(|parts| parts.collect::<Path>());
        below.unwrap_or_else(|| place.clone()).to_string()
    }

    /// The size of an object; nothing where there is none.
    ///
    /// # Errors
    /// Where the store is away or refuses.
    pub async fn size(&self, name: &str) -> Result<Option<u64>, Failure> {
        let place = self.place(name);
        match self.again(|| self.objects.head(&place)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.failed("cannot look for", name, &error)),
        }
    }

    /// Puts an object there, in the place of one of that name.
    ///
    /// # Errors
    /// Where the store is away or refuses.
    pub async fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), Failure> {
        let place = self.place(name);
        let payload = PutPayload::from(bytes);
        // The only mode that may be repeated after an answer was lost: `Create` then finds what it has written itself.
        let put = self.again(|| self.objects.put(&place, payload.clone())).await;
        put.map(drop).map_err(|error| self.failed("cannot write", name, &error))
    }

    /// The bytes of an object.
    ///
    /// # Errors
    /// Where the store is away or refuses, or there is no such object.
    pub async fn get(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let place = self.place(name);
        let read = || async { self.objects.get(&place).await?.bytes().await };
        let bytes = self.again(read).await;
        bytes.map(Into::into).map_err(|error| self.failed("cannot read", name, &error))
    }

    /// All objects below a prefix, by name.
    ///
    /// # Errors
    /// Where the store is away or refuses.
    pub async fn list(&self, prefix: &str) -> Result<Vec<ObjectMeta>, Failure> {
        let place = self.place(prefix);
        let list = || self.objects.list(Some(&place)).try_collect::<Vec<_>>();
        let mut all = self.again(list).await.map_err(|error| self.failed("cannot list", prefix, &error))?;
        all.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(all)
    }

    /// What the client repeats by itself are times out, lost connections and 5xx; other answers that may change are repeated here.
    async fn again<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Error> {
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match request().await {
                Err(error) if kind(&error) == Kind::Away && start.elapsed() + pause < self.patience => {
                    tokio::time::sleep(pause + jitter(pause)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                ended => return ended,
            }
        }
    }

    /// That an object cannot be used.
    pub fn left_out(&self, name: &str, why: impl std::fmt::Display) -> Failure {
        Failure::hopeless(format!("{name} in {}: {why}; it is left out", self.shown()))
    }

    fn failed(&self, what: &str, name: &str, error: &Error) -> Failure {
        let of = format!("{what} {name} in {}", self.shown());
        let why = brief(&chain(error));
        match kind(error) {
            Kind::Refused => Failure::hopeless(format!(
                "{of}: the store refuses it; it reads credentials from the environment ({}): {why}",
                variables(&self.url)
            )),
            Kind::NotFound => Failure::hopeless(format!("{of}: not found: {why}")),
            Kind::Away => {
                Failure::new(Exit::Again, format!("{of}: the store is away, try again later: {why}"))
            }
            Kind::Hopeless => Failure::hopeless(format!("{of}: {why}")),
        }
    }
}

/// Without the document in which a store explains itself: its code is enough.
fn brief(why: &str) -> String {
    let Some((before, document)) = why.split_once(": <") else { return why.into() };
    let code = document.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map_or_else(|| before.into(), |(code, _)| format!("{before} ({code})"))
}

/// What an error means for who would try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Away,
    Refused,
    NotFound,
    Hopeless,
}

fn kind(error: &Error) -> Kind {
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Kind::Refused,
        Error::NotFound { .. } => Kind::NotFound,
        // What the client calls "exists already" is an answer 409, which a store also gives to who comes together with another writer.
        Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::JoinError { .. } => Kind::Away,
        // Of a list it tells no more than the status.
        Error::Generic { .. } => match status(error) {
            Some(401 | 403) => Kind::Refused,
            Some(404) => Kind::NotFound,
            Some(408 | 409 | 412 | 429) | None => Kind::Away,
            Some(400..500) => Kind::Hopeless,
            Some(_) => Kind::Away,
        },
        _ => Kind::Hopeless,
    }
}

/// The status of an answer that is told in words.
fn status(error: &Error) -> Option<u16> {
    let text = chain(error);
    text.split_once("status code: ")?.1.get(..3)?.parse().ok()
}

/// So that ten thousand machines that begin together do not come back together.
fn jitter(pause: Duration) -> Duration {
    let nanoseconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |of| of.subsec_nanos());
    let mixed =
        (u64::from(nanoseconds) ^ (u64::from(std::process::id()) << 20)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    pause.mul_f64((mixed >> 11) as f64 / (1_u64 << 53) as f64)
}

/// An error with its causes, each once.
fn chain(error: &Error) -> String {
    let mut out = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let text = cause.to_string();
        if !out.contains(&text) {
            out = format!("{out}: {text}");
        }
        source = cause.source();
    }
    out
}

fn variables(url: &Url) -> &'static str {
    match url.scheme() {
        "gs" => "GOOGLE_SERVICE_ACCOUNT and its like",
        "az" | "abfs" | "abfss" | "azure" | "adl" => {
            "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and their like"
        }
        "file" => "here the rights of the user",
        _ => "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT",
    }
}

fn folder(path: &str) -> Result<Url, String> {
    let whole = std::path::absolute(path).map_err(|error| error.to_string())?;
    Url::from_directory_path(&whole).map_err(|()| "no path of a folder".into())
}
