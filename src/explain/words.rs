//! An explanation for a terminal.

use std::fmt::Write as _;

use super::json::posture;
use super::walk::{Conclusion, GateLine, Walk};
use super::{Explanation, Told};
use crate::admission::decision::{Decision, PriorOutcome};
use crate::wake::Wake;

/// Widest line, where words allow it.
const COLUMNS: usize = 80;

/// Text that came from outside, as a terminal may show it: characters that move the cursor, hide or
/// reorder text become their escapes.
#[must_use]
pub fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let acts = character.is_control()
            || matches!(
                character,
                '\u{ad}'
                    | '\u{61c}'
                    | '\u{180e}'
                    | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}'
                    | '\u{2060}'..='\u{206f}'
                    | '\u{feff}'
                    | '\u{fff9}'..='\u{fffb}'
                    | '\u{e0000}'..='\u{e007f}'
            );
        if acts {
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Text over as many lines as it takes, each but the first indented; a word is never broken.
#[must_use]
pub fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut column = indent;
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > indent && column + 1 + width > COLUMNS {
            lines.push('\n');
            lines.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if column > indent {
            lines.push(' ');
            column += 1;
        }
        lines.push_str(word);
        column += width;
    }
    lines
}

/// The explanation, as lines.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<8} {}", wrapped(&shown(value), 9));
    };
    match &explanation.told {
        Told::NoWake(no_wake) => {
            line("event", &format!("a change of task \"{}\" that wakes nobody", no_wake.task_id));
            line("at", &explanation.at.to_string());
            line("answer", &format!("no_wake: {}", no_wake.cause.as_str()));
        }
        Told::Rejected(rejection) => {
            line("event", "no wake: it is at fault itself");
            line("at", &explanation.at.to_string());
            line("answer", &format!("rejected: {}", rejection.reason.as_str()));
            line("fault", &rejection.fault);
        }
        Told::Wake { wake, walk } => {
            line("event", &of_wake(wake));
            line("at", &explanation.at.to_string());
            line("answer", &answer(walk));
            for refusal in &walk.would_refuse {
                let (gate, reason) = (refusal.gate().as_str(), refusal.as_str());
                line("shadow", &format!("gate {gate} is in shadow; it would refuse: {reason}"));
            }
            if let Some(changes_at) = walk.changes_at {
                line("until", &format!("{changes_at}, nothing else happening"));
            }
            text.push('\n');
            for gate in &walk.gates {
                of_gate(&mut text, gate);
            }
        }
    }
    text
}

fn of_wake(wake: &Wake) -> String {
    let task = match wake.payload.task().task() {
        Some(task) => format!("task \"{task}\""),
        None => "no task".to_owned(),
    };
    format!(
        "a wake of agent \"{}\", reason \"{}\", {task}, organization \"{}\"",
        wake.agent_profile_id, wake.reason, wake.organization_id
    )
}

fn answer(walk: &Walk) -> String {
    match &walk.answer {
        Ok(decision) => of_decision(decision),
        Err(hold) => format!(
            "none: gate {} cannot read and is {}, so the lane waits",
            hold.gate.as_str(),
            posture(hold.posture)
        ),
    }
}

/// A decision in words.
#[must_use]
pub fn of_decision(decision: &Decision) -> String {
    match decision {
        Decision::Admit { degraded: None } => "queued: a new run".to_owned(),
        Decision::Admit { degraded: Some(degraded) } => {
            format!("queued: a new run, degraded: {}", degraded.reason().as_str())
        }
        Decision::Merge { run_id, .. } => format!("coalesced: into run {run_id}"),
        Decision::Deduplicate { kind, run_id }
        | Decision::Repeat(PriorOutcome::Deduplicated { kind, run_id }) => {
            format!("deduplicated: {}, with run {run_id}", kind.as_str())
        }
        Decision::Refuse(refusal) => format!("refused: {}", refusal.as_str()),
        Decision::Repeat(PriorOutcome::Queued { .. }) => "queued, as before".to_owned(),
        Decision::Repeat(PriorOutcome::Coalesced { run_id, .. }) => {
            format!("coalesced, as before: into run {run_id}")
        }
        Decision::Repeat(PriorOutcome::Refused { reason, .. }) => {
            format!("refused, as before: {reason}")
        }
    }
}

fn of_gate(text: &mut String, line: &GateLine) {
    let conclusion = match &line.conclusion {
        Conclusion::Passes if line.in_shadow => "passes, in shadow".to_owned(),
        Conclusion::Passes => "passes".to_owned(),
        Conclusion::PassesDegraded(note) => format!("passes, degraded: {}", note.reason().as_str()),
        Conclusion::Concludes(decision) => of_decision(decision),
        Conclusion::WouldRefuse(refusal) => {
            format!("in shadow, passes; would be refused: {}", refusal.as_str())
        }
        Conclusion::CannotRead(_) => "cannot read, and is open".to_owned(),
        Conclusion::Holds(hold) => format!("cannot read, and is {}", posture(hold.posture)),
        Conclusion::NotReached => "not reached".to_owned(),
    };
    let (number, name) = (line.gate.number(), line.gate.as_str());
    let _ = writeln!(text, "{number} {name:<12}  {}", shown(&conclusion));
    let mut detail = |name: &str, value: &str| {
        let _ = writeln!(text, "    {name:<9} {}", wrapped(&shown(value), 14));
    };
    if let Some(sight) = &line.sight {
        detail("looked at", &sight.looked_at);
        detail("saw", &sight.saw);
    }
    match &line.conclusion {
        Conclusion::CannotRead(failure) => detail("error", &failure.error),
        Conclusion::Holds(hold) => detail("error", &hold.failure.error),
        _ => {}
    }
    if let Some(changes_at) = line.changes_at {
        detail("until", &changes_at.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_as_its_escape() {
        for (text, expected) in [
            ("plain ä 任务 \u{1f600}", "plain ä 任务 \u{1f600}"),
            ("a\nb\r\tc", r"a\nb\r\tc"),
            ("\u{1b}[31m\u{7}\u{9b}", r"\u{1b}[31m\u{7}\u{9b}"),
            ("\u{202e}evil\u{2066}\u{feff}", r"\u{202e}evil\u{2066}\u{feff}"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
