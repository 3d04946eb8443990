//! One request to a collector over HTTP/1.1, a connection each: at one request every half second
//! there is nothing to be gained by keeping it, and nothing that can have gone stale.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use super::collector::{Endpoint, TraceHeaders};
use crate::error_text::one_line;

/// What is read of an answer at most.
const ANSWER_BYTES_MAX: usize = 64 * 1_024;

/// Why a collector did not take spans. It holds no header and no span.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("{0}")]
    Unreachable(String),
    #[error("no answer within {0:?}")]
    TooSlow(Duration),
    #[error("the collector answered {0}")]
    Refused(StatusCode),
}

fn unreachable(error: &dyn std::error::Error) -> SendError {
    SendError::Unreachable(one_line(error))
}

/// Sends to one collector.
#[derive(Debug)]
pub(super) struct Client {
    endpoint: Endpoint,
    headers: TraceHeaders,
    timeout: Duration,
    tls: Option<Arc<ClientConfig>>,
}

impl Client {
    pub(super) fn new(endpoint: Endpoint, headers: TraceHeaders, timeout: Duration) -> Self {
        let tls = endpoint.tls.then(|| Arc::new(system_roots()));
        Self { endpoint, headers, timeout, tls }
    }

    /// The body of the answer, where the collector took it.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<Bytes, SendError> {
        match tokio::time::timeout(self.timeout, self.exchange(body)).await {
            Ok(answered) => answered,
            Err(_elapsed) => Err(SendError::TooSlow(self.timeout)),
        }
    }

    async fn exchange(&self, body: Vec<u8>) -> Result<Bytes, SendError> {
        let request = self.request(body)?;
        // An address of version 6 stands in brackets in a URL, and in none elsewhere.
        let host = self.endpoint.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, self.endpoint.port))
            .await
            .map_err(|error| unreachable(&error))?;
        match &self.tls {
            None => answer(stream, request).await,
            Some(config) => {
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|error| unreachable(&error))?;
                let connector = TlsConnector::from(Arc::clone(config));
                let stream = connector.connect(name, stream).await;
                answer(stream.map_err(|error| unreachable(&error))?, request).await
            }
        }
    }

    fn request(&self, body: Vec<u8>) -> Result<Request<Full<Bytes>>, SendError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.endpoint.path)
            .header(HOST, self.endpoint.authority())
            .header(USER_AGENT, concat!("wakegate/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &self.headers.0 {
            request = request.header(name, value);
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| unreachable(&error))
    }
}

async fn answer<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Bytes, SendError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(SendError::Refused(status));
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok(body.map_err(|error| unreachable(error.as_ref()))?.to_bytes())
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        answered = &mut exchange => answered,
        // The connection has ended; what it brought is there to be read.
        _ended = connection => exchange.await,
    }
}

/// What the system trusts, or instead what `SSL_CERT_FILE` and `SSL_CERT_DIR` name. With none of it no
/// collector is.
fn system_roots() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for fault in &found.errors {
        tracing::warn!(error = one_line(fault), "a certificate of the system cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring has every protocol version that is safe")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
