//! That there is work: what a lane says after it has put runs into the queue, and whoever frees a
//! slot. Nothing is told of it but that somebody who waits had better look.

use tokio::sync::watch;

/// Clones share it. A signal that nobody waits for costs nothing.
#[derive(Debug, Clone)]
pub struct Work(watch::Sender<()>);

impl Default for Work {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Work {
    /// There may be a run to be claimed that could not be before.
    pub fn announce(&self) {
        self.0.send_replace(());
    }

    /// Hears of what is announced from now on. What is announced while somebody looks is one signal,
    /// however often it is.
    #[must_use]
    pub fn listen(&self) -> watch::Receiver<()> {
        self.0.subscribe()
    }
}
