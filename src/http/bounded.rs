//! Connections, so many at a time and each for so long: whoever opens them and says nothing keeps
//! neither memory nor file descriptors of the worker, and after a while keeps nobody waiting.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// How many connections, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Most connections at a time; more wait in the operating system's queue.
    pub connections_max: usize,
    /// Longest life of a connection, however busy; a scraper then opens another.
    pub connection_life_max: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self { connections_max: 64, connection_life_max: Duration::from_secs(30) }
    }
}

/// A listener with these limits.
pub(super) struct Bounded {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    life_max: Duration,
}

impl Bounded {
    pub(super) fn new(listener: TcpListener, limits: HttpLimits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.connections_max));
        Self { listener, slots, life_max: limits.connection_life_max }
    }
}

impl Listener for Bounded {
    type Io = Held;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Held, SocketAddr) {
        // The semaphore is never closed; were it, the listener would only be without its bound.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let (stream, addr) = Listener::accept(&mut self.listener).await;
        let end = Box::pin(tokio::time::sleep(self.life_max));
        (Held { stream, end, _slot: slot }, addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that holds one of the slots, until its end at the latest.
pub(super) struct Held {
    stream: TcpStream,
    end: Pin<Box<Sleep>>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// Ready with an error once the connection has lived too long.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.end.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the connection has lived too long"))
    }
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.poll_end(cx) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Pin::new(&mut self.stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.poll_end(cx) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Pin::new(&mut self.stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
