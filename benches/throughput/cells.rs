//! Every measurement by its name.

use crate::claims::Depth;
use crate::database::Dialect;
use crate::tables::Table;
use crate::workloads::Workload;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Publishing, with so many not yet acknowledged.
    Publish { outstanding: usize },
    /// Pull and acknowledge, nothing else.
    Noop,
    /// The rows of the all-admit workload, written in bulk.
    Insert { dialect: Dialect, connections: usize },
    /// The same into the largest of the tables below: how much the database itself slows down.
    InsertLarge { dialect: Dialect },
    /// Pull and acknowledge, and the rows that the workload leaves, at once and knowing nothing of
    /// each other: as fast as these cores could work it if deciding cost nothing.
    Together { dialect: Dialect, workload: Workload },
    /// The plain worker on the mixed workload.
    Plain { dialect: Dialect, lanes: usize },
    /// wakegate on an empty database.
    Worker { dialect: Dialect, workload: Workload },
    /// wakegate on an empty database, with its ceilings enforced or not: what gate 6 costs.
    Ceilings { dialect: Dialect, workload: Workload, enforced: bool },
    /// wakegate, mixed workload, on a database that holds something.
    Table { dialect: Dialect, table: Table },
    /// Publish to receive, without a worker.
    Receive { per_second: u32 },
    /// Publish to the run's outcome.
    Latency { dialect: Dialect, per_second: u32 },
    /// Claims by several claimers at once.
    Claims { dialect: Dialect, depth: Depth },
    /// One claim after the other.
    Claim { dialect: Dialect, depth: Depth },
}

/// What a measurement counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    EventsPerSecond,
    /// At the median.
    Milliseconds,
}

pub(crate) const RATES: [u32; 2] = [200, 2_000];

/// Connections of the bulk insert that the worker is compared with; SQLite has one writer.
pub(crate) fn insert_connections(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Postgres => 2,
        Dialect::Sqlite => 1,
    }
}

impl Cell {
    /// All, in the order of the report.
    pub(crate) fn all() -> Vec<Self> {
        let mut cells =
            vec![Self::Publish { outstanding: 1 }, Self::Publish { outstanding: 1024 }, Self::Noop];
        for dialect in Dialect::BOTH {
            let connections = 1..=insert_connections(dialect);
            cells.extend(connections.map(|connections| Self::Insert { dialect, connections }));
            let bounds = [Workload::Mixed, Workload::Admit];
            cells.extend(bounds.map(|workload| Self::Together { dialect, workload }));
            cells.extend([1, 16].map(|lanes| Self::Plain { dialect, lanes }));
            cells.extend(Workload::ALL.map(|workload| Self::Worker { dialect, workload }));
            for workload in bounds {
                let of = |enforced| Self::Ceilings { dialect, workload, enforced };
                cells.extend([false, true].map(of));
            }
        }
        for dialect in Dialect::BOTH {
            cells.extend(Table::ALL.map(|table| Self::Table { dialect, table }));
            cells.push(Self::InsertLarge { dialect });
        }
        cells.extend(RATES.map(|per_second| Self::Receive { per_second }));
        for dialect in Dialect::BOTH {
            cells.extend(RATES.map(|per_second| Self::Latency { dialect, per_second }));
        }
        for dialect in Dialect::BOTH {
            cells.extend(Depth::ALL.map(|depth| Self::Claims { dialect, depth }));
            cells.extend(Depth::ALL.map(|depth| Self::Claim { dialect, depth }));
        }
        cells
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Publish { outstanding: 1 } => "stream publish awaited".to_owned(),
            Self::Publish { .. } => "stream publish pipelined".to_owned(),
            Self::Noop => "stream noop".to_owned(),
            Self::Insert { dialect, connections } => format!("insert {dialect} {connections}"),
            Self::InsertLarge { dialect } => format!("insert {dialect} large"),
            Self::Together { dialect, workload } => format!("together {dialect} {workload}"),
            Self::Plain { dialect, lanes } => format!("plain {dialect} {lanes}"),
            Self::Worker { dialect, workload } => format!("wakegate {dialect} {workload}"),
            Self::Ceilings { dialect, workload, enforced } => {
                let enforced = if *enforced { "on" } else { "off" };
                format!("ceilings {dialect} {workload} {enforced}")
            }
            Self::Table { dialect, table } => format!("table {dialect} {table}"),
            Self::Receive { per_second } => format!("latency stream {per_second}"),
            Self::Latency { dialect, per_second } => format!("latency {dialect} {per_second}"),
            Self::Claims { dialect, depth } => format!("claims {dialect} {depth}"),
            Self::Claim { dialect, depth } => format!("claim {dialect} {depth}"),
        }
    }

    pub(crate) fn unit(&self) -> Unit {
        match self {
            Self::Receive { .. } | Self::Latency { .. } | Self::Claim { .. } => Unit::Milliseconds,
            _ => Unit::EventsPerSecond,
        }
    }
}
