//! Certificates for a realm: an authority, and for each host a folder that `--tls` takes. A host is known by the common name of its
//! certificate, which is what access rules of Zenoh name.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::args::TlsArguments;
use crate::failure::{Failure, Result};
use crate::keys;
use crate::state::make_folder;
use crate::status::log;

const AUTHORITY: &str = "ca.pem";
const AUTHORITY_KEY: &str = "ca-key.pem";

/// Makes the certificates of hosts, and before that the authority if the folder has none.
pub fn make(arguments: &TlsArguments) -> Result<()> {
    let folder = &arguments.folder;
    make_folder(folder)?;
    if !folder.join(AUTHORITY).exists() {
        let key = KeyPair::generate().map_err(Failure::of)?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "causeway-bridge");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).map_err(Failure::of)?;
        write(&folder.join(AUTHORITY_KEY), &key.serialize_pem())?;
        write(&folder.join(AUTHORITY), &certificate.pem())?;
        log(&format!("made an authority in {}; keep {AUTHORITY_KEY} where no host has it", folder.display()));
    }
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read_to_string(&path).map_err(|error| Failure::on(&path, error))
    };
    let authority = read(AUTHORITY)?;
    let key = KeyPair::from_pem(&read(AUTHORITY_KEY)?).map_err(Failure::of)?;
    let issuer = Issuer::from_ca_cert_pem(&authority, key).map_err(Failure::of)?;
    for host in &arguments.hosts {
        let key = KeyPair::generate().map_err(Failure::of)?;
        let mut names = vec![host.clone(), "localhost".to_owned(), "127.0.0.1".to_owned()];
        names.extend(arguments.addresses.iter().cloned());
        let mut params =
            CertificateParams::new(names).map_err(|error| Failure::Usage(format!("{host}: {error}")))?;
        params.distinguished_name.push(DnType::CommonName, host.as_str());
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &issuer).map_err(Failure::of)?;
        let own = folder.join(keys::part(host));
        make_folder(&own)?;
        write(&own.join("key.pem"), &key.serialize_pem())?;
        write(&own.join("cert.pem"), &certificate.pem())?;
        write(&own.join(AUTHORITY), &authority)?;
        log(&format!("made {}, for --tls on host {host}", own.display()));
    }
    Ok(())
}

/// Writes a file that this user alone can read.
fn write(path: &Path, text: &str) -> Result<()> {
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
    let mut file = options.open(path).map_err(|error| Failure::on(path, error))?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::on(path, error))
}
