//! What was measured, as a table of 80 columns and as JSON; [`crate::plots`] draws it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cells::{Cell, RATES, Unit, insert_connections};
use crate::database::Dialect;
use crate::machine::Machine;
use crate::measure::Sample;
use crate::tables::Table;
use crate::workloads::Workload;
use crate::{Result, plots};

/// Everything that was measured.
pub(crate) struct Report {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) took: Duration,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
}

/// One measurement in every round.
pub(crate) struct Row {
    pub(crate) cell: Cell,
    samples: Vec<Sample>,
}

/// What the figures are compared by, and what is to be reached.
pub(crate) struct Ratio {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) wanted: Option<f64>,
}

impl Row {
    fn sorted(&self) -> Vec<&Sample> {
        let mut samples: Vec<&Sample> = self.samples.iter().collect();
        samples.sort_by(|a, b| a.value.total_cmp(&b.value));
        samples
    }

    /// The sample in the middle.
    pub(crate) fn median(&self) -> &Sample {
        let sorted = self.sorted();
        sorted[(sorted.len() - 1) / 2]
    }

    pub(crate) fn min(&self) -> f64 {
        self.sorted()[0].value
    }

    pub(crate) fn max(&self) -> f64 {
        self.sorted()[self.samples.len() - 1].value
    }

    /// A number of the median's details.
    pub(crate) fn detail(&self, pointer: &str) -> Option<f64> {
        self.median().details.pointer(pointer)?.as_f64()
    }
}

impl Report {
    pub(crate) fn new(quick: bool, rounds: usize, cells: &[Cell], machine: Machine) -> Self {
        let rows = cells.iter().map(|&cell| Row { cell, samples: Vec::new() }).collect();
        Self { quick, rounds, took: Duration::ZERO, machine, rows }
    }

    pub(crate) fn add(&mut self, at: usize, sample: Sample) {
        self.rows[at].samples.push(sample);
    }

    /// Writes `report.json` and `report.html`, of what could be measured. The directory they are in.
    pub(crate) fn write(&mut self, took: Duration) -> Result<PathBuf> {
        self.rows.retain(|row| !row.samples.is_empty());
        self.took = took;
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let directory = target.parent().ok_or("the target directory has no parent")?.join("bench");
        std::fs::create_dir_all(&directory)?;
        let json = serde_json::to_string_pretty(&self.json())?;
        std::fs::write(directory.join("report.json"), json)?;
        std::fs::write(directory.join("report.html"), plots::page(self))?;
        self.check(&directory)?;
        Ok(directory)
    }

    /// Reads what was written, as whoever compares runs will.
    fn check(&self, directory: &Path) -> Result<()> {
        let json = std::fs::read_to_string(directory.join("report.json"))?;
        let json: Value = serde_json::from_str(&json)?;
        for row in &self.rows {
            let name = row.cell.name();
            let told = json["measurements"].as_array().into_iter().flatten();
            let told: Vec<&Value> = told.filter(|told| told["name"] == *name).collect();
            let [told] = told[..] else { return Err(format!("report.json: no {name}").into()) };
            if told["median"].as_f64().is_none_or(|median| median <= 0.0) {
                return Err(format!("report.json: {name} has no median").into());
            }
        }
        let page = std::fs::read_to_string(directory.join("report.html"))?;
        let whole = page.matches("<svg").count() == page.matches("</svg>").count();
        if whole && page.ends_with("</html>\n") && !page.contains("NaN") {
            return Ok(());
        }
        Err("report.html is not whole".into())
    }

    pub(crate) fn row(&self, cell: Cell) -> Option<&Row> {
        self.rows.iter().find(|row| row.cell == cell)
    }

    /// Those that both sides were measured for.
    pub(crate) fn ratios(&self) -> Vec<Ratio> {
        Dialect::BOTH.into_iter().flat_map(|dialect| self.ratios_of(dialect)).collect()
    }

    fn ratios_of(&self, dialect: Dialect) -> Vec<Ratio> {
        let worker = |workload| Cell::Worker { dialect, workload };
        let table = |table| Cell::Table { dialect, table };
        let is_postgres = dialect == Dialect::Postgres;
        let insert = Cell::Insert { dialect, connections: insert_connections(dialect) };
        let to_noop = if is_postgres { 0.27 } else { 0.22 };
        let plain = Cell::Plain { dialect, lanes: 16 };
        let together = |workload| Cell::Together { dialect, workload };
        let compared = [
            (worker(Workload::Mixed), Cell::Noop, Some(to_noop)),
            (worker(Workload::Mixed), plain, is_postgres.then_some(7.0)),
            (worker(Workload::Admit), insert, Some(0.75)),
            (worker(Workload::Mixed), together(Workload::Mixed), None),
            (worker(Workload::Admit), together(Workload::Admit), None),
            (together(Workload::Mixed), Cell::Noop, None),
            (together(Workload::Admit), insert, None),
            (worker(Workload::Refused), Cell::Noop, None),
            (worker(Workload::Hot), Cell::Noop, None),
            (table(Table::Large), table(Table::Fresh), Some(0.85)),
            (Cell::InsertLarge { dialect }, insert, None),
            (table(Table::Grown), table(Table::Fresh), None),
            (table(Table::Queued), table(Table::Fresh), Some(0.85)),
            (table(Table::Unanalysed), table(Table::Analysed), Some(0.85)),
        ];
        let ratio = |(cell, to, wanted): (Cell, Cell, Option<f64>)| {
            let value = self.row(cell)?.median().value / self.row(to)?.median().value;
            Some(Ratio { what: format!("{} / {}", cell.name(), to.name()), value, wanted })
        };
        compared.into_iter().filter_map(ratio).collect()
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.cell.name(),
                "unit": match row.cell.unit() {
                    Unit::EventsPerSecond => "events_per_second",
                    Unit::Milliseconds => "milliseconds_p50",
                },
                "median": row.median().value,
                "min": row.min(),
                "max": row.max(),
                "rounds": row.samples.iter().map(|sample| sample.value).collect::<Vec<_>>(),
                "details": row.median().details,
            })
        });
        let ratios = self.ratios().into_iter().map(
            |ratio| json!({ "what": ratio.what, "value": ratio.value, "wanted": ratio.wanted }),
        );
        json!({
            "quick": self.quick,
            "rounds": self.rounds,
            "seconds": self.took.as_secs(),
            "machine": self.machine,
            "ratios": ratios.collect::<Vec<_>>(),
            "measurements": rows.collect::<Vec<_>>(),
        })
    }

    /// As text, 80 columns wide; ratios first.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{}\n", self.machine);
        if self.quick {
            text.push_str(
                "QUICK: few events, one round; shows that it works, not how fast it is.\n",
            );
        }
        let ratios = self.ratios();
        if !ratios.is_empty() {
            let _ = writeln!(text, "\n{:<60}{:>10}{:>10}", "ratio of medians", "is", "wanted");
        }
        for ratio in ratios {
            let wanted = ratio.wanted.map_or_else(String::new, |wanted| format!("{wanted:.2}"));
            let _ = writeln!(text, "{:<60}{:>10.2}{wanted:>10}", ratio.what, ratio.value);
        }
        self.throughput(&mut text);
        self.costs(&mut text);
        self.disk(&mut text);
        self.latencies(&mut text);
        text
    }

    fn throughput(&self, text: &mut String) {
        let noop = self.row(Cell::Noop).map(|row| row.median().value);
        let rows = self.rows.iter().filter(|row| row.cell.unit() == Unit::EventsPerSecond);
        for (at, row) in rows.enumerate() {
            if at == 0 {
                let _ = writeln!(
                    text,
                    "\n{:<32}{:>12}{:>12}{:>12}{:>12}",
                    "events/s", "median", "min", "max", "/ noop"
                );
            }
            let ratio =
                noop.map_or_else(String::new, |noop| format!("{:.3}", row.median().value / noop));
            let _ = writeln!(
                text,
                "{:<32}{:>12.0}{:>12.0}{:>12.0}{ratio:>12}",
                row.cell.name(),
                row.median().value,
                row.min(),
                row.max(),
            );
        }
    }

    fn costs(&self, text: &mut String) {
        let rows = self.rows.iter().filter(|row| row.detail("/batch_wakes_mean").is_some());
        for (at, row) in rows.enumerate() {
            if at == 0 {
                let _ = writeln!(
                    text,
                    "\n{:<32}{:>9}{:>8}{:>11}{:>10}{:>10}\n{:<32}{:>9}{:>8}{:>11}{:>10}{:>10}",
                    "CPU seconds per million events",
                    "worker",
                    "nats",
                    "postgres",
                    "memory",
                    "batch",
                    "",
                    "",
                    "",
                    "",
                    "peak MiB",
                    "mean"
                );
            }
            let cell = |pointer: &str| {
                row.detail(pointer).map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
            };
            let _ = writeln!(
                text,
                "{:<32}{:>9}{:>8}{:>11}{:>10}{:>10}",
                row.cell.name(),
                cell("/cpu/worker"),
                cell("/cpu/nats"),
                cell("/cpu/postgres"),
                cell("/memory_peak_mib"),
                cell("/batch_wakes_mean"),
            );
        }
    }

    fn disk(&self, text: &mut String) {
        let rows = self.rows.iter().filter(|row| row.detail("/bytes/stream").is_some());
        for (at, row) in rows.enumerate() {
            if at == 0 {
                let _ = writeln!(
                    text,
                    "\n{:<32}{:>12}{:>12}{:>12}",
                    "bytes per event", "stream", "database", "wal"
                );
            }
            let cell = |pointer: &str| row.detail(pointer).unwrap_or_default();
            let _ = writeln!(
                text,
                "{:<32}{:>12.0}{:>12.0}{:>12.0}",
                row.cell.name(),
                cell("/bytes/stream"),
                cell("/bytes/database"),
                cell("/bytes/wal"),
            );
        }
    }

    fn latencies(&self, text: &mut String) {
        let rows = self.rows.iter().filter(|row| row.cell.unit() == Unit::Milliseconds);
        for (at, row) in rows.enumerate() {
            if at == 0 {
                let rates = RATES.map(|rate| rate.to_string()).join(" and ");
                let _ = writeln!(
                    text,
                    "\n{:<32}{:>12}{:>12}{:>12}{:>12}",
                    format!("ms (at {rates} events/s)"),
                    "p50",
                    "p95",
                    "p99",
                    "max"
                );
            }
            let cell = |pointer: &str| row.detail(pointer).unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "{:<32}{:>12.2}{:>12.2}{:>12.2}{:>12.2}",
                row.cell.name(),
                cell("/p50"),
                cell("/p95"),
                cell("/p99"),
                cell("/max"),
            );
        }
    }
}
