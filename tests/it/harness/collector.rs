//! A collector that speaks OTLP over HTTP: it reads each request as the protocol has it, keeps the
//! spans, and answers as a test wants. Over TLS it is a server that speaks nothing else.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::serve::Listener;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};
use tokio_rustls::server::TlsStream;

use super::certificates::Certificates;
use super::until_some;

/// How it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    /// Takes all but so many.
    Rejects(i64),
    /// With this status.
    Answers(u16),
    /// Not at all.
    Hangs,
}

#[derive(Debug)]
struct Inside {
    manner: Manner,
    spans: Vec<Span>,
    headers: Vec<HeaderMap>,
    resources: Vec<Vec<KeyValue>>,
    /// Why connections came to nothing, as its side of TLS learned it.
    hung_up: Vec<String>,
}

/// Gone when it is dropped.
pub(crate) struct Collector {
    url: String,
    inside: Arc<Mutex<Inside>>,
    _serving: JoinSet<()>,
}

impl Collector {
    pub(crate) async fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self::serve(listener, url, Inside::new(manner))
    }

    /// One that takes everything over TLS, with one of the certificates.
    pub(crate) async fn start_tls(certificates: &Certificates, name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let inside = Inside::new(Manner::Takes);
        let acceptor = acceptor(certificates, name);
        let listener = TlsListener { listener, acceptor, inside: Arc::clone(&inside) };
        Self::serve(listener, url, inside)
    }

    fn serve<L>(listener: L, url: String, inside: Arc<Mutex<Inside>>) -> Self
    where
        L: Listener<Addr: std::fmt::Debug>,
    {
        let routes =
            Router::new().route("/v1/traces", post(export)).with_state(Arc::clone(&inside));
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, inside, _serving: serving }
    }

    /// What `traces.endpoint` is to be.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn answers(&self, manner: Manner) {
        self.inside.lock().unwrap().manner = manner;
    }

    /// Every span that it was sent, also in requests that it did not take.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.inside.lock().unwrap().spans.clone()
    }

    /// The headers of each request.
    pub(crate) fn headers(&self) -> Vec<HeaderMap> {
        self.inside.lock().unwrap().headers.clone()
    }

    /// Attributes of the resource of each request.
    pub(crate) fn resources(&self) -> Vec<Vec<KeyValue>> {
        self.inside.lock().unwrap().resources.clone()
    }

    /// Why connections came to nothing.
    pub(crate) fn hung_up(&self) -> Vec<String> {
        self.inside.lock().unwrap().hung_up.clone()
    }

    /// Waits for as many spans of this name.
    pub(crate) async fn until(&self, name: &str, least: usize) -> Vec<Span> {
        let named =
            || -> Vec<Span> { self.spans().into_iter().filter(|span| span.name == name).collect() };
        let ask = async || Some(named()).filter(|spans| spans.len() >= least);
        until_some(ask, || format!("{least} of {name}: never; {:?}", self.spans())).await
    }
}

impl Inside {
    fn new(manner: Manner) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            manner,
            spans: Vec::new(),
            headers: Vec::new(),
            resources: Vec::new(),
            hung_up: Vec::new(),
        }))
    }
}

/// Connections once they speak TLS.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    inside: Arc<Mutex<Inside>>,
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, addr) = self.listener.accept().await.unwrap();
            match self.acceptor.accept(stream).await {
                Ok(stream) => return (stream, addr),
                Err(error) => self.inside.lock().unwrap().hung_up.push(error.to_string()),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn acceptor(certificates: &Certificates, name: &str) -> TlsAcceptor {
    let path = |ending: &str| certificates.path(&format!("{name}.{ending}"));
    let chain = CertificateDer::pem_file_iter(path("pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn export(
    State(inside): State<Arc<Mutex<Inside>>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = ExportTraceServiceRequest::decode(body).expect("the body is of the protocol");
    let manner = {
        let mut inside = inside.lock().unwrap();
        inside.headers.push(headers);
        for of_resource in request.resource_spans {
            inside.resources.push(of_resource.resource.expect("a resource").attributes);
            for of_scope in of_resource.scope_spans {
                assert_eq!(of_scope.scope.expect("a scope").name, "wakegate");
                inside.spans.extend(of_scope.spans);
            }
        }
        inside.manner
    };
    let rejected_spans = match manner {
        Manner::Takes => 0,
        Manner::Rejects(spans) => spans,
        Manner::Answers(status) => {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        Manner::Hangs => std::future::pending().await,
    };
    let partial_success = (rejected_spans > 0).then(|| ExportTracePartialSuccess {
        rejected_spans,
        error_message: "too many".to_owned(),
    });
    let answer = ExportTraceServiceResponse { partial_success };
    ([(header::CONTENT_TYPE, "application/x-protobuf")], answer.encode_to_vec()).into_response()
}

/// An attribute as text.
pub(crate) fn attribute(of: &[KeyValue], key: &str) -> Option<String> {
    let found = of.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()? {
        AnyValue { value: Some(Value::StringValue(text)) } => Some(text.clone()),
        AnyValue { value: Some(Value::IntValue(number)) } => Some(number.to_string()),
        other => panic!("{key}: {other:?}"),
    }
}

/// Bytes of an id in hexadecimal digits.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
