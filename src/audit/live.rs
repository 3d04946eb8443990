//! The audit stream as it grows: each event once and in order, whatever becomes of the connection.
//!
//! The server keeps no place for this reader. What was read is known here by its sequence on the
//! stream, and a consumer that is lost, skips or answers nothing is replaced by one that begins behind
//! it. What the stream dropped meanwhile is said: exactly where every event is asked for, for then a
//! sequence that is missing was dropped; and as what may have been dropped where the server leaves
//! events out, for then sequences are missing anyway.

mod wanted;

use std::ops::ControlFlow;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
use serde_json::Value;

pub use self::wanted::Wanted;
use super::past::{INACTIVE_WITHIN, STREAM};
use crate::error_text::one_line;
use crate::topology::api;
use crate::wake::UtcMicros;

/// Events asked for at once.
const BATCH_EVENTS_MAX: usize = 256;
/// How long one asking waits for the next event before the consumer is looked at.
const BATCH_WITHIN: Duration = Duration::from_secs(2);
/// How long the server may take beyond that to say that nothing came; then the asking was lost.
const BATCH_GRACE: Duration = Duration::from_secs(1);
/// Between two attempts to read on.
const RETRY_EVERY: Duration = Duration::from_millis(500);
/// How long the server may take to forget the consumer at the end; it does so by itself later.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With what comes.
    Now,
    /// With what was published at or after this.
    Since(UtcMicros),
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveEvent {
    /// Its sequence on the audit stream.
    pub sequence: u64,
    /// When it was published there.
    pub at: UtcMicros,
    /// `wake-audit.<class>.<reason>.<organization>`
    pub subject: String,
    /// By which repeats are known.
    pub message_id: Option<String>,
    /// The outcome record; of lost wakes, which and how many.
    pub record: Value,
}

impl LiveEvent {
    /// A token of the subject: 1 is the class, 2 the reason, 3 the organization.
    #[must_use]
    pub fn token(&self, at: usize) -> &str {
        self.subject.split('.').nth(at).unwrap_or_default()
    }
}

/// What a reader is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// An event that is wanted.
    Event(LiveEvent),
    /// Events between these sequences, both included, were dropped unread; with a choice, some of
    /// them may have been wanted.
    Dropped {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// So many wait to be read that the stream may drop some of them.
    Behind {
        /// How many wait.
        pending: u64,
        /// Most that the stream keeps of one subject.
        kept: u64,
    },
    /// The stream is another one than before, or has lost its newest events: it is read from here.
    Anew {
        /// The first sequence.
        from: u64,
    },
    /// Something that is no event.
    Stray {
        /// Where it is.
        sequence: u64,
    },
    /// The server does not answer; it is asked again until it does.
    Away(String),
    /// It does again.
    Back,
}

/// The audit stream cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the audit stream cannot be read: {error}")]
pub struct LiveError {
    /// The cause chain in one line.
    error: String,
}

impl LiveError {
    fn of(error: &dyn std::error::Error) -> Self {
        Self { error: one_line(error) }
    }
}

/// Reads on.
#[derive(Debug)]
pub struct Reader {
    context: Context,
    wanted: Wanted,
    begin: Begin,
    /// The next sequence; nothing where the first event is found by its time.
    next: Option<u64>,
    /// Which stream that is of.
    created: Option<UtcMicros>,
    /// The last sequence there was at the beginning.
    end: Option<u64>,
    /// Most events that the stream keeps of a subject; none is no bound.
    kept: u64,
    behind: bool,
    consumer: Option<String>,
}

/// Why a consumer is given up.
enum Lost {
    /// It left something out.
    Skipped,
    /// It does not answer.
    Fault(LiveError),
}

impl From<LiveError> for Lost {
    fn from(error: LiveError) -> Self {
        Self::Fault(error)
    }
}

impl Reader {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(context: Context, wanted: Wanted, begin: Begin) -> Self {
        Self {
            context,
            wanted,
            begin,
            next: None,
            created: None,
            end: None,
            kept: 0,
            behind: false,
            consumer: None,
        }
    }

    /// Hands on what is heard, until `heard` breaks it off or, with `until_caught_up`, everything is
    /// read that there was at the beginning.
    ///
    /// # Errors
    /// [`LiveError`] where the stream cannot be read at all. What goes wrong later is told and tried
    /// again.
    pub async fn follow(
        &mut self,
        until_caught_up: bool,
        heard: &mut (impl FnMut(Heard) -> ControlFlow<()> + Send),
    ) -> Result<(), LiveError> {
        let mut away = false;
        let mut read_before = false;
        loop {
            let lost = match self.open(heard).await {
                Ok(Opened::Stopped) => return Ok(()),
                Ok(Opened::Reading(consumer)) => {
                    read_before = true;
                    if std::mem::take(&mut away) && heard(Heard::Back).is_break() {
                        return Ok(());
                    }
                    match self.read(&consumer, until_caught_up, heard).await {
                        Ok(()) => return Ok(()),
                        Err(lost) => lost,
                    }
                }
                Err(error) if !read_before => return Err(error),
                Err(error) => Lost::Fault(error),
            };
            if let Lost::Fault(error) = lost {
                if !std::mem::replace(&mut away, true)
                    && heard(Heard::Away(error.to_string())).is_break()
                {
                    return Ok(());
                }
                tokio::time::sleep(RETRY_EVERY).await;
            }
        }
    }

    /// Has the server forget what it keeps for this reader.
    pub async fn close(&mut self) {
        if let Some(name) = self.consumer.take() {
            let forget = self.context.delete_consumer_from_stream(name, STREAM);
            // It goes by itself where this fails.
            drop(tokio::time::timeout(CLOSE_WITHIN, forget).await);
        }
    }

    /// A consumer that begins with what is next.
    async fn open(
        &mut self,
        heard: &mut impl FnMut(Heard) -> ControlFlow<()>,
    ) -> Result<Opened, LiveError> {
        self.close().await;
        if self.look(heard).await?.is_break() {
            return Ok(Opened::Stopped);
        }
        let deliver_policy = match (self.next, self.begin) {
            (Some(start_sequence), _) => DeliverPolicy::ByStartSequence { start_sequence },
            (None, Begin::Since(at)) => DeliverPolicy::ByStartTime { start_time: at.datetime() },
            (None, Begin::Now) => DeliverPolicy::New,
        };
        let subjects = self.wanted.subjects();
        let (filter_subject, filter_subjects) = match <[String; 1]>::try_from(subjects) {
            Ok([subject]) => (subject, Vec::new()),
            Err(subjects) => (String::new(), subjects),
        };
        let config = pull::Config {
            deliver_policy,
            ack_policy: AckPolicy::None,
            filter_subject,
            filter_subjects,
            inactive_threshold: INACTIVE_WITHIN,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer: Consumer<pull::Config> = self
            .context
            .create_consumer_on_stream(config, STREAM)
            .await
            .map_err(|error| LiveError::of(&error))?;
        self.consumer = Some(consumer.cached_info().name.clone());
        Ok(Opened::Reading(Box::new(consumer)))
    }

    /// Looks at the stream: whether it still has what is next, and is the same.
    async fn look(
        &mut self,
        heard: &mut impl FnMut(Heard) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, LiveError> {
        let info = api::stream_info(&self.context, STREAM).await;
        let info = info.map_err(|error| LiveError::of(&error))?;
        let Some(info) = info else {
            let error = "there is no stream WAKE_AUDIT; run: wakegate streams apply".to_owned();
            return Err(LiveError { error });
        };
        let number = |name: &str| info["state"][name].as_u64().unwrap_or(0);
        let (first, last) = (number("first_seq"), number("last_seq"));
        self.kept = info["config"]["max_msgs_per_subject"].as_u64().unwrap_or(0);
        self.end.get_or_insert(last);
        let created = api::created(&info);
        let other = self.created.is_some() && self.created != created;
        self.created = created;
        if self.next.is_none() && self.begin == Begin::Now {
            self.next = Some(last + 1);
        }
        let Some(next) = self.next else { return Ok(ControlFlow::Continue(())) };
        if other || last + 1 < next {
            let from = if other { first.max(1) } else { last + 1 };
            self.next = Some(from);
            return Ok(heard(Heard::Anew { from }));
        }
        if next < first {
            self.next = Some(first);
            return Ok(heard(Heard::Dropped { from: next, to: first - 1 }));
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn read(
        &mut self,
        consumer: &Consumer<pull::Config>,
        until_caught_up: bool,
        heard: &mut impl FnMut(Heard) -> ControlFlow<()>,
    ) -> Result<(), Lost> {
        let mut delivered = 0;
        if until_caught_up && consumer.cached_info().num_pending == 0 {
            return Ok(());
        }
        loop {
            let batch = consumer.batch().max_messages(BATCH_EVENTS_MAX).expires(BATCH_WITHIN);
            let mut batch = batch.messages().await.map_err(|error| LiveError::of(&error))?;
            let mut arrived = false;
            let patience = BATCH_WITHIN + BATCH_GRACE;
            while let Ok(Some(message)) = tokio::time::timeout(patience, batch.next()).await {
                let message = message.map_err(|error| LiveError { error: error.to_string() })?;
                let info =
                    message.info().map_err(|error| LiveError { error: error.to_string() })?;
                arrived = true;
                delivered += 1;
                if info.consumer_sequence != delivered {
                    return Err(Lost::Skipped);
                }
                let (sequence, pending) = (info.stream_sequence, info.pending);
                let at = UtcMicros::from_datetime(info.published);
                if self.step(sequence, pending, heard).is_break()
                    || self.hand_on(&message, sequence, at, heard).is_break()
                {
                    return Ok(());
                }
                let end = self.end.unwrap_or(0);
                if until_caught_up && (pending == 0 || sequence >= end) {
                    return Ok(());
                }
            }
            if arrived {
                continue;
            }
            // Nothing came: because there is nothing, or because it was lost on the way.
            let info = consumer.get_info().await.map_err(|error| LiveError::of(&error))?;
            if info.delivered.consumer_sequence != delivered {
                return Err(Lost::Skipped);
            }
            if until_caught_up && info.num_pending == 0 {
                return Ok(());
            }
        }
    }

    /// Counts a message, and tells what was dropped before it, or may be behind it.
    fn step(
        &mut self,
        sequence: u64,
        pending: u64,
        heard: &mut impl FnMut(Heard) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let expected = self.next.replace(sequence + 1);
        if self.wanted.is_everything() {
            return match expected {
                Some(from) if from < sequence => heard(Heard::Dropped { from, to: sequence - 1 }),
                _ => ControlFlow::Continue(()),
            };
        }
        // Of one subject an event is dropped only behind as many newer ones, all of which wait.
        let behind = self.kept > 0 && pending >= self.kept;
        let newly = behind && !std::mem::replace(&mut self.behind, behind);
        self.behind = behind;
        if newly {
            return heard(Heard::Behind { pending, kept: self.kept });
        }
        ControlFlow::Continue(())
    }

    fn hand_on(
        &self,
        message: &jetstream::Message,
        sequence: u64,
        at: UtcMicros,
        heard: &mut impl FnMut(Heard) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Ok(record @ Value::Object(_)) = serde_json::from_slice(&message.payload) else {
            return heard(Heard::Stray { sequence });
        };
        let id = message.headers.as_ref().and_then(|headers| headers.get(NATS_MESSAGE_ID));
        let event = LiveEvent {
            sequence,
            at,
            subject: message.subject.to_string(),
            message_id: id.map(|id| id.as_str().to_owned()),
            record,
        };
        if self.wanted.takes(&event) {
            heard(Heard::Event(event))
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// What opening came to.
enum Opened {
    /// There is something to read.
    Reading(Box<Consumer<pull::Config>>),
    /// Nobody wants to hear more.
    Stopped,
}
