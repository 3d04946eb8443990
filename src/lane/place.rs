//! Whether a lane is this worker's to pull, as somebody beside the lane decides.
//!
//! Where nobody decides it is: whoever decides may fall silent, and the lane goes on.

use tokio::sync::watch;

/// What is done about a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    /// It is pulled; the server decides who has it.
    Pull,
    /// It is left to another worker.
    StandBy,
}

/// The stance of one lane, as it changes.
#[derive(Debug, Clone, Default)]
pub struct Place(Option<watch::Receiver<Stance>>);

impl Place {
    /// As this says.
    #[must_use]
    pub fn told(stance: watch::Receiver<Stance>) -> Self {
        Self(Some(stance))
    }

    /// Whether the lane is to be left to another worker.
    pub(super) fn is_elsewhere(&self) -> bool {
        let told = self.0.as_ref().filter(|stance| stance.has_changed().is_ok());
        told.is_some_and(|stance| *stance.borrow() == Stance::StandBy)
    }

    /// Waits until the lane is to be pulled.
    pub(super) async fn until_pull(&self) {
        if let Some(mut stance) = self.0.clone() {
            // An error means that nobody decides any more.
            let _ = stance.wait_for(|stance| *stance == Stance::Pull).await;
        }
    }

    /// Waits until the lane is to be left to another worker.
    pub(super) async fn until_stand_by(&self) {
        if let Some(mut stance) = self.0.clone()
            && stance.wait_for(|stance| *stance == Stance::StandBy).await.is_ok()
            // The last word of somebody who is gone does not count.
            && stance.has_changed().is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_lane_about_which_nobody_decides_is_pulled() {
        let alone = Place::default();
        assert!(alone.until_pull().now_or_never().is_some());
        assert!(alone.until_stand_by().now_or_never().is_none());

        let (decides, told) = watch::channel(Stance::StandBy);
        let place = Place::told(told);
        assert!(place.until_pull().now_or_never().is_none() && place.is_elsewhere());
        assert!(place.until_stand_by().now_or_never().is_some());
        decides.send_replace(Stance::Pull);
        assert!(place.until_pull().now_or_never().is_some());
        assert!(place.until_stand_by().now_or_never().is_none());
        decides.send_replace(Stance::StandBy);
        drop(decides);
        assert!(place.until_pull().now_or_never().is_some(), "who decided is gone");
        assert!(place.until_stand_by().now_or_never().is_none() && !place.is_elsewhere());
    }
}
