//! Azure's store, by Microsoft's emulator of it. There is no like of Google's: fake-gcs-server takes no name with slashes by the interface that
//! the client speaks.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use causeway_testkit::{Running, eventually, has_program, temp_dir};

use crate::push::{ends_with, program, pushed, spool, text};
use crate::support::proxy::{Fate, Proxy};
use crate::support::servers::{BUCKET, free_port};
use crate::support::world::{Kind, World};

/// The account and key that Azurite documents.
const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Makes a container, which takes a signed request.
const CONTAINER: &str = r"
import base64, email.utils, hashlib, hmac, sys, urllib.request
url, account, key, name = sys.argv[1:]
headers = {'x-ms-date': email.utils.formatdate(usegmt=True), 'x-ms-version': '2021-08-06'}
lines = [f'{name}:{value}' for name, value in headers.items()]
signed = '\n'.join(['PUT', *[''] * 11, *lines, f'/{account}/{account}/{name}', 'restype:container'])
mac = base64.b64encode(hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()).decode()
headers['Authorization'] = f'SharedKey {account}:{mac}'
urllib.request.urlopen(urllib.request.Request(f'{url}/{account}/{name}?restype=container', method='PUT', headers=headers))
";

fn with_azure(endpoint: &str, key: &str) -> Command {
    let mut command = program();
    command.env("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT).env("AZURE_STORAGE_ACCOUNT_KEY", key);
    command.env("AZURE_STORAGE_USE_EMULATOR", "true").env("AZURITE_BLOB_STORAGE_URL", endpoint);
    command
}

#[test]
fn azure_keeps_records_as_a_folder_does_and_refuses_in_one_sentence() {
    if !has_program("azurite-blob") || !has_program("python3") {
        return;
    }
    let folder = temp_dir("azure");
    let port = free_port();
    let mut command = Command::new("azurite-blob");
    command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry", "--blobHost", "127.0.0.1"]);
    command.arg("--location").arg(folder.path().join("azurite")).args(["--blobPort", &port.to_string()]);
    let _server = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    eventually("Azurite answers", || TcpStream::connect(address).is_ok());
    let whole = format!("http://{address}");
    let made =
        Command::new("python3").args(["-c", CONTAINER, &whole, ACCOUNT, KEY, BUCKET]).output().unwrap();
    ends_with(&made, 0);

    let spool = spool(folder.path(), &World::new(Kind::Normal, 3, 3, 1));
    let push = |endpoint: &str, prefix: &str| {
        let mut command = with_azure(endpoint, KEY);
        command.arg("push").arg(format!("az://{BUCKET}/{prefix}")).arg(&spool).output().unwrap()
    };
    assert!(ends_with(&push(&whole, "whole"), 0).contains("3 new, 0 there already"));
    assert!(ends_with(&push(&whole, "whole"), 0).contains("0 new, 3 there already"));
    let faults = [Fate::Answer(503), Fate::LoseAnswer, Fate::Answer(429), Fate::LoseRequest];
    let proxy = Proxy::new(address, move |number| {
        if number < 16 && number % 2 == 0 { faults[number / 2 % faults.len()] } else { Fate::Pass }
    });
    ends_with(&push(&proxy.url(), "faulty"), 0);
    assert!(proxy.requests() > 16, "{}", proxy.requests());

    let store = folder.path().join("store");
    pushed(&store, &spool);
    let query = "SELECT record_id, day, case_id, value FROM results ORDER BY record_id, case_id";
    let ask = |mut command: Command, store: &str| {
        let output = command.args(["sql", store, query, "--format", "csv"]).output().unwrap();
        ends_with(&output, 0);
        text(&output.stdout)
    };
    let local = ask(program(), store.to_str().unwrap());
    assert_eq!(local.lines().count(), 10, "{local}");
    for prefix in ["whole", "faulty"] {
        assert_eq!(ask(with_azure(&whole, KEY), &format!("az://{BUCKET}/{prefix}")), local);
        let report =
            with_azure(&whole, KEY).args(["report", &format!("az://{BUCKET}/{prefix}")]).output().unwrap();
        assert!(ends_with(&report, 0).contains("3 machines, 3 boots, 3 sessions"));
    }

    let wrong = KEY.replacen("Eby8", "8ybE", 1);
    for (key, container, why) in
        [(&wrong, BUCKET, "(AuthorizationFailure)"), (&KEY.into(), "none", "(ContainerNotFound)")]
    {
        let url = format!("az://{container}/x");
        let said = ends_with(&with_azure(&whole, key).args(["report", &url]).output().unwrap(), 2);
        assert!(said.contains(why) && said.trim().lines().count() == 1 && !said.contains(key), "{said}");
    }
}
