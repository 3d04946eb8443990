//! The report as one page with everything in it: no script, nothing fetched.

use std::fmt::Write as _;

use crate::cells::{Cell, Unit};
use crate::database::Dialect;
use crate::report::{Report, Row};
use crate::tables::Table;

const WIDTH: f64 = 760.0;
const LABEL_WIDTH: f64 = 230.0;
const BAR_HEIGHT: f64 = 16.0;
const COLOURS: [&str; 6] = ["#3b6ea8", "#c2662d", "#4d8f5b", "#8a5aa3", "#a8943b", "#7a7a7a"];
const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:800px;margin:2em auto;padding:0 1em}
svg{width:100%;height:auto;display:block}text{font:12px system-ui,sans-serif;fill:currentColor}
.axis{stroke:currentColor;stroke-opacity:.25}.whisker{stroke:currentColor;stroke-width:1.5}
pre{font:12px/1.4 ui-monospace,monospace;overflow-x:auto}.quick{color:#b33}";

/// The page.
pub(crate) fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <title>wakegate: benchmark</title><style>{STYLE}</style>\n<h1>wakegate: benchmark</h1>\n"
    );
    if report.quick {
        page.push_str(
            "<p class=\"quick\">Quick form: shows that it works, not how fast it is.</p>",
        );
    }
    let _ = writeln!(
        page,
        "<p>Medians of {} round(s); a line shows the least and the greatest. Compare within this \
         page only. The whole run took {} s.</p>",
        report.rounds,
        report.took.as_secs()
    );
    for (title, plot) in [
        ("Throughput, events per second", throughput(report)),
        ("Processor, seconds per million events", processor(report)),
        ("Latency, from publish to the outcome", latency(report)),
        ("Time per event against table size, mixed workload", table_size(report)),
    ] {
        if let Some(plot) = plot {
            let _ = writeln!(page, "<h2>{title}</h2>\n{plot}");
        }
    }
    let _ = writeln!(page, "<h2>Figures</h2>\n<pre>{}</pre>\n</html>", escaped(&report.table()));
    page
}

fn throughput(report: &Report) -> Option<String> {
    let rows: Vec<&Row> =
        report.rows.iter().filter(|row| row.cell.unit() == Unit::EventsPerSecond).collect();
    let most = rows.iter().map(|row| row.max()).reduce(f64::max)?;
    let scale = (WIDTH - LABEL_WIDTH - 70.0) / most;
    let mut plot = String::new();
    for (at, row) in rows.iter().enumerate() {
        let middle = line(&mut plot, at, &row.cell.name());
        let width = row.median().value * scale;
        bar(&mut plot, at, LABEL_WIDTH, width, colour(row.cell));
        let (from, to) = (LABEL_WIDTH + row.min() * scale, LABEL_WIDTH + row.max() * scale);
        let _ = write!(
            plot,
            "<line class=\"whisker\" x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" \
             y2=\"{middle}\"/><text x=\"{:.1}\" y=\"{:.1}\">{:.0}</text>",
            to.max(LABEL_WIDTH + width) + 6.0,
            middle + 4.0,
            row.median().value
        );
    }
    Some(svg(rows.len() as f64 * (BAR_HEIGHT + 6.0) + 6.0, &plot))
}

fn colour(cell: Cell) -> &'static str {
    match cell {
        Cell::Worker { .. }
        | Cell::Latency { .. }
        | Cell::Ceilings { .. }
        | Cell::Claims { .. }
        | Cell::Claim { .. } => COLOURS[0],
        Cell::Plain { .. } => COLOURS[1],
        Cell::Insert { .. } | Cell::InsertLarge { .. } | Cell::Together { .. } => COLOURS[2],
        Cell::Table { .. } => COLOURS[3],
        Cell::Publish { .. } | Cell::Noop | Cell::Receive { .. } => COLOURS[5],
    }
}

fn processor(report: &Report) -> Option<String> {
    const PARTS: [(&str, &str); 3] =
        [("worker", "/cpu/worker"), ("nats-server", "/cpu/nats"), ("PostgreSQL", "/cpu/postgres")];
    let parts = |row: &Row| PARTS.map(|(_, pointer)| row.detail(pointer).unwrap_or(0.0));
    let rows: Vec<&Row> =
        report.rows.iter().filter(|row| row.detail("/cpu/worker").is_some()).collect();
    let most = rows.iter().map(|row| parts(row).iter().sum()).reduce(f64::max)?;
    let scale = (WIDTH - LABEL_WIDTH - 70.0) / most;
    let mut plot = String::new();
    for (at, row) in rows.iter().enumerate() {
        let middle = line(&mut plot, at, &row.cell.name());
        let mut from = LABEL_WIDTH;
        for (part, colour) in parts(row).into_iter().zip(COLOURS) {
            bar(&mut plot, at, from, part * scale, colour);
            from += part * scale;
        }
        let total: f64 = parts(row).iter().sum();
        let _ = write!(
            plot,
            "<text x=\"{:.1}\" y=\"{:.1}\">{total:.1}</text>",
            from + 6.0,
            middle + 4.0
        );
    }
    let bottom = rows.len() as f64 * (BAR_HEIGHT + 6.0) + 6.0;
    plot.push_str(&legend(&PARTS.map(|(name, _)| name.to_owned()), bottom));
    Some(svg(bottom + 24.0, &plot))
}

fn latency(report: &Report) -> Option<String> {
    let curves: Vec<Curve> = report
        .rows
        .iter()
        .filter_map(|row| {
            let points = row.median().details.get("curve")?.as_array()?;
            let point = |point: &serde_json::Value| {
                // Nines apart: 90, 99 and 99.9 percent are at equal distances.
                let below = point.get(0)?.as_f64()? / 100.0;
                Some((-(1.0 - below).log10(), point.get(1)?.as_f64()?.max(1e-3).log10()))
            };
            Some(Curve { name: row.cell.name(), points: points.iter().filter_map(point).collect() })
        })
        .collect();
    let across = [(0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %")]
        .map(|(below, name): (f64, &str)| (-(1.0 - below).log10(), name.to_owned()));
    let up = [0.1, 1.0, 10.0, 100.0, 1000.0].map(|ms: f64| (ms.log10(), format!("{ms} ms")));
    chart(&curves, &across, &up)
}

fn table_size(report: &Report) -> Option<String> {
    let curve = |dialect: Dialect| {
        let points = [Table::Fresh, Table::Analysed, Table::Grown, Table::Large]
            .into_iter()
            .filter_map(|table| {
                let row = report.row(Cell::Table { dialect, table })?;
                Some((row.detail("/rows_before")? / 1e6, 1e6 / row.median().value))
            })
            .collect();
        Curve { name: format!("wakegate {dialect}"), points }
    };
    let curves = Dialect::BOTH.map(curve);
    let most = curves
        .iter()
        .flat_map(|curve| &curve.points)
        .fold((0.0, 0.0), |most, point| (f64::max(most.0, point.0), f64::max(most.1, point.1)));
    let ticks = |most: f64, digits: usize, unit: &str| {
        [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| {
            let at = most * part;
            (at, format!("{at:.digits$} {unit}"))
        })
    };
    chart(&curves, &ticks(most.0, 2, "M rows"), &ticks(most.1 * 1.2, 0, "µs"))
}

struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

/// Lines over two axes, whose ticks are at least two and say how far the axes reach.
fn chart(curves: &[Curve], across: &[(f64, String)], up: &[(f64, String)]) -> Option<String> {
    const HEIGHT: f64 = 280.0;
    const LEFT: f64 = 90.0;
    let drawn: Vec<&Curve> = curves.iter().filter(|curve| curve.points.len() > 1).collect();
    let reach = |ticks: &[(f64, String)]| Some((ticks.first()?.0, ticks.last()?.0));
    let ((left, right), (bottom, top)) = (reach(across)?, reach(up)?);
    if drawn.is_empty() || right <= left || top <= bottom {
        return None;
    }
    let x = |at: f64| LEFT + (at - left) / (right - left) * (WIDTH - LEFT - 60.0);
    let y = |at: f64| HEIGHT - (at - bottom) / (top - bottom) * (HEIGHT - 20.0);
    let mut plot = String::new();
    for (at, name) in across {
        let at = x(*at);
        let _ = write!(
            plot,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"20\" y2=\"{HEIGHT}\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
            HEIGHT + 18.0
        );
    }
    for (at, name) in up {
        let at = y(*at);
        let _ = write!(
            plot,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            WIDTH - 60.0,
            LEFT - 8.0,
            at + 4.0
        );
    }
    // What was computed for a tick and for a point may differ in the last digit.
    let within = left - 1e-6..=right + 1e-6;
    for (curve, colour) in drawn.iter().zip(COLOURS) {
        let points = curve
            .points
            .iter()
            .filter(|point| within.contains(&point.0))
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1.clamp(bottom, top))));
        let points = points.collect::<Vec<_>>().join(" ");
        let _ = write!(
            plot,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }
    let names: Vec<String> = drawn.iter().map(|curve| curve.name.clone()).collect();
    plot.push_str(&legend(&names, HEIGHT + 28.0));
    Some(svg(HEIGHT + 70.0, &plot))
}

/// A line's label; the height of its middle.
fn line(plot: &mut String, at: usize, name: &str) -> f64 {
    let middle = at as f64 * (BAR_HEIGHT + 6.0) + 6.0 + BAR_HEIGHT / 2.0;
    let _ = write!(
        plot,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        LABEL_WIDTH - 8.0,
        middle + 4.0,
        escaped(name)
    );
    middle
}

fn bar(plot: &mut String, at: usize, from: f64, width: f64, colour: &str) {
    let top = at as f64 * (BAR_HEIGHT + 6.0) + 6.0;
    let _ = write!(
        plot,
        "<rect x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" \
         fill=\"{colour}\"/>"
    );
}

/// Three to a line.
fn legend(names: &[String], top: f64) -> String {
    let mut legend = String::new();
    for (at, (name, colour)) in names.iter().zip(COLOURS).enumerate() {
        let (x, y) = (20.0 + (at % 3) as f64 * 240.0, top + (at / 3) as f64 * 18.0);
        let _ = write!(
            legend,
            "<rect x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            x + 18.0,
            y + 11.0,
            escaped(name)
        );
    }
    legend
}

fn svg(height: f64, plot: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">{plot}</svg>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
