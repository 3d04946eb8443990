//! `make bench`: what the stream can do, what the database can do, what a plain worker does, and
//! what wakegate does, side by side in one run on servers of its own. docs/performance.md says how
//! each figure is made.
//!
//! Words on the command line choose measurements: `-- wakegate postgres mixed` runs those whose
//! name holds all three. `--quick` takes few events and one round, `--rounds N` sets the rounds,
//! `--list` names every measurement. `--soak N` measures nothing but whether memory stays flat over N
//! events.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: none is near the limits of its type"
)]

mod cells;
mod claims;
mod database;
mod latency;
mod machine;
mod measure;
#[path = "../../tests/it/harness/nats.rs"]
#[expect(dead_code, reason = "shared with the tests, which also stop and crash it")]
mod nats;
mod plain;
mod plots;
mod postgres;
mod process;
mod report;
mod rows;
mod soak;
mod stream;
mod tables;
mod worker;
mod workloads;

use std::time::{Duration, Instant};

use crate::cells::Cell;
use crate::database::Dialect;
use crate::machine::Machine;
use crate::measure::Bench;
use crate::report::Report;
use crate::stream::Stream;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// What was asked for on the command line.
struct Request {
    quick: bool,
    list: bool,
    rounds: Option<usize>,
    soak: Option<usize>,
    words: Vec<String>,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut request =
            Self { quick: false, list: false, rounds: None, soak: None, words: Vec::new() };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                // Cargo says so to every benchmark.
                "--bench" => {}
                "--quick" => request.quick = true,
                "--list" => request.list = true,
                "--rounds" => {
                    let rounds = arguments.next().ok_or("--rounds wants a number")?;
                    request.rounds = Some(rounds.parse()?);
                }
                "--soak" => {
                    let events = arguments.next().ok_or("--soak wants a number of events")?;
                    request.soak = Some(events.parse()?);
                }
                option if option.starts_with('-') => {
                    return Err(format!("{option} is no option of this benchmark").into());
                }
                word => request.words.extend(word.split_whitespace().map(str::to_owned)),
            }
        }
        Ok(request)
    }

    fn wants(&self, cell: &Cell) -> bool {
        let name = cell.name();
        self.words.iter().all(|word| name.split(' ').any(|part| part == word))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let request = Request::parse(std::env::args().skip(1))?;
    let cells: Vec<Cell> = Cell::all().into_iter().filter(|cell| request.wants(cell)).collect();
    if request.list {
        say(&cells.iter().map(Cell::name).collect::<Vec<_>>().join("\n"));
        return Ok(());
    }
    if cells.is_empty() {
        return Err("no measurement has all of these words in its name; see --list".into());
    }
    let started = Instant::now();
    let bench = Bench::start(request.quick).await?;
    if let Some(events) = request.soak {
        let asked = |dialect: &Dialect| {
            request.words.is_empty()
                || request.words.iter().any(|word| *word == dialect.to_string())
        };
        for dialect in Dialect::BOTH.into_iter().filter(asked) {
            let soaked = soak::soak(&bench, dialect, events).await?;
            say(&serde_json::to_string(&soaked)?);
        }
        return Ok(());
    }
    let rounds = request.rounds.unwrap_or(bench.scale.rounds).max(1);
    let machine = Machine::look(Stream::start().await?.version());
    let mut report = Report::new(request.quick, rounds, &cells, machine);
    // Round by round, so that a slow minute of the machine does not fall on one measurement alone.
    let mut failed = Vec::new();
    for round in 0..rounds {
        for (at, cell) in cells.iter().enumerate() {
            let sample = Box::pin(bench.measure(*cell, round * cells.len() + at)).await;
            let (took, name) = (started.elapsed().as_secs(), cell.name());
            match sample {
                Ok(sample) => {
                    note(&format!("{took:>4} s  {name:<32} {sample}"));
                    report.add(at, sample);
                }
                // It costs its own figure; the minutes that the others took are not lost.
                Err(error) => {
                    note(&format!("{took:>4} s  {name:<32} failed: {error}"));
                    failed.push(format!("{name}: {error}"));
                }
            }
        }
    }
    drop(bench);
    let directory = report.write(started.elapsed())?;
    say(&report.table());
    note(&format!("plots and figures: {}/report.html, report.json", directory.display()));
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// Asks until there is an answer.
async fn eventually<T>(
    what: &str,
    within: Duration,
    mut ask: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = Instant::now() + within;
    let mut looks = tokio::time::interval(LOOK_AGAIN);
    while Instant::now() < deadline {
        looks.tick().await;
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
    }
    Err(format!("waited {} s for {what}", within.as_secs()).into())
}

#[expect(clippy::print_stdout, reason = "the report is what the command is for")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "a run of minutes says how far it is")]
fn note(text: &str) {
    eprintln!("{text}");
}
