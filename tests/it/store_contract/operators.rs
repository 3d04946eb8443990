//! Gates 1 and 2: what operators decided.

use std::collections::HashMap;

use wakegate::admission::facts::{AgentStatus, Pauses};
use wakegate::store::Store as _;

use super::given::{agent, organization};
use super::on_every_store;
use super::subject::Subject;

on_every_store!(agents_are_known_by_organization, active_pauses_are_read);

async fn agents_are_known_by_organization<S: Subject>(subject: S) {
    let mut asked = vec![(organization("acme"), agent("unknown"))];
    let mut expected = HashMap::new();
    for status in AgentStatus::ALL {
        subject.set_agent("acme", status.as_str(), status).await;
        asked.push((organization("acme"), agent(status.as_str())));
        asked.push((organization("other"), agent(status.as_str())));
        expected.insert((organization("acme"), agent(status.as_str())), status);
    }
    subject.set_agent("", "idle", AgentStatus::Stopped).await;
    asked.push((organization(""), agent("idle")));
    expected.insert((organization(""), agent("idle")), AgentStatus::Stopped);
    asked.push(asked[1].clone());
    assert_eq!(subject.store().read_agents(&asked).await.unwrap(), expected);
}

async fn active_pauses_are_read<S: Subject>(subject: S) {
    let asked = [organization("acme"), organization(""), organization("open")];
    let store = subject.store();
    assert_eq!(store.read_pauses(&asked).await.unwrap(), Pauses::default());
    for (tenant, pause_id) in [(Some("acme"), "p1"), (Some(""), "p2"), (Some("unasked"), "p3")] {
        subject.pause(tenant, pause_id).await;
    }
    let organizations = HashMap::from([
        (organization("acme"), "p1".to_owned()),
        (organization(""), "p2".to_owned()),
    ]);
    let expected = Pauses { platform: None, organizations: organizations.clone() };
    assert_eq!(store.read_pauses(&asked).await.unwrap(), expected);

    subject.pause(None, "p4").await;
    let expected = Pauses { platform: Some("p4".to_owned()), organizations };
    assert_eq!(store.read_pauses(&asked).await.unwrap(), expected);
    assert_eq!(store.read_pauses(&[]).await.unwrap().platform.as_deref(), Some("p4"));

    subject.resume().await;
    assert_eq!(store.read_pauses(&asked).await.unwrap(), Pauses::default());
}
