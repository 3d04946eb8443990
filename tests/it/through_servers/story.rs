//! Events that come to every kind of outcome that can be provoked from outside.

use bytes::Bytes;
use serde_json::{Value, json};

use super::stage::{Asked, Stage, subject};
use crate::harness::outside::Outside;
use crate::harness::world::{Published, brief, mutation, requested};

/// Bytes of a body that is one too large.
const TOO_LARGE: usize = 256 * 1_024 + 1;

/// One event and what became of it.
pub struct Told {
    pub asked: Asked,
    pub record: Value,
    pub body: Bytes,
}

/// An assignment of `agent` to `task` by a person, whose occurrence is `generation`.
pub fn assignment(task: &str, agent: &str, generation: u64) -> Published {
    mutation(0, task, "", agent, json!(generation))
}

/// An assignment of `agent` to `task` by an agent.
pub fn by_agent(task: &str, agent: &str) -> Published {
    mutation(0, task, "lead", agent, json!(1))
}

/// The same event as other bytes.
fn with_body(mut event: Published, body: impl Into<Bytes>) -> Published {
    event.body = body.into();
    event
}

/// Publishes the story, checks each outcome as it comes, and returns all of it in stream order.
pub async fn tell(stage: &Stage) -> Vec<Told> {
    let mut story = Story { stage, told: Vec::new() };
    story.admissions().await;
    story.refusals().await;
    story.no_wakes_and_rejections().await;
    story.told
}

struct Story<'a> {
    stage: &'a Stage,
    told: Vec<Told>,
}

impl Story<'_> {
    /// Publishes together, so that they are seconds apart however busy the machine is.
    async fn tell(&mut self, events: &[(Published, &str)]) {
        let mut asked = Vec::new();
        for (event, _) in events {
            asked.push(self.stage.ask_at(&subject(event), event.body.clone()).await);
        }
        for (asked, (event, expected)) in asked.into_iter().zip(events) {
            let record = self.stage.outcome(&asked).await;
            assert_eq!(brief(&record), *expected, "{record}");
            assert_eq!(record["stream_sequence"], asked.sequence);
            self.told.push(Told { asked, record, body: event.body.clone() });
        }
    }

    async fn admissions(&mut self) {
        let unattributed = json!({ "actor_type": "agent", "actor_id": "lead" });
        self.tell(&[
            (assignment("t1", "a1", 1), "queued"),
            (assignment("t1", "a1", 2), "coalesced"),
            (assignment("t1", "a1", 1), "deduplicated:windowed"),
            (requested(0, "a2", unattributed, Some("k2")), "queued/task_unattributed"),
            (requested(0, "a3", json!({ "task_id": "t3" }), None), "queued"),
            (assignment("t4", "a4", 1), "queued"),
        ])
        .await;
        self.stage.outside.claim_all().await;
        // Older than the look-back of gate 3, so that gate 7 has to find it.
        let day_ago = match self.stage.outside {
            Outside::Sqlite(_) => "requested_at - 90000000000",
            Outside::Postgres(_) => "requested_at - interval '25 hours'",
        };
        let key = "task_assigned:t4:a4:1";
        let aged = format!(
            "UPDATE wake_keys SET requested_at = {day_ago} WHERE idempotency_key = '{key}'"
        );
        self.stage.outside.execute(&aged).await;
        self.tell(&[(assignment("t4", "a4", 1), "deduplicated:durable")]).await;
    }

    async fn refusals(&mut self) {
        let outside = self.stage.outside.clone();
        for status in ["paused", "stopped", "pending_approval"] {
            outside.set_agent("acme", status, status).await;
        }
        let initech = json!({ "organization_id": "initech" });
        outside.pause("pause-initech", Some("initech")).await;
        self.tell(&[
            (assignment("t1", "paused", 1), "refused:agent_paused"),
            (assignment("t1", "stopped", 1), "refused:agent_stopped"),
            (assignment("t1", "pending_approval", 1), "refused:agent_pending_approval"),
            (assignment("t1", "a1", 1).with(initech), "refused:organization_paused"),
            (by_agent("t5", "b1"), "queued"),
            (by_agent("t5", "b2"), "queued"),
            (by_agent("t5", "b3"), "queued"),
            (by_agent("t5", "b4"), "queued"),
            (by_agent("t5", "b5"), "queued"),
            (by_agent("t5", "b6"), "refused:allowance_exhausted"),
        ])
        .await;
        outside.pause("pause-platform", None).await;
        self.tell(&[(assignment("t6", "a6", 1), "refused:platform_paused")]).await;
        outside.resume_all().await;
    }

    async fn no_wakes_and_rejections(&mut self) {
        let event = || assignment("t7", "a7", 1);
        let mut elsewhere = event();
        "globex".clone_into(&mut elsewhere.organization);
        let long = "x".repeat(TOO_LARGE);
        self.tell(&[
            (assignment("t7", "", 1), "no_wake:unassigned"),
            (
                event().with(json!({ "new_assignee_agent_profile_id": null })),
                "no_wake:assignee_unchanged",
            ),
            (with_body(event(), &b"{\"type\":"[..]), "rejected:not_json"),
            (with_body(event(), &b"\xff\xfe{}"[..]), "rejected:not_utf8"),
            (event().with(json!({ "type": "task.moved.v1" })), "rejected:unknown_type"),
            (event().with(json!({ "assignment_generation": -1 })), "rejected:invalid_field"),
            (with_body(event(), long), "rejected:too_large"),
            (elsewhere, "rejected:subject_mismatch"),
        ])
        .await;
    }
}
