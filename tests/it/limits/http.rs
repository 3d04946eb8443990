//! Connections to `/metrics`, `/livez` and `/readyz`.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use wakegate::clock::Clock;
use wakegate::health::Health;
use wakegate::http::{self, HttpLimits};
use wakegate::metrics::Metrics;
use wakegate::shutdown::Shutdown;
use wakegate::wake::UtcMicros;

use crate::harness::PATIENCE;

async fn served(limits: HttpLimits) -> (SocketAddr, JoinSet<std::io::Result<()>>) {
    let shutdown = Shutdown::new();
    let health = Health::new(Clock::manual(UtcMicros::from_micros(1)), 1, shutdown.clone());
    let listener = http::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(http::serve_within(limits, listener, Metrics::new(1), health, shutdown));
    (addr, serving)
}

/// Asks on a connection and leaves it open.
async fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
}

/// The beginning of the answer, or nothing where the connection ended.
async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 12];
    let read = tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
    match read.expect("an answer, or the end") {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

#[tokio::test]
async fn so_many_connections_are_served_at_a_time_and_the_next_waits_for_one_to_end() {
    let limits = HttpLimits { connections_max: 3, connection_life_max: Duration::from_hours(1) };
    let (addr, _serving) = served(limits).await;
    let mut open = Vec::new();
    for _ in 0..limits.connections_max {
        let mut stream = TcpStream::connect(addr).await.unwrap();
        ask(&mut stream).await;
        assert_eq!(answer(&mut stream).await, "HTTP/1.1 200");
        open.push(stream);
    }
    let mut next = TcpStream::connect(addr).await.unwrap();
    ask(&mut next).await;
    // Those that are served are served on, and the next has nothing meanwhile.
    for stream in &mut open {
        let mut rest = [0; 4_096];
        let _ = stream.read(&mut rest).await.unwrap();
        ask(stream).await;
        assert_eq!(answer(stream).await, "HTTP/1.1 200");
    }
    let waiting = next.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(waiting.kind(), std::io::ErrorKind::WouldBlock);
    drop(open.pop());
    assert_eq!(answer(&mut next).await, "HTTP/1.1 200");
}

#[tokio::test]
async fn a_connection_that_says_nothing_ends_and_lets_the_next_one_in() {
    let limits = HttpLimits { connections_max: 2, connection_life_max: Duration::from_millis(200) };
    let (addr, _serving) = served(limits).await;
    let mut silent = TcpStream::connect(addr).await.unwrap();
    let mut halfway = TcpStream::connect(addr).await.unwrap();
    halfway.write_all(b"GET /livez HTTP/1.1\r\nx-slow: ").await.unwrap();
    let mut next = TcpStream::connect(addr).await.unwrap();
    ask(&mut next).await;
    assert_eq!(answer(&mut next).await, "HTTP/1.1 200");
    assert_eq!(answer(&mut silent).await, "", "it was ended");
    assert_ne!(answer(&mut halfway).await, "HTTP/1.1 200");
}
