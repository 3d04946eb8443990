//! Making the server match.

use std::fmt;

use async_nats::jetstream::Context;
use serde_json::Value;

use super::compare::{self, Difference, Effect, FieldDifference, How, Kind, Object};
use super::declared::{Topology, partitions_of};
use super::{RUN_EVENTS, TopologyError, WAKE_AUDIT, WAKES, api, lane_consumer};
use crate::wake::UtcMicros;

/// What `apply` did, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Nothing where the server was as declared.
    pub changes: Vec<Change>,
}

/// One thing that `apply` did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was missing.
    Created(Object),
    /// Fields were changed.
    Updated(Object, Vec<FieldDifference>),
    /// The consumer of a lane that is no longer declared, with nothing pending.
    Removed(Object),
    /// The consumer of a lane that is not declared, which has something pending all the same.
    Kept(Object, String),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.changes.is_empty() {
            return f.write_str("the server is as declared; nothing was changed\n");
        }
        for change in &self.changes {
            match change {
                Change::Created(object) => writeln!(f, "created {object}")?,
                Change::Removed(object) => writeln!(f, "removed {object}")?,
                Change::Kept(object, why) => writeln!(f, "kept {object}: {why}")?,
                Change::Updated(object, fields) => {
                    writeln!(f, "updated {object}")?;
                    for field in fields {
                        writeln!(f, "  {}: {} is now {}", field.field, field.found, field.wanted)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What the server has, as it was asked.
pub(super) struct Survey {
    wakes: Option<Value>,
    wake_audit: Option<Value>,
    run_events: Option<Value>,
    /// By lane, of the declared lanes.
    lanes: Vec<Option<Value>>,
    /// Lanes beyond the declared ones that have a consumer.
    strays: Vec<u32>,
}

impl Survey {
    /// Asks for the streams and the consumers of lanes `0..partitions`.
    pub(super) async fn take(context: &Context, partitions: u32) -> Result<Self, TopologyError> {
        let wakes = api::stream_info(context, WAKES).await?;
        let wake_audit = api::stream_info(context, WAKE_AUDIT).await?;
        let run_events = api::stream_info(context, RUN_EVENTS).await?;
        let mut lanes = Vec::new();
        for lane in 0..partitions {
            lanes.push(match wakes {
                Some(_) => api::consumer_info(context, WAKES, &lane_consumer(lane)).await?,
                None => None,
            });
        }
        Ok(Self { wakes, wake_audit, run_events, lanes, strays: Vec::new() })
    }

    /// Adds the consumers of lanes that are not declared.
    pub(super) async fn look_for_strays(
        &mut self,
        context: &Context,
        partitions: u32,
    ) -> Result<(), TopologyError> {
        if self.wakes.is_none() {
            return Ok(());
        }
        let names = api::consumer_names(context, WAKES).await?;
        let lanes = names.iter().filter_map(|name| name.strip_prefix("lane-")?.parse().ok());
        self.strays = lanes.filter(|lane| *lane >= partitions).collect();
        self.strays.sort_unstable();
        Ok(())
    }

    pub(super) fn differences(&self, topology: &Topology, batch_wakes_max: u32) -> Vec<Difference> {
        let mut differences = Vec::new();
        let mut note = |object: &Object, how: How| {
            differences.push(Difference { object: object.clone(), how });
        };
        for (stream, wanted, found) in [
            (WAKES, &topology.wakes, &self.wakes),
            (WAKE_AUDIT, &topology.wake_audit, &self.wake_audit),
            (RUN_EVENTS, &topology.run_events, &self.run_events),
        ] {
            let object = Object::Stream(stream.to_owned());
            match found {
                None => note(&object, How::Missing),
                Some(info) => {
                    for field in stream_fields(wanted, &info["config"]) {
                        note(&object, How::Field(field));
                    }
                }
            }
        }
        for ((name, wanted), found) in topology.lanes(batch_wakes_max).zip(&self.lanes) {
            let object = consumer(name);
            match found {
                None => note(&object, How::Missing),
                Some(info) => {
                    for field in compare::fields(Kind::Lane, &wanted, &info["config"]) {
                        note(&object, How::Field(field));
                    }
                }
            }
        }
        for lane in &self.strays {
            note(&consumer(lane_consumer(*lane)), How::Stray);
        }
        differences
    }

    /// When the intake stream was created.
    pub(super) fn created(&self) -> Result<UtcMicros, TopologyError> {
        self.wakes.as_ref().and_then(api::created).ok_or_else(|| TopologyError::Request {
            request: format!("STREAM.INFO.{WAKES}"),
            error: "the answer names no time of creation".to_owned(),
        })
    }
}

/// The fields of a stream, with the number of partitions named as such.
fn stream_fields(wanted: &Value, found: &Value) -> Vec<FieldDifference> {
    let mut fields = compare::fields(Kind::Stream, wanted, found);
    if let (Some(wanted), Some(found)) = (partitions_of(wanted), partitions_of(found))
        && wanted != found
    {
        fields.retain(|field| field.field != "subject_transform.dest");
        fields.push(FieldDifference {
            field: "partitions".to_owned(),
            wanted: wanted.to_string(),
            found: found.to_string(),
            effect: Effect::Behaviour,
            unchangeable: None,
        });
    }
    fields
}

fn consumer(name: String) -> Object {
    Object::Consumer { stream: WAKES.to_owned(), name }
}

impl Topology {
    /// Creates and updates streams and consumers until the server is as declared; a second call
    /// changes nothing. Either everything can be changed or nothing is.
    ///
    /// The number of partitions changes only while every lane has decided all it holds: a wake
    /// already stored stays in its old lane, and a later one of the same task would overtake it in
    /// a new one. Lanes beyond the declared number lose their consumers.
    ///
    /// # Errors
    /// [`TopologyError::Unchangeable`] and [`TopologyError::PartitionsInUse`] say what to do.
    pub async fn apply(
        &self,
        context: &Context,
        batch_wakes_max: u32,
    ) -> Result<Report, TopologyError> {
        let mut survey = Survey::take(context, self.partitions()).await?;
        survey.look_for_strays(context, self.partitions()).await?;
        let mut differences = survey.differences(self, batch_wakes_max);
        if differences.iter().any(|difference| difference.unchangeable().is_some()) {
            differences.retain(|difference| difference.unchangeable().is_some());
            return Err(TopologyError::Unchangeable(differences));
        }
        if let Some(info) = &survey.wakes {
            self.guard_partitions(context, info).await?;
        }

        let mut report = Report::default();
        // These first: a worker that finds the intake stream must find them too.
        for (name, wanted, found) in [
            (WAKE_AUDIT, &self.wake_audit, &survey.wake_audit),
            (RUN_EVENTS, &self.run_events, &survey.run_events),
        ] {
            put_stream(context, name, wanted, found.as_ref(), &mut report).await?;
        }
        put_stream(context, WAKES, &self.wakes, survey.wakes.as_ref(), &mut report).await?;
        let strays = self.guard_strays(context, &survey).await?;
        for ((name, wanted), found) in self.lanes(batch_wakes_max).zip(&survey.lanes) {
            put_lane(context, name, &wanted, found.as_ref(), &mut report).await?;
        }
        for (lane, undecided) in strays {
            let name = lane_consumer(lane);
            if let Some(why) = undecided {
                report.changes.push(Change::Kept(consumer(name), why));
                continue;
            }
            api::delete_consumer(context, WAKES, &name).await?;
            report.changes.push(Change::Removed(consumer(name)));
        }
        Ok(report)
    }

    /// Refuses to change what puts a task into a lane while a lane has anything to decide.
    async fn guard_partitions(&self, context: &Context, info: &Value) -> Result<(), TopologyError> {
        let config = &info["config"];
        if config["subject_transform"] == self.wakes["subject_transform"] {
            return Ok(());
        }
        let from = partitions_of(config);
        let refuse = |why: String| TopologyError::PartitionsInUse {
            from: from.map_or_else(|| "no number known here".to_owned(), |from| from.to_string()),
            to: self.partitions(),
            why,
        };
        let stored = info["state"]["messages"].as_u64().unwrap_or(0);
        if stored == 0 {
            return Ok(());
        }
        let Some(lanes) = from else {
            return Err(refuse(format!("{stored} wakes are stored under no lane")));
        };
        for lane in 0..lanes {
            if let Some(why) = undecided(context, lane).await? {
                return Err(refuse(why));
            }
        }
        Ok(())
    }

    /// The lanes that are not declared, each with what it has not decided.
    ///
    /// A wake may have been published between the look at the lanes and the change of the
    /// transform. Where it went to a lane that is about to go, the old transform is put back; the
    /// lanes of the new one are a part of the old one's, so nothing is left behind either way.
    async fn guard_strays(
        &self,
        context: &Context,
        survey: &Survey,
    ) -> Result<Vec<(u32, Option<String>)>, TopologyError> {
        let old = survey.wakes.as_ref().map(|info| &info["config"]);
        let from = old.and_then(partitions_of).unwrap_or(0);
        let mut strays = Vec::new();
        for lane in survey.strays.iter().copied() {
            let undecided = undecided(context, lane).await?;
            if let (Some(why), Some(old)) = (&undecided, old)
                && lane < from
            {
                api::update_stream(context, WAKES, old).await?;
                return Err(TopologyError::PartitionsInUse {
                    from: from.to_string(),
                    to: self.partitions(),
                    why: why.clone(),
                });
            }
            strays.push((lane, undecided));
        }
        Ok(strays)
    }
}

/// What a lane has not decided, in words.
async fn undecided(context: &Context, lane: u32) -> Result<Option<String>, TopologyError> {
    let name = lane_consumer(lane);
    let Some(info) = api::consumer_info(context, WAKES, &name).await? else {
        return Ok(Some(format!("{name} has no consumer, so what it has decided is not known")));
    };
    let pending = info["num_pending"].as_u64().unwrap_or(0);
    let unacknowledged = info["num_ack_pending"].as_u64().unwrap_or(0);
    Ok(match (pending, unacknowledged) {
        (0, 0) => None,
        _ => Some(format!("{name} has {pending} wakes pending and {unacknowledged} in work")),
    })
}

async fn put_stream(
    context: &Context,
    name: &str,
    wanted: &Value,
    found: Option<&Value>,
    report: &mut Report,
) -> Result<(), TopologyError> {
    let object = Object::Stream(name.to_owned());
    let Some(found) = found.map(|info| &info["config"]) else {
        api::create_stream(context, name, wanted).await?;
        report.changes.push(Change::Created(object));
        return Ok(());
    };
    let fields = stream_fields(wanted, found);
    if !fields.is_empty() {
        api::update_stream(context, name, &overlay(found, wanted)).await?;
        report.changes.push(Change::Updated(object, fields));
    }
    Ok(())
}

async fn put_lane(
    context: &Context,
    name: String,
    wanted: &Value,
    found: Option<&Value>,
    report: &mut Report,
) -> Result<(), TopologyError> {
    let Some(found) = found.map(|info| &info["config"]) else {
        api::put_consumer(context, WAKES, &name, wanted).await?;
        report.changes.push(Change::Created(consumer(name)));
        return Ok(());
    };
    let fields = compare::fields(Kind::Lane, wanted, found);
    if !fields.is_empty() {
        let mut config = overlay(found, wanted);
        if compare::is_rewound(found) {
            config["deliver_policy"] = found["deliver_policy"].clone();
        }
        api::put_consumer(context, WAKES, &name, &config).await?;
        report.changes.push(Change::Updated(consumer(name), fields));
    }
    Ok(())
}

/// What the server has, with every declared field as declared: an update puts back to its default
/// whatever it leaves out.
fn overlay(found: &Value, wanted: &Value) -> Value {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let mut merged = found.clone();
            for (name, value) in wanted {
                let under = found.get(name).unwrap_or(&Value::Null);
                merged.insert(name.clone(), overlay(under, value));
            }
            Value::Object(merged)
        }
        _ => wanted.clone(),
    }
}
