//! A proxy in front of a server, which forwards, refuses, stalls, cuts and delays.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

const CHUNK_BYTES: usize = 16 * 1_024;

/// What the proxy does to every connection, those that exist included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Passes everything on.
    Forward,
    /// Ends every connection at once.
    Refuse,
    /// Keeps connections, takes new ones, and passes nothing on.
    Stall,
    /// Ends a connection once so many more bytes went through it in one direction.
    CutAfter(u64),
    /// Passes everything on, this much later.
    Delay(Duration),
}

/// A proxy that listens until it is dropped.
pub struct Proxy {
    addr: SocketAddr,
    manner: watch::Sender<Manner>,
    _carrying: JoinSet<()>,
}

impl Proxy {
    /// In front of a server on this machine.
    pub async fn before(port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let manner = watch::Sender::new(Manner::Forward);
        let mut carrying = JoinSet::new();
        carrying.spawn(accept(listener, port, manner.subscribe()));
        Self { addr, manner, _carrying: carrying }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// The URL of a server behind it: `url` with the proxy's port.
    pub fn url(&self, url: &str) -> String {
        let port = port_of(url);
        url.replacen(&format!(":{port}"), &format!(":{}", self.port()), 1)
    }

    /// From now on it does this.
    pub fn set(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }
}

/// The port in `…@127.0.0.1:<port>…`.
pub fn port_of(url: &str) -> u16 {
    let rest = url.rsplit_once("127.0.0.1:").expect("a server of this machine").1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

async fn accept(listener: TcpListener, port: u16, manner: watch::Receiver<Manner>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if *manner.borrow() != Manner::Refuse {
                    connections.spawn(carry(client, port, manner.clone()));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Carries one connection until either side ends or it is cut.
async fn carry(client: TcpStream, port: u16, manner: watch::Receiver<Manner>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, manner.clone()) => {}
        () = pump(from_server, to_client, manner) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut manner: watch::Receiver<Manner>,
) {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = None;
    loop {
        let now = *manner.borrow_and_update();
        left = match (now, left) {
            (Manner::CutAfter(bytes), None) => Some(bytes),
            (Manner::CutAfter(_), left) => left,
            _ => None,
        };
        match now {
            Manner::Refuse => return,
            Manner::Stall => {
                if manner.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Manner::Forward | Manner::CutAfter(_) | Manner::Delay(_) => {}
        }
        let read = tokio::select! {
            read = from.read(&mut chunk) => read,
            changed = manner.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let Ok(mut bytes @ 1..) = read else { return };
        if let Manner::Delay(delay) = now {
            sleep_until(Instant::now() + delay).await;
        }
        if let Some(left) = left.as_mut() {
            bytes = bytes.min(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= bytes as u64;
        }
        if to.write_all(&chunk[..bytes]).await.is_err() || left == Some(0) {
            return;
        }
    }
}
