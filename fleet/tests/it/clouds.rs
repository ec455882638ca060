//! Stores of Google and Azure, by emulators of them where there are any: fsouza's fake-gcs-server and Microsoft's Azurite. Neither checks what the
//! real ones do of credentials.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use causeway_testkit::{Running, TempDir, eventually, skipped, temp_dir};

use crate::push::{ends_with, program, spool};
use crate::support::programs::is_on_path;
use crate::support::proxy::{Fate, Proxy};
use crate::support::servers::{BUCKET, ask, free_port};
use crate::support::world::{Kind, World};

/// A store that is emulated, for as long as this is there.
struct Cloud {
    scheme: &'static str,
    address: SocketAddr,
    /// What its own tools read, for an address of its server.
    variables: fn(&str) -> Vec<(&'static str, String)>,
    _server: Running,
    _folder: TempDir,
}

fn started(command: &mut Command, port: u16) -> (Running, SocketAddr) {
    let server = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    eventually("the emulator answers", || std::net::TcpStream::connect(address).is_ok());
    (server, address)
}

fn google() -> Option<Cloud> {
    if !is_on_path("fake-gcs-server") {
        skipped(
            "fake-gcs-server is not on PATH: `go install github.com/fsouza/fake-gcs-server@latest` brings it",
        );
        return None;
    }
    let folder = temp_dir("google");
    let port = free_port();
    let mut command = Command::new("fake-gcs-server");
    let words = ["-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port"];
    let (server, address) = started(command.args(words).arg(port.to_string()), port);
    let made = ask(address, "POST", "/storage/v1/b?project=test", &format!("{{\"name\":\"{BUCKET}\"}}"));
    assert!(made.starts_with("HTTP/1.1 200"), "{made}");
    let variables = |endpoint: &str| {
        // A key that asks nobody for a token.
        let key = "{\"private_key\":\"none\",\"private_key_id\":\"none\",\"client_email\":\"none\",\"disable_oauth\":true}";
        vec![("GOOGLE_BASE_URL", endpoint.to_owned()), ("GOOGLE_SERVICE_ACCOUNT_KEY", key.to_owned())]
    };
    Some(Cloud { scheme: "gs", address, variables, _server: server, _folder: folder })
}

/// The account and key that Azurite documents.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Makes a container, which takes a signed request.
const CONTAINER: &str = "
import base64, email.utils, hashlib, hmac, sys, urllib.request
url, account, key, name = sys.argv[1:]
date = email.utils.formatdate(usegmt=True)
signed = 'PUT' + '\\n' * 12 + f'x-ms-date:{date}\\nx-ms-version:2021-08-06\\n/{account}/{account}/{name}\\nrestype:container'
mac = base64.b64encode(hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()).decode()
headers = {'x-ms-date': date, 'x-ms-version': '2021-08-06', 'Authorization': f'SharedKey {account}:{mac}'}
urllib.request.urlopen(urllib.request.Request(f'{url}/{account}/{name}?restype=container', method='PUT', headers=headers))
";

fn azure() -> Option<Cloud> {
    if !is_on_path("azurite-blob") {
        skipped("Azurite is not on PATH: `npm install azurite` brings azurite-blob");
        return None;
    }
    let folder = temp_dir("azure");
    let port = free_port();
    let mut command = Command::new("azurite-blob");
    command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1"]);
    command.arg("--location").arg(folder.path()).args(["--blobPort", &port.to_string()]);
    let (server, address) = started(&mut command, port);
    let words = [&format!("http://{address}"), ACCOUNT, KEY, BUCKET];
    ends_with(&Command::new("python3").args(["-c", CONTAINER]).args(words).output().unwrap(), 0);
    let variables = |endpoint: &str| {
        let account = [
            ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
        ];
        let emulator =
            [("AZURE_STORAGE_USE_EMULATOR", "true".into()), ("AZURITE_BLOB_STORAGE_URL", endpoint.into())];
        account.into_iter().chain(emulator).collect()
    };
    Some(Cloud { scheme: "az", address, variables, _server: server, _folder: folder })
}

impl Cloud {
    fn program(&self, endpoint: &str) -> Command {
        let mut command = program();
        command.envs((self.variables)(endpoint));
        command
    }

    fn url(&self, prefix: &str) -> String {
        format!("{}://{BUCKET}/{prefix}", self.scheme)
    }
}

#[test]
fn google_and_azure_keep_records_as_a_folder_does_and_fail_in_the_same_words() {
    for cloud in [google(), azure()].into_iter().flatten() {
        let folder = temp_dir("fleet");
        let spool = spool(folder.path(), &World::new(Kind::Normal, 3, 3, 1));
        let whole = format!("http://{}", cloud.address);
        let push = |endpoint: &str, prefix: &str, patience: &str| {
            let mut command = cloud.program(endpoint);
            command.args(["push", &cloud.url(prefix), spool.to_str().unwrap(), "--patience", patience]);
            command.output().unwrap()
        };
        assert!(ends_with(&push(&whole, "fleet", "60"), 0).contains("3 new, 0 there already"));
        assert!(ends_with(&push(&whole, "fleet", "60"), 0).contains("0 new, 3 there already"));
        // The client repeats what failed, whose name is then there once.
        let faults = [Fate::Answer(503), Fate::LoseAnswer, Fate::Answer(429), Fate::LoseRequest];
        let proxy = Proxy::new(cloud.address, move |number, _, _| {
            if number < 16 && number % 2 == 0 { faults[number / 2 % faults.len()] } else { Fate::Pass }
        });
        ends_with(&push(&proxy.url(), "faulty", "60"), 0);
        assert!(proxy.requests() > 16, "{}", proxy.requests());

        let store = folder.path().join("store");
        ends_with(&program().arg("push").args([&store, &spool]).output().unwrap(), 0);
        let query = "SELECT record_id, day, case_id, value FROM results ORDER BY record_id, case_id";
        let ask = |mut command: Command, url: &str| {
            let output = command.args(["sql", url, query, "--format", "csv"]).output().unwrap();
            ends_with(&output, 0);
            String::from_utf8(output.stdout).unwrap()
        };
        let local = ask(program(), store.to_str().unwrap());
        assert_eq!(local.lines().count(), 10, "{local}");
        for prefix in ["fleet", "faulty"] {
            assert_eq!(ask(cloud.program(&whole), &cloud.url(prefix)), local, "{}", cloud.url(prefix));
        }
        let report = cloud.program(&whole).args(["report", &cloud.url("fleet")]).output().unwrap();
        assert!(ends_with(&report, 0).contains("3 machines, 3 boots, 3 sessions"));

        let refusing = Proxy::new(cloud.address, |_, _, _| Fate::Answer(403));
        let said = ends_with(&push(&refusing.url(), "a", "60"), 2);
        let variable = if cloud.scheme == "gs" { "GOOGLE_SERVICE" } else { "AZURE_STORAGE" };
        assert!(said.contains("the store refuses it") && said.contains(variable), "{said}");
        assert!(!said.contains(&KEY[..20]), "{said}");
        let away = Proxy::new(cloud.address, |_, _, _| Fate::Answer(503));
        let said = ends_with(&push(&away.url(), "b", "1"), 75);
        assert!(said.contains("try again later") && !said.contains(&KEY[..20]), "{said}");
    }
}
