//! Servers that tests start for themselves.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use causeway_testkit::{Running, eventually};

use super::programs::python_has;

/// Moto's S3, with a bucket.
pub struct S3 {
    pub address: SocketAddr,
    _server: Running,
}

pub const BUCKET: &str = "fleet";

/// A port that nobody has now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl S3 {
    /// `None`, with the skip printed, where moto is not installed: `pip install 'moto[server]'`.
    pub fn start() -> Option<S3> {
        if !python_has("python:moto.server") {
            return None;
        }
        let port = free_port();
        let mut command = Command::new("python3");
        command
            .args(["-m", "moto.server", "-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Running::start(&mut command);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        eventually("moto answers", || TcpStream::connect(address).is_ok());
        let s3 = S3 { address, _server: server };
        assert!(s3.ask("PUT", &format!("/{BUCKET}")).starts_with("HTTP/1.1 200"));
        Some(s3)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The whole answer to a request without a body.
    pub fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let host = self.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Names and entity tags of all objects below a prefix.
    pub fn objects(&self, prefix: &str) -> Vec<(String, String)> {
        let answer = self.ask("GET", &format!("/{BUCKET}?list-type=2&max-keys=1000&prefix={prefix}"));
        let between = |text: &str, tag: &str| {
            let from = text.split_once(&format!("<{tag}>"))?.1;
            Some(from.split_once(&format!("</{tag}>"))?.0.to_owned())
        };
        let all = answer.split("<Contents>").skip(1);
        all.map(|object| (between(object, "Key").unwrap(), between(object, "ETag").unwrap())).collect()
    }
}
