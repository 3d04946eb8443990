//! The connection to NATS: one client for the process, which reconnects by itself for ever.
//!
//! Secrets are taken out of the URL before the client sees it, so that neither its logs nor an
//! error can hold one.

mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError};
use tokio::sync::watch;

pub use self::tls::TlsFiles;

/// Longest wait between two attempts to connect.
const RECONNECT_DELAY_MS_MAX: u64 = 4_000;
/// First wait; it doubles from attempt to attempt.
const RECONNECT_DELAY_MS: u64 = 50;
/// How long one attempt to connect may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Where and how to connect.
#[derive(Clone)]
pub struct BrokerOptions {
    /// `nats://[user:password@|token@]host:port`, or several, separated by commas.
    pub url: String,
    /// A `.creds` file.
    pub credentials_file: Option<PathBuf>,
    /// How the server is known and this program shows itself, where TLS is spoken.
    pub tls: TlsFiles,
    /// Where answers arrive.
    pub inbox_prefix: String,
    /// How long a request, and the acknowledgement of a publish, may take.
    pub request_timeout: Duration,
    /// What the server lists the connection as.
    pub name: String,
}

/// Why there can be no connection with these options; waiting does not help.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Correct the URL.
    #[error("the NATS URL is wrong: {fault}")]
    Url {
        /// What is wrong; never the URL itself, which may hold a password.
        fault: String,
    },
    /// Correct the path or the file.
    #[error("the credentials file {}: {fault}", .file.display())]
    Credentials {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// Correct the path or the file.
    #[error("the TLS file {}: {fault}", .file.display())]
    Tls {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// Only from [`connect_once`]: the server is not there, or does not let this user in.
    #[error("cannot connect to NATS at {servers}: {fault}")]
    Unreachable {
        /// The servers without credentials.
        servers: String,
        /// What happened.
        fault: String,
    },
}

/// State of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Link {
    /// Never connected so far; the last fault, once there is one.
    Connecting(Option<Arc<str>>),
    /// Connected.
    Up,
    /// Was connected; the client is trying to be again. The last fault, once there is one.
    Down(Option<Arc<str>>),
}

/// The client, and what readiness asks about it.
#[derive(Clone)]
pub struct Broker {
    /// The client.
    pub client: Client,
    /// State of the connection, by the client's own events.
    pub link: watch::Receiver<Link>,
    /// The servers, without credentials, for messages.
    pub servers: Arc<str>,
    request_timeout: Duration,
}

impl Broker {
    /// JetStream with this connection's time-outs. Publishes beyond the client's bound on
    /// unacknowledged ones wait instead of failing.
    #[must_use]
    pub fn jetstream(&self) -> Context {
        ContextBuilder::new()
            .timeout(self.request_timeout)
            .ack_timeout(self.request_timeout)
            .backpressure_on_inflight(true)
            .build(self.client.clone())
    }

    /// Returns once the connection is up.
    pub async fn connected(&self) {
        let mut link = self.link.clone();
        // The sender lives in the client, which this value holds.
        let _ = link.wait_for(|link| *link == Link::Up).await;
    }
}

/// For a service: returns at once and connects in the background, with backoff and without end.
/// Each failure is logged with the servers' names and shows in [`Broker::link`].
///
/// # Errors
/// [`BrokerError::Url`] and [`BrokerError::Credentials`]: no waiting would help.
pub async fn connect(options: &BrokerOptions) -> Result<Broker, BrokerError> {
    let target = Target::parse(&options.url)?;
    let servers = target.servers();
    let (link, connect) = prepare(options, &target, Arc::clone(&servers)).await?;
    let client = connect
        .retry_on_initial_connect()
        .connect(target.addresses)
        .await
        .map_err(|error| unreachable_at(&servers, &error))?;
    Ok(Broker { client, link, servers, request_timeout: options.request_timeout })
}

/// For a command: one attempt at each server.
///
/// # Errors
/// [`BrokerError`] says what a person can correct.
pub async fn connect_once(options: &BrokerOptions) -> Result<Broker, BrokerError> {
    let target = Target::parse(&options.url)?;
    let servers = target.servers();
    let (link, connect) = prepare(options, &target, Arc::clone(&servers)).await?;
    let client = connect
        .connect(target.addresses)
        .await
        .map_err(|error| unreachable_at(&servers, &error))?;
    Ok(Broker { client, link, servers, request_timeout: options.request_timeout })
}

async fn prepare(
    options: &BrokerOptions,
    target: &Target,
    servers: Arc<str>,
) -> Result<(watch::Receiver<Link>, ConnectOptions), BrokerError> {
    let (sender, link) = watch::channel(Link::Connecting(None));
    let mut connect = ConnectOptions::new()
        .name(&options.name)
        .custom_inbox_prefix(&options.inbox_prefix)
        .connection_timeout(CONNECT_WITHIN)
        .request_timeout(Some(options.request_timeout))
        .reconnect_delay_callback(reconnect_delay)
        .event_callback(move |event| {
            observe(&event, &sender, &servers);
            std::future::ready(())
        });
    if let Some(file) = &options.credentials_file {
        connect = connect.credentials_file(file).await.map_err(|error| {
            BrokerError::Credentials { file: file.clone(), fault: error.to_string() }
        })?;
    }
    Ok((link, target.authenticate(tls::secured(connect, &options.tls)?)))
}

/// Doubles from attempt to attempt up to the longest wait. The client counts attempts from 1 and
/// calls this before each, the first included.
fn reconnect_delay(attempt: usize) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(2)).unwrap_or(u32::MAX);
    let grown = 2_u64.saturating_pow(doublings).saturating_mul(RECONNECT_DELAY_MS);
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => Duration::from_millis(grown.min(RECONNECT_DELAY_MS_MAX)),
    }
}

/// Turns the client's events into the link's state and the log.
fn observe(event: &Event, link: &watch::Sender<Link>, servers: &str) {
    match event {
        Event::Connected => {
            tracing::info!(servers, "connected to NATS");
            link.send_replace(Link::Up);
        }
        Event::Disconnected => {
            tracing::warn!(servers, "lost the connection to NATS, reconnecting");
            link.send_replace(Link::Down(None));
        }
        Event::ClientError(error) => {
            tracing::warn!(servers, error = %error, "waiting for NATS");
            note_fault(link, &error.to_string());
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            tracing::error!(servers, "NATS refuses this user: check URL and credentials");
            note_fault(link, "NATS refuses this user");
        }
        // The one trace of a denied publish or request, which otherwise looks like a time-out.
        Event::ServerError(error) => {
            tracing::error!(servers, error = %error, "NATS reports an error");
        }
        Event::SlowConsumer(subscription) => {
            tracing::error!(subscription, "the client dropped messages: a subscription is slow");
        }
        Event::LameDuckMode => tracing::info!(servers, "the NATS server is about to shut down"),
        Event::Draining | Event::Closed => tracing::info!(servers, "NATS connection: {event}"),
    }
}

fn note_fault(link: &watch::Sender<Link>, fault: &str) {
    link.send_if_modified(|link| match link {
        Link::Connecting(last) | Link::Down(last) => {
            *last = Some(Arc::from(fault));
            true
        }
        Link::Up => false,
    });
}

fn unreachable_at(servers: &str, error: &async_nats::ConnectError) -> BrokerError {
    BrokerError::Unreachable { servers: servers.to_owned(), fault: error.to_string() }
}

/// The servers, and the credentials that their URLs held.
struct Target {
    addresses: Vec<ServerAddr>,
    user: Option<User>,
}

/// Credentials of a URL.
enum User {
    Password { name: String, password: String },
    Token(String),
}

impl Target {
    fn parse(urls: &str) -> Result<Self, BrokerError> {
        let mut target = Self { addresses: Vec::new(), user: None };
        for url in urls.split(',').map(str::trim) {
            // The parser's errors name what it expected and never quote the URL.
            let address: ServerAddr =
                url.parse().map_err(|error: std::io::Error| url_fault(error.to_string()))?;
            if address.host().is_empty() {
                return Err(url_fault("it names no host".to_owned()));
            }
            let mut url = address.into_inner();
            if target.user.is_none() {
                target.user = User::of(url.username(), url.password())?;
            }
            // Neither fails on a URL that has a host.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            let address =
                ServerAddr::from_url(url).map_err(|error| url_fault(error.to_string()))?;
            target.addresses.push(address);
        }
        Ok(target)
    }

    fn servers(&self) -> Arc<str> {
        let names: Vec<String> = self
            .addresses
            .iter()
            .map(|address| format!("{}:{}", address.host(), address.port()))
            .collect();
        Arc::from(names.join(","))
    }

    /// The client itself ignores the credentials of a URL.
    fn authenticate(&self, options: ConnectOptions) -> ConnectOptions {
        match &self.user {
            None => options,
            Some(User::Token(token)) => options.token(token.clone()),
            Some(User::Password { name, password }) => {
                options.user_and_password(name.clone(), password.clone())
            }
        }
    }
}

impl User {
    /// A name without a password is a token, as NATS has it.
    fn of(name: &str, password: Option<&str>) -> Result<Option<Self>, BrokerError> {
        let decoded = |text: &str| {
            percent_decoded(text).ok_or_else(|| {
                url_fault("its credentials are not percent-encoded UTF-8".to_owned())
            })
        };
        Ok(match (name, password) {
            ("", _) => None,
            (token, None) => Some(Self::Token(decoded(token)?)),
            (name, Some(password)) => {
                Some(Self::Password { name: decoded(name)?, password: decoded(password)? })
            }
        })
    }
}

fn url_fault(fault: String) -> BrokerError {
    BrokerError::Url { fault }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let high = char::from(rest.next()?).to_digit(16)?;
                let low = char::from(rest.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_the_url_before_anything_can_print_it() {
        for (url, servers, expected) in [
            ("nats://127.0.0.1:4222", "127.0.0.1:4222", None),
            ("localhost", "localhost:4222", None),
            ("nats://ann:s3%40cret@a:1,nats://b:2", "a:1,b:2", Some("ann s3@cret")),
            ("tls://tok%2Fen@host:7", "host:7", Some("token tok/en")),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(&*target.servers(), servers);
            let printed = format!("{:?}", target.addresses);
            assert!(!printed.contains("cret") && !printed.contains("tok"), "{printed}");
            let user = target.user.map(|user| match user {
                User::Password { name, password } => format!("{name} {password}"),
                User::Token(token) => format!("token {token}"),
            });
            assert_eq!(user.as_deref(), expected);
        }
    }

    #[test]
    fn a_wrong_url_is_named_without_its_secret() {
        for url in ["http://ann:s3cret@host", "nats://ann:s3cret@host:port", "nats://ann:%FF@h", ""]
        {
            let error = Target::parse(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(error.starts_with("the NATS URL is wrong: "), "{error}");
            assert!(!error.contains("s3cret") && !error.contains("ann"), "{error}");
        }
    }

    #[test]
    fn reconnecting_backs_off_and_never_gives_up() {
        let delays: Vec<u64> =
            (0..10).map(|n| u64::try_from(reconnect_delay(n).as_millis()).unwrap()).collect();
        assert_eq!(delays, [0, 0, 50, 100, 200, 400, 800, 1_600, 3_200, 4_000]);
        assert_eq!(reconnect_delay(usize::MAX).as_millis(), 4_000);
    }
}
