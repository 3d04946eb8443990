//! A client that speaks the protocol itself: it sends what no client library would.

use std::fmt::Write as _;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::harness::PATIENCE;
use crate::harness::nats::Nats;

/// A connection, and what the server has said on it.
pub struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    /// Without credentials.
    pub async fn connect(nats: &Nats) -> Self {
        Self::greeted(nats, "").await
    }

    /// As a user.
    pub async fn connect_as(nats: &Nats, user: &str, password: &str) -> Self {
        Self::greeted(nats, &format!(",\"user\":\"{user}\",\"pass\":\"{password}\"")).await
    }

    async fn greeted(nats: &Nats, credentials: &str) -> Self {
        let address = nats.url().replace("nats://", "");
        let mut stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        let mut greeting = String::new();
        stream.read_line(&mut greeting).await.unwrap();
        assert!(greeting.starts_with("INFO "), "{greeting}");
        let mut raw = Self { stream };
        let connect = format!("CONNECT {{\"verbose\":false,\"headers\":true{credentials}}}\r\n");
        raw.send(connect.as_bytes()).await;
        assert_eq!(raw.errors().await, Vec::<String>::new());
        raw
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    /// Waits until the server has taken everything sent so far, and returns what it complains of.
    pub async fn errors(&mut self) -> Vec<String> {
        self.send(b"PING\r\n").await;
        let mut errors = Vec::new();
        let pong = async {
            loop {
                let mut line = Vec::new();
                let read = self.stream.read_until(b'\n', &mut line).await.unwrap();
                assert!(read > 0, "the server hung up: {errors:?}");
                let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                if let Some(error) = line.strip_prefix("-ERR ") {
                    errors.push(error.to_owned());
                }
                if line.starts_with("PONG") {
                    return;
                }
                // A message has a body, which is skipped.
                if line.starts_with("MSG ") || line.starts_with("HMSG ") {
                    let bytes = line.rsplit(' ').next().and_then(|bytes| bytes.parse().ok());
                    let mut body = vec![0; bytes.unwrap_or(0) + 2];
                    self.stream.read_exact(&mut body).await.unwrap();
                }
            }
        };
        tokio::time::timeout(PATIENCE, pong).await.expect("the server answers");
        errors
    }

    /// One message with headers, as they are; `reply` may be empty.
    pub async fn publish(&mut self, subject: &[u8], reply: &str, headers: &[u8], body: &[u8]) {
        let mut frame = b"HPUB ".to_vec();
        frame.extend_from_slice(subject);
        let mut sizes = String::new();
        let _ = write!(sizes, " {reply} {} {}\r\n", headers.len(), headers.len() + body.len());
        frame.extend_from_slice(sizes.as_bytes());
        frame.extend_from_slice(headers);
        frame.extend_from_slice(body);
        frame.extend_from_slice(b"\r\n");
        self.send(&frame).await;
    }
}
