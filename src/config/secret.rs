//! URLs that may hold a password or a token, and never show it.

use std::fmt;
use std::str::FromStr;

use async_nats::ServerAddr;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::error_text::one_line;

const HIDDEN: &str = "***";
/// Parameters of a database URL that are shown. What is not named here is hidden.
const SHOWN_PARAMETERS: [&str; 14] = [
    "sslmode",
    "ssl-mode",
    "application_name",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "statement-cache-capacity",
    "mode",
    "cache",
    "immutable",
    "vfs",
    "sslrootcert",
];
/// Parameters that a PostgreSQL URL may have. sqlx would log the value of any other.
const POSTGRES_PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// A URL whose user, password, token and unknown parameters are shown as `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretUrl(String);

/// The parts of a URL, as far as secrets are concerned.
struct Parts<'a> {
    scheme: &'a str,
    userinfo: Option<&'a str>,
    place: &'a str,
    parameters: Vec<(&'a str, Option<&'a str>)>,
    /// All behind the scheme, where it cannot be told what is what.
    unclear: Option<&'a str>,
}

impl SecretUrl {
    /// The URL with its secrets, for those who connect with it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without this URL's secrets: for what a server or a library says of a failure.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let parts = self.parts();
        let mut secrets: Vec<&str> = Vec::new();
        if let Some(userinfo) = parts.userinfo {
            secrets.push(userinfo);
            // A user without a password is a token.
            secrets.push(userinfo.split_once(':').map_or(userinfo, |(_, password)| password));
        }
        let hidden = parts.parameters.iter().filter(|(name, _)| !SHOWN_PARAMETERS.contains(name));
        secrets.extend(hidden.filter_map(|(_, value)| *value));
        if let Some(unclear) = parts.unclear {
            secrets.push(unclear);
            secrets.extend(unclear.split([':', '@', '?', '#', '&', '=']));
        }
        let mut secrets: Vec<String> = secrets
            .into_iter()
            .filter(|secret| !secret.is_empty())
            .flat_map(|secret| [secret.to_owned(), percent_decoded(secret)])
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN))
    }

    /// Everything up to the last `@` is taken for a secret, also where a password that was not
    /// escaped holds a `/` or an `@` of its own. Where a `?` or a `#` stands before it, nobody can
    /// tell such a password from a parameter with an `@`, and nothing is shown. A SQLite path has no
    /// such part.
    fn parts(&self) -> Parts<'_> {
        let (scheme, rest) = match self.0.find("://") {
            Some(at) => self.0.split_at(at + 3),
            None => ("", self.0.as_str()),
        };
        let nothing =
            Parts { scheme, userinfo: None, place: "", parameters: vec![], unclear: None };
        let (userinfo, rest) = match rest.rsplit_once('@') {
            Some((before, _)) if scheme != "sqlite://" && before.contains(['?', '#']) => {
                return Parts { unclear: Some(rest), ..nothing };
            }
            Some((userinfo, rest)) if scheme != "sqlite://" => (Some(userinfo), rest),
            _ => (None, rest),
        };
        let (place, query) = match rest.split_once(['?', '#']) {
            Some((place, query)) => (place, Some(query)),
            None => (rest, None),
        };
        let parameters = query
            .into_iter()
            .flat_map(|query| query.split('&'))
            .map(|pair| match pair.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (pair, None),
            })
            .collect();
        Parts { userinfo, place, parameters, ..nothing }
    }
}

impl From<String> for SecretUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts();
        f.write_str(parts.scheme)?;
        if parts.unclear.is_some() {
            return f.write_str(HIDDEN);
        }
        if parts.userinfo.is_some() {
            write!(f, "{HIDDEN}@")?;
        }
        f.write_str(parts.place)?;
        for (index, (name, value)) in parts.parameters.iter().enumerate() {
            f.write_str(if index == 0 { "?" } else { "&" })?;
            match value {
                Some(value) if SHOWN_PARAMETERS.contains(name) => write!(f, "{name}={value}")?,
                Some(_) if is_known(name) => write!(f, "{name}={HIDDEN}")?,
                // An `&` of a password that was not escaped makes a "name" of the rest of it.
                Some(_) | None => f.write_str(HIDDEN)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({self})")
    }
}

/// Whether PostgreSQL's URLs have a parameter of this name; `options[…]` takes one in brackets.
fn is_known(name: &str) -> bool {
    POSTGRES_PARAMETERS.contains(&name) || name.starts_with("options[")
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%');
        let byte = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The servers of one cluster.
#[derive(Clone, Default)]
pub struct NatsServers {
    urls: Vec<SecretUrl>,
}

impl NatsServers {
    /// Servers separated by commas; without a scheme `nats://` is meant, without a port 4222.
    ///
    /// # Errors
    /// What is wrong with which of them, without secrets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut servers = Self::default();
        for (index, part) in text.split(',').map(str::trim).enumerate() {
            let place =
                if text.contains(',') { format!("server {}: ", index + 1) } else { String::new() };
            let url = if part.contains("://") { part.to_owned() } else { format!("nats://{part}") };
            let url = SecretUrl(url);
            if !matches!(url.parts().scheme, "nats://" | "tls://") {
                return Err(format!("{place}wants nats://<host>:<port> or tls://<host>:<port>"));
            }
            let address = ServerAddr::from_str(url.expose())
                .map_err(|error| format!("{place}{}", url.scrub(&one_line(&error))))?;
            if address.host().is_empty() {
                return Err(format!("{place}names no host"));
            }
            servers.urls.push(url);
        }
        Ok(servers)
    }

    /// Every URL, for those who connect with them, secrets included.
    #[must_use]
    pub fn expose(&self) -> String {
        let urls: Vec<&str> = self.urls.iter().map(SecretUrl::expose).collect();
        urls.join(",")
    }

    /// `text` without the secrets of any server.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        self.urls.iter().fold(text.to_owned(), |text, url| url.scrub(&text))
    }
}

impl fmt::Display for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, url) in self.urls.iter().enumerate() {
            write!(f, "{}{url}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for NatsServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsServers({self})")
    }
}

/// Which database, by the URL's scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// `sqlite://`
    #[default]
    Sqlite,
    /// `postgres://`
    Postgres,
}

/// Where the database is.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct DatabaseUrl {
    url: SecretUrl,
    dialect: Dialect,
}

impl DatabaseUrl {
    /// Checks scheme and parameters.
    ///
    /// # Errors
    /// What is wrong, and what is accepted; without secrets.
    pub fn parse(text: &str) -> Result<Self, String> {
        let url = SecretUrl(text.trim().to_owned());
        let dialect = match url.parts().scheme {
            "sqlite://" => Dialect::Sqlite,
            "postgres://" | "postgresql://" => Dialect::Postgres,
            _ => {
                return Err("wants sqlite://<path> or \
                            postgres://<user>:<password>@<host>:<port>/<database>"
                    .to_owned());
            }
        };
        match dialect {
            Dialect::Sqlite => check_sqlite(&url)?,
            Dialect::Postgres => check_postgres(&url)?,
        }
        Ok(Self { url, dialect })
    }

    /// Which database.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The URL, for those who connect with it.
    #[must_use]
    pub const fn url(&self) -> &SecretUrl {
        &self.url
    }
}

fn check_sqlite(url: &SecretUrl) -> Result<(), String> {
    let parts = url.parts();
    if parts.place.is_empty() {
        return Err("names no file; it wants sqlite://<path>".to_owned());
    }
    if parts.place == ":memory:" || parts.parameters.contains(&("mode", Some("memory"))) {
        return Err(
            "a database in memory is durable for nobody; it wants sqlite://<path>".to_owned()
        );
    }
    SqliteConnectOptions::from_str(url.expose())
        .map(|_| ())
        .map_err(|error| url.scrub(&one_line(&error)))
}

fn check_postgres(url: &SecretUrl) -> Result<(), String> {
    // As a URL is read, the first `?` ends the place, whatever stands before an `@` behind it.
    let query = url.expose().split_once('?').map_or("", |(_, query)| query);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        if !is_known(name) {
            return Err("has a parameter after the ? that is not known; known are ".to_owned()
                + &POSTGRES_PARAMETERS.join(", "));
        }
    }
    PgConnectOptions::from_str(url.expose())
        .map(|_| ())
        .map_err(|error| url.scrub(&one_line(&error)))
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({}, {:?})", self.url, self.dialect)
    }
}
