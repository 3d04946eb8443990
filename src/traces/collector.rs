//! Where spans are sent, and what with.

use std::fmt;
use std::str::FromStr as _;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};

/// The path of OTLP over HTTP, where an endpoint names none.
const PATH: &str = "/v1/traces";
/// Headers that the request has of its own.
const OWN: [&str; 5] =
    ["host", "content-type", "content-length", "connection", "transfer-encoding"];

/// An address of a collector: `http` or `https`, host, port, path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
}

impl Endpoint {
    /// Reads a URL.
    ///
    /// # Errors
    /// What is wrong with it; never its text, which may hold a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        const WANTED: &str = "wants http://<host>:<port> or https://<host>:<port>";
        let uri = Uri::from_str(text.trim()).map_err(|_| WANTED.to_owned())?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(WANTED.to_owned()),
        };
        let authority =
            uri.authority().map(hyper::http::uri::Authority::as_str).unwrap_or_default();
        if authority.contains('@') {
            let what = "holds a user or password; put what the collector asks for in \
                        traces.headers";
            return Err(what.to_owned());
        }
        if uri.query().is_some() {
            return Err("has something after a ?, which OTLP does not".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(WANTED)?;
        let path = if uri.path() == "/" { PATH } else { uri.path() };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 4318 }),
            path: path.to_owned(),
        })
    }

    /// The header `host`.
    pub(super) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Headers that a collector asks for, such as a token. Their values are shown to nobody.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TraceHeaders(pub(super) Vec<(HeaderName, HeaderValue)>);

impl TraceHeaders {
    /// Reads `name=value,…`, as `OTEL_EXPORTER_OTLP_HEADERS` has it; `%2C` is a comma and `%25` a
    /// per cent sign.
    ///
    /// # Errors
    /// Which of them is wrong; never a value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut headers = Vec::new();
        for (place, part) in text.split(',').enumerate() {
            let wrong = |what: &str| format!("header {}: {what}", place + 1);
            let (name, value) =
                part.split_once('=').ok_or_else(|| wrong("wants <name>=<value>"))?;
            let name = HeaderName::from_str(name.trim())
                .map_err(|_| wrong("its name is none of a header"))?;
            if OWN.contains(&name.as_str()) {
                return Err(wrong("is one that the request has of its own"));
            }
            let value = value.trim().replace("%2C", ",").replace("%2c", ",").replace("%25", "%");
            let mut value = HeaderValue::from_str(&value)
                .map_err(|_| wrong("its value holds what no header may"))?;
            value.set_sensitive(true);
            headers.push((name, value));
        }
        Ok(Self(headers))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, _)) in self.0.iter().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            write!(f, "{comma}{name}=***")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TraceHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceHeaders({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_and_a_path() {
        for (text, shown) in [
            ("http://localhost", Ok("http://localhost:4318/v1/traces")),
            ("http://localhost:4318/", Ok("http://localhost:4318/v1/traces")),
            ("https://otlp.example/otlp/v1/traces", Ok("https://otlp.example:443/otlp/v1/traces")),
            ("http://[::1]:9/v1/traces", Ok("http://[::1]:9/v1/traces")),
            ("localhost:4318", Err("wants http://")),
            ("grpc://localhost:4317", Err("wants http://")),
            ("http://", Err("wants http://")),
            ("http://user:s3cr3t@host", Err("holds a user or password")),
            ("http://host/?token=s3cr3t", Err("has something after a ?")),
            ("", Err("wants http://")),
        ] {
            match (Endpoint::parse(text), shown) {
                (Ok(endpoint), Ok(shown)) => assert_eq!(endpoint.to_string(), shown),
                (Err(fault), Err(says)) => {
                    assert!(fault.contains(says) && !fault.contains("s3cr3t"), "{text}: {fault}");
                }
                (parsed, _) => panic!("{text}: {parsed:?}"),
            }
        }
    }

    #[test]
    fn headers_are_read_and_never_shown() {
        let headers =
            TraceHeaders::parse("authorization=Bearer s3cr3t%2C%25, x-scope = a ").unwrap();
        assert_eq!(headers.0[0].1.to_str().unwrap(), "Bearer s3cr3t,%");
        assert_eq!(headers.0[1].1.to_str().unwrap(), "a");
        assert_eq!(headers.to_string(), "authorization=***,x-scope=***");
        assert!(!format!("{headers:?}").contains("s3cr3t"));
        for (text, says) in [
            ("s3cr3t", "header 1: wants <name>=<value>"),
            ("a=b,s3 cr3t=x", "header 2: its name"),
            ("a=s3cr3t\n", "header 1: "),
            ("a=s3c\u{7}r3t", "header 1: its value"),
            ("content-length=0", "header 1: is one"),
        ] {
            match TraceHeaders::parse(text) {
                Ok(_) => assert_eq!(text, "a=s3cr3t\n", "white space at the ends is taken away"),
                Err(fault) => {
                    assert!(fault.starts_with(says) && !fault.contains("s3cr3t"), "{fault}");
                }
            }
        }
    }
}
