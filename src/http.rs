//! `/metrics`, `/livez` and `/readyz`.
//!
//! It is bound before any server is looked for, so that `/readyz` says what is waited for, and ends
//! last, so that it says that the worker is ending.

mod bounded;

use std::io;
use std::net::SocketAddr;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;

use self::bounded::Bounded;
pub use self::bounded::HttpLimits;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;

/// `http.addr` cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr} for /metrics, /livez and /readyz")]
pub struct BindError {
    /// The address asked for.
    pub addr: SocketAddr,
    /// Why not.
    #[source]
    pub error: io::Error,
}

/// Listens on `addr`; port 0 takes any free one.
///
/// # Errors
/// [`BindError`], most often because another process listens there.
pub async fn bind(addr: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(addr).await.map_err(|error| BindError { addr, error })
}

/// Answers until the work has ended ([`Shutdown::finished`]).
///
/// # Errors
/// The listener failed for good.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
) -> io::Result<()> {
    serve_within(HttpLimits::default(), listener, metrics, health, shutdown).await
}

/// [`serve`] with limits of the caller's own.
///
/// # Errors
/// As [`serve`].
pub async fn serve_within(
    limits: HttpLimits,
    listener: TcpListener,
    metrics: Metrics,
    health: Health,
    shutdown: Shutdown,
) -> io::Result<()> {
    let routes = Router::new()
        .route("/metrics", get(scrape))
        .with_state(metrics)
        .merge(Router::new().route("/readyz", get(readyz)).with_state(health))
        .route("/livez", get(livez))
        .fallback(elsewhere);
    axum::serve(Bounded::new(listener, limits), routes)
        .with_graceful_shutdown(async move { shutdown.finished().await })
        .await
}

async fn scrape(State(metrics): State<Metrics>) -> Response {
    ([(header::CONTENT_TYPE, Metrics::content_type())], metrics.render()).into_response()
}

/// That it answers is all it says: a worker that waits for a server is alive, and to restart it
/// would help nobody.
async fn livez() -> Response {
    Json(json!({ "alive": true })).into_response()
}

async fn readyz(State(health): State<Health>) -> Response {
    let report = health.report();
    let status = if report.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report)).into_response()
}

async fn elsewhere() -> Response {
    (StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n").into_response()
}
