//! What both databases promise of the queue: who is next, who holds what, and counts that are right
//! whoever changes runs.

mod cancelling;
mod claiming;
mod contention;
mod cost;
mod fairness;
pub mod given;
mod holding;
mod lost_answers;
mod readers;
mod statements;
mod triggers;

/// Makes of each `async fn name<S: QueueStore + Store>(world: World<S>)` a test on either database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        $(mod $name {
            use crate::queue_store::given::World;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(World::on_sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(World::on_postgres().await).await;
            }
        })+
    };
}
use on_both;
