//! One wake, published again once: see [`crate::redrive`] for why it cannot be twice.

use std::str::FromStr as _;

use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{HeaderMap, HeaderValue, Subject};
use uuid::Uuid;

use super::stored::{self, Original, REDRIVE_OF, StoredMessage};
use super::{Candidate, Chosen};
use crate::clock::Clock;
use crate::error_text::one_line;
use crate::store::StoreError;
use crate::store::control::Change;
use crate::store::redrive::{NewRedrive, Published, Redrive, RedriveStore};
use crate::topology::TopologyError;

/// Attempts to publish while others publish for the same task.
const ATTEMPTS_MAX: u32 = 32;

/// Publishes wakes again.
#[derive(Debug, Clone)]
pub struct Post {
    context: Context,
    clock: Clock,
}

/// A redrive that is on record, and not known to be on the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The row.
    pub redrive: Redrive,
    /// The last sequence on the subject before there was the row, where this process wrote it.
    fresh: Option<u64>,
}

/// What became of a wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Posted {
    /// It is on the stream again.
    Published {
        /// The redrive.
        redrive: Redrive,
        /// It was there already, of a redrive that somebody else had begun, or this one before.
        before: bool,
    },
    /// It had been published again already, meanwhile or long since.
    Already(Redrive),
    /// The stream has it no longer.
    Gone,
    /// It cannot be published.
    Unusable(String),
}

/// The rest has to wait.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stream does not.
    #[error(transparent)]
    Stream(#[from] TopologyError),
    /// The stream did not take the message, or did not say so.
    #[error("not stored: {error}")]
    Publish {
        /// The cause chain in one line.
        error: String,
        /// Whether nothing was answered.
        unanswered: bool,
    },
}

impl Post {
    /// On this stream's server.
    #[must_use]
    pub fn new(context: Context, clock: Clock) -> Self {
        Self { context, clock }
    }

    /// What the stream has of a wake.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn original(&self, chosen: &Chosen) -> Result<Original, TopologyError> {
        stored::original(&self.context, chosen).await
    }

    /// Publishes a wake again, on record as `by`; `id` is new and cannot be guessed.
    ///
    /// # Errors
    /// [`PostError`]: what was begun is finished by whoever asks for the same wake next.
    pub async fn redrive<S: RedriveStore>(
        &self,
        store: &S,
        candidate: &Candidate,
        again: bool,
        by: &Change,
        id: Uuid,
    ) -> Result<Posted, PostError> {
        if candidate.is_done(again)
            && let Some(last) = &candidate.last
        {
            return Ok(Posted::Already(last.clone()));
        }
        let Original::There(original) = self.original(&candidate.chosen).await? else {
            return Ok(Posted::Gone);
        };
        if original.published_on().is_none() {
            return Ok(Posted::Unusable("its subject is none that can be published on".to_owned()));
        }
        match self.begin(store, candidate, &original, by, id).await? {
            Ok(begun) => self.finish(store, &begun, &original).await,
            Err(rival) => Ok(Posted::Already(rival)),
        }
    }

    /// The row of what is to be published: a new one, or that of somebody who did not come further.
    /// A redrive that a rival finished meanwhile is none.
    ///
    /// # Errors
    /// A server does not answer.
    pub async fn begin<S: RedriveStore>(
        &self,
        store: &S,
        candidate: &Candidate,
        original: &StoredMessage,
        by: &Change,
        id: Uuid,
    ) -> Result<Result<Begun, Redrive>, PostError> {
        let chosen = &candidate.chosen;
        if let Some(last) = &candidate.last
            && last.published.is_none()
        {
            return Ok(Ok(Begun { redrive: last.clone(), fresh: None }));
        }
        // Before the row: what others publish for it comes behind.
        let after_sequence = self.last_on(original).await?;
        let new = NewRedrive {
            wake_id: chosen.wake_id,
            ordinal: candidate.last.as_ref().map_or(0, |last| last.ordinal) + 1,
            message_id: format!("{}.{id}", original.organization_token().unwrap_or("-")),
            outcome: chosen.verdict.as_str(),
            outcome_reason: chosen.reason.clone(),
            after_sequence,
            by: by.clone(),
        };
        let inserted = store.insert_redrive(&new).await?;
        let on_record = store.last_redrive(chosen.wake_id).await?;
        Ok(match on_record {
            Some(redrive) if redrive.published.is_some() => Err(redrive),
            Some(redrive) => {
                let mine = inserted && redrive.message_id == new.message_id;
                Ok(Begun { redrive, fresh: mine.then_some(after_sequence) })
            }
            None => {
                let error = "the record of a redrive is gone as soon as it is made".to_owned();
                return Err(StoreError::Unavailable { error }.into());
            }
        })
    }

    /// Publishes what was begun, unless it is on the stream, and records as what.
    ///
    /// # Errors
    /// A server does not answer: it stays begun.
    pub async fn finish<S: RedriveStore>(
        &self,
        store: &S,
        begun: &Begun,
        original: &StoredMessage,
    ) -> Result<Posted, PostError> {
        let redrive = &begun.redrive;
        let (found, before) = match self.stored(begun, original).await? {
            Ok(found) => found,
            Err(why) => return Ok(Posted::Unusable(why)),
        };
        let published =
            Published { at: self.clock.now(), sequence: found.sequence, wake_id: found.wake_id() };
        store.finish_redrive(redrive.wake_id, redrive.ordinal, &published).await?;
        let redrive = Redrive { published: Some(published), ..redrive.clone() };
        Ok(Posted::Published { redrive, before })
    }

    /// The message of a redrive, and whether it was there before.
    async fn stored(
        &self,
        begun: &Begun,
        original: &StoredMessage,
    ) -> Result<Result<(StoredMessage, bool), String>, PostError> {
        let Some(subject) = original.published_on() else {
            return Ok(Err("its subject is none that can be published on".to_owned()));
        };
        let mut expected = begun.fresh;
        for _ in 0..ATTEMPTS_MAX {
            let expects = if let Some(expects) = expected {
                expects
            } else {
                // In this order: what comes behind the last one is looked for in vain, and has the
                // server refuse what is published.
                let last = self.last_on(original).await?;
                if let Some(found) = self.look_for(begun, original).await? {
                    return Ok(Ok((found, true)));
                }
                last
            };
            match self.publish(subject.clone(), begun, original, expects).await {
                Ok(ack) => {
                    let found = self.as_stored(begun, original, ack.sequence).await?;
                    return Ok(Ok((found, ack.duplicate)));
                }
                Err(Refused::Moved(Some(last))) if expected.is_none() && last < expects => {
                    // The subject is in another lane than it was.
                    if let Some(found) = self.look_for(begun, original).await? {
                        return Ok(Ok((found, true)));
                    }
                    expected = Some(last);
                }
                Err(Refused::Moved(_)) => expected = None,
                Err(Refused::Unusable(why)) => return Ok(Err(why)),
                Err(Refused::Unavailable { error, unanswered }) => {
                    return Err(PostError::Publish { error, unanswered });
                }
            }
        }
        let error = "others publish for the same task all the time".to_owned();
        Err(PostError::Publish { error, unanswered: false })
    }

    async fn last_on(&self, original: &StoredMessage) -> Result<u64, TopologyError> {
        let everywhere = original.everywhere().unwrap_or_default();
        stored::last_on(&self.context, &everywhere).await
    }

    /// What the stream has of a redrive.
    async fn look_for(
        &self,
        begun: &Begun,
        original: &StoredMessage,
    ) -> Result<Option<StoredMessage>, TopologyError> {
        let everywhere = original.everywhere().unwrap_or_default();
        let mut behind = begun.redrive.after_sequence;
        while let Some(message) = stored::next_on(&self.context, &everywhere, behind).await? {
            if message.message_id() == Some(begun.redrive.message_id.as_str()) {
                return Ok(Some(message));
            }
            behind = message.sequence;
        }
        Ok(None)
    }

    async fn publish(
        &self,
        subject: Subject,
        begun: &Begun,
        original: &StoredMessage,
        expects: u64,
    ) -> Result<PublishAck, Refused> {
        let headers = headers(begun, original, expects).map_err(Refused::Unusable)?;
        let sent = self.context.publish_with_headers(subject, headers, original.body.clone()).await;
        sent.map_err(|error| refused(&error))?.await.map_err(|error| refused(&error))
    }

    /// The message that the server says it stored, or had.
    async fn as_stored(
        &self,
        begun: &Begun,
        original: &StoredMessage,
        sequence: u64,
    ) -> Result<StoredMessage, PostError> {
        let message = stored::at(&self.context, sequence).await?;
        let ours = message.filter(|message| {
            message.message_id() == Some(begun.redrive.message_id.as_str())
                && message.published_on() == original.published_on()
        });
        // Its id cannot be guessed; and what is not to be seen is not to be taken for stored.
        let error = || PostError::Publish {
            error: format!("the server has it as sequence {sequence}, which is another message"),
            unanswered: false,
        };
        ours.ok_or_else(error)
    }
}

/// Why the server did not store a message.
enum Refused {
    /// Something came onto the subject since; the last sequence on it, where that is said.
    Moved(Option<u64>),
    /// It never will.
    Unusable(String),
    /// It may later.
    Unavailable { error: String, unanswered: bool },
}

fn headers(begun: &Begun, original: &StoredMessage, expects: u64) -> Result<HeaderMap, String> {
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    let mut headers = original.headers_again();
    headers.insert(NATS_MESSAGE_ID, value(&begun.redrive.message_id)?);
    headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, value(&expects.to_string())?);
    headers.insert(REDRIVE_OF, value(&begun.redrive.wake_id.to_string())?);
    Ok(headers)
}

fn refused(error: &PublishError) -> Refused {
    let answer = std::error::Error::source(error);
    let answer = answer.and_then(|source| source.downcast_ref::<jetstream::Error>());
    let code = answer.map(jetstream::Error::error_code);
    match error.kind() {
        PublishErrorKind::WrongLastSequence => {
            // "wrong last sequence: 7"
            let said = answer.map(jetstream::Error::to_string).unwrap_or_default();
            let number = said.split(": ").nth(1).map(|rest| {
                rest.bytes().take_while(u8::is_ascii_digit).map(char::from).collect::<String>()
            });
            Refused::Moved(number.and_then(|number| number.parse().ok()))
        }
        PublishErrorKind::MaxPayloadExceeded => Refused::Unusable(one_line(error)),
        _ if code == Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM) => {
            Refused::Unusable(one_line(error))
        }
        kind => Refused::Unavailable {
            error: one_line(error),
            unanswered: kind == PublishErrorKind::TimedOut,
        },
    }
}
