//! What is published again: one record a wake and time, which is made once and finished once.

use wakegate::store::control::Change;
use wakegate::store::postgres::PostgresStore;
use wakegate::store::redrive::{NewRedrive, Published, RedriveStore};
use wakegate::store::sqlite::SqliteStore;
use wakegate::wake::WakeId;

use super::{OPTIONS, at, change};
use crate::harness::outside::Outside;
use crate::harness::{postgres, sqlite};

on_both!(a_redrive_is_recorded_once_and_finished_once, refusals_come_in_order_of_their_wakes);

fn wake(number: u128) -> WakeId {
    uuid::Uuid::from_u128(number).into()
}

fn redrive(number: u128, ordinal: u32, message_id: &str, by: Change) -> NewRedrive {
    NewRedrive {
        wake_id: wake(number),
        ordinal,
        message_id: message_id.to_owned(),
        outcome: "refused",
        outcome_reason: "platform_paused".to_owned(),
        after_sequence: 7,
        by,
    }
}

async fn a_redrive_is_recorded_once_and_finished_once<S: RedriveStore>(store: S, _: Outside) {
    assert_eq!(store.last_redrive(wake(1)).await.unwrap(), None);
    assert_eq!(store.redrives(&[]).await.unwrap(), []);
    let ann = || change("ann", "\u{202e}why\n", 1);
    assert!(store.insert_redrive(&redrive(1, 1, "o.1", ann())).await.unwrap());
    assert!(!store.insert_redrive(&redrive(1, 1, "o.2", change("bob", "b", 2))).await.unwrap());
    let last = store.last_redrive(wake(1)).await.unwrap().unwrap();
    assert_eq!((last.message_id.as_str(), last.actor.as_str()), ("o.1", "ann"));
    assert_eq!((last.reason.as_str(), last.created_at), ("\u{202e}why\n", at(1)));
    assert_eq!((last.after_sequence, last.published), (7, None));

    let published = Published { at: at(3), sequence: 9, wake_id: wake(90) };
    store.finish_redrive(wake(1), 1, &published).await.unwrap();
    let rival = Published { at: at(4), sequence: 10, wake_id: wake(91) };
    store.finish_redrive(wake(1), 1, &rival).await.unwrap();
    let last = store.last_redrive(wake(1)).await.unwrap().unwrap();
    assert_eq!(last.published, Some(published), "what is on record stays");

    for (number, ordinal) in [(1, 2), (2, 1), (3, 1)] {
        let new = redrive(number, ordinal, &format!("o.{number}{ordinal}"), ann());
        assert!(store.insert_redrive(&new).await.unwrap());
    }
    let found = store.redrives(&[wake(2), wake(90), wake(1), wake(8)]).await.unwrap();
    let found: Vec<_> = found.iter().map(|one| (one.wake_id, one.ordinal)).collect();
    assert_eq!(found, [(wake(1), 1), (wake(1), 2), (wake(2), 1)]);
    let as_new = store.redrives(&[wake(90)]).await.unwrap();
    assert_eq!(as_new.len(), 1, "of what it is the redrive");
    assert_eq!(store.last_redrive(wake(1)).await.unwrap().unwrap().ordinal, 2);
    let many: Vec<WakeId> = (0..2_000).map(wake).collect();
    assert_eq!(store.redrives(&many).await.unwrap().len(), 4);
}

async fn refusals_come_in_order_of_their_wakes<S: RedriveStore>(store: S, outside: Outside) {
    for number in [5, 1, 3, 2, 4] {
        outside
            .execute(&format!(
                "INSERT INTO refused_wakes (wake_id, organization_id, reason, record) \
                 VALUES ('{}', 'acme', 'platform_paused', '{{}}')",
                wake(number)
            ))
            .await;
    }
    let page = async |first, limit| -> Vec<WakeId> {
        let rows = store.refused_from(wake(first), limit).await.unwrap();
        rows.into_iter().map(|row| row.wake_id).collect()
    };
    assert_eq!(page(0, 2).await, [wake(1), wake(2)]);
    assert_eq!(page(3, 9).await, [wake(3), wake(4), wake(5)]);
    assert_eq!(page(6, 9).await, []);
}
