//! The smallest HTTP client that can scrape.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Status code.
    pub(crate) status: u16,
    /// Header lines as received, without the status line.
    pub(crate) headers: String,
    /// The body.
    pub(crate) body: String,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("no JSON ({e}): {}", self.body))
    }
}

/// `GET path`.
pub(crate) async fn get(addr: SocketAddr, path: &str) -> Answer {
    request(addr, "GET", path).await.unwrap_or_else(|e| panic!("GET {path} at {addr}: {e}"))
}

/// One request over a connection of its own.
pub(crate) async fn request(addr: SocketAddr, method: &str, path: &str) -> std::io::Result<Answer> {
    request_as(addr, "HTTP/1.1", method, path).await
}

/// As [`request`]; an answer to `HTTP/1.0` is never sent in chunks, which this client cannot read.
pub(crate) async fn request_as(
    addr: SocketAddr,
    version: &str,
    method: &str,
    path: &str,
) -> std::io::Result<Answer> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await?;
        let head =
            format!("{method} {path} {version}\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = tokio::time::timeout(ANSWER_MAX, exchange)
        .await
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??;
    let bad = || std::io::Error::other(format!("no HTTP answer: {text:?}"));
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(bad)?;
    let (status, headers) = head.split_once("\r\n").ok_or_else(bad)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(bad)?;
    Ok(Answer { status, headers: headers.to_lowercase(), body: body.to_owned() })
}
