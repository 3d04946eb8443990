//! Ending in order: the first SIGTERM or SIGINT asks for it, the second ends the process at once.
//!
//! Two steps, because readiness goes false first and must still be seen: `/readyz` answers until
//! the work has ended.

use std::future::Future;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Whether the worker is to end, and whether its work has ended. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requested: CancellationToken,
    finished: CancellationToken,
}

impl Shutdown {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that is asked whenever this one is, and that can be asked alone.
    #[must_use]
    pub fn within(&self) -> Self {
        Self { requested: self.requested.child_token(), finished: self.finished.child_token() }
    }

    /// Asks the work to end: stop pulling, finish the batch in work, settle it, close.
    pub fn request(&self) {
        self.requested.cancel();
    }

    /// Whether the work was asked to end.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Waits until the work is asked to end.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Says that the work has ended, so that what served until now may end too.
    pub fn finish(&self) {
        self.requested.cancel();
        self.finished.cancel();
    }

    /// Waits until the work has ended.
    pub async fn finished(&self) {
        self.finished.cancelled().await;
    }
}

/// The signals that end the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Terminate,
    Interrupt,
}

impl Ending {
    const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// What a shell reports of a process that the signal ended.
    const fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 128 + 15,
            Self::Interrupt => 128 + 2,
        }
    }
}

/// Takes SIGTERM and SIGINT over, and returns what has to be polled for as long as the worker runs.
/// The first signal requests the shutdown; the second ends the process at once, with the exit code
/// a shell would report (143, 130). Nothing is lost either way, only time.
///
/// # Errors
/// The operating system refuses a signal handler.
pub fn signals(shutdown: &Shutdown) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = shutdown.clone();
    Ok(async move {
        let first = next(&mut terminate, &mut interrupt).await;
        info!(signal = first.name(), "shutting down; a second signal ends at once");
        shutdown.request();
        let second = next(&mut terminate, &mut interrupt).await;
        warn!(signal = second.name(), "a second signal: ending at once, nothing is lost but time");
        std::process::exit(second.exit_code());
    })
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> Ending {
    tokio::select! {
        _ = terminate.recv() => Ending::Terminate,
        _ = interrupt.recv() => Ending::Interrupt,
    }
}
