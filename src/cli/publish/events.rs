//! An input becomes events: one a line, or values printed over several lines.

use std::collections::VecDeque;
use std::io::BufRead;

use serde_json::value::RawValue;

/// One event as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputEvent {
    /// The line it begins on, from 1.
    pub line: usize,
    /// A JSON value, byte for byte.
    pub body: String,
}

/// An event that cannot be published. It costs only itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct EventFault {
    /// The line it begins on, from 1.
    pub line: usize,
    /// What is wrong, free of control characters.
    pub what: String,
}

/// The events of an input. Lines are read as they are asked for, so that a pipe is published while
/// it is written; only an input whose first line is not whole is read to its end first.
#[derive(Debug)]
pub struct Events<R> {
    input: R,
    line: usize,
    begun: bool,
    ready: VecDeque<Result<InputEvent, EventFault>>,
}

impl<R: BufRead> Events<R> {
    /// Reads from `input`.
    pub fn of(input: R) -> Self {
        Self { input, line: 0, begun: false, ready: VecDeque::new() }
    }

    /// The next line that is not blank, with its number.
    fn next_line(&mut self) -> Option<Result<(usize, Vec<u8>), EventFault>> {
        loop {
            let mut bytes = Vec::new();
            self.line += 1;
            match self.input.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) if bytes.trim_ascii().is_empty() => {}
                Ok(_) => return Some(Ok((self.line, bytes))),
                Err(error) => {
                    let what = format!("cannot be read: {error}");
                    return Some(Err(EventFault { line: self.line, what }));
                }
            }
        }
    }

    /// The first line decides: if it ends within a value, the rest of the input is looked at too.
    fn begin(&mut self) -> Option<Result<InputEvent, EventFault>> {
        let (line, mut bytes) = match self.next_line()? {
            Ok(first) => first,
            Err(fault) => return Some(Err(fault)),
        };
        let unfinished = std::str::from_utf8(&bytes)
            .is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_err_and(|e| e.is_eof()));
        if !unfinished {
            return Some(whole(line, &bytes));
        }
        if let Err(error) = self.input.read_to_end(&mut bytes) {
            return Some(Err(EventFault { line, what: format!("cannot be read: {error}") }));
        }
        self.ready = spread(line, &bytes);
        self.ready.pop_front()
    }
}

impl<R: BufRead> Iterator for Events<R> {
    type Item = Result<InputEvent, EventFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        if !self.begun {
            self.begun = true;
            return self.begin();
        }
        Some(match self.next_line()? {
            Ok((line, bytes)) => whole(line, &bytes),
            Err(fault) => Err(fault),
        })
    }
}

/// One line as one event.
fn whole(line: usize, bytes: &[u8]) -> Result<InputEvent, EventFault> {
    let fault = |what: String| EventFault { line, what };
    let text = std::str::from_utf8(bytes)
        .map_err(|error| fault(format!("is not UTF-8 at byte {}", error.valid_up_to() + 1)))?
        .trim();
    serde_json::from_str::<&RawValue>(text).map_err(|error| {
        fault(format!("is not JSON: {} at column {}", reason(&error), error.column()))
    })?;
    Ok(InputEvent { line, body: text.to_owned() })
}

/// Values over several lines, as printers lay them out. If they do not all parse, and some line is
/// a whole object, then it was meant as one event a line and only the lines at fault are lost.
fn spread(first_line: usize, bytes: &[u8]) -> VecDeque<Result<InputEvent, EventFault>> {
    let Ok(text) = std::str::from_utf8(bytes) else { return by_line(first_line, bytes) };
    let mut events = VecDeque::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    loop {
        let skipped = text[values.byte_offset()..].bytes().take_while(u8::is_ascii_whitespace);
        let at = values.byte_offset() + skipped.count();
        let line = first_line + text[..at].matches('\n').count();
        match values.next() {
            None => return events,
            Some(Ok(value)) => {
                events.push_back(Ok(InputEvent { line, body: value.get().to_owned() }));
            }
            Some(Err(error)) => {
                let is_object = |line: &str| {
                    line.trim_start().starts_with('{')
                        && line.contains(':')
                        && serde_json::from_str::<&RawValue>(line).is_ok()
                };
                if text.lines().any(is_object) {
                    return by_line(first_line, bytes);
                }
                let line = first_line + error.line().saturating_sub(1);
                let what = format!("is not JSON: {} at column {}", reason(&error), error.column());
                events.push_back(Err(EventFault { line, what }));
                return events;
            }
        }
    }
}

fn by_line(first_line: usize, bytes: &[u8]) -> VecDeque<Result<InputEvent, EventFault>> {
    (first_line..)
        .zip(bytes.split(|byte| *byte == b'\n'))
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(line, bytes)| whole(line, bytes))
        .collect()
}

/// The parser's words without its own position, which counts from the wrong line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(input: &[u8]) -> Vec<Result<(usize, String), (usize, String)>> {
        Events::of(input)
            .map(|event| event.map(|e| (e.line, e.body)).map_err(|fault| (fault.line, fault.what)))
            .collect()
    }

    #[test]
    fn inputs_become_events_and_each_fault_costs_only_itself() {
        let ok = |line, body: &str| Ok((line, body.to_owned()));
        let bad = |line, what: &str| Err((line, what.to_owned()));
        for (input, expected) in [
            ("", vec![]),
            ("\n \n", vec![]),
            ("{\"a\":1}", vec![ok(1, "{\"a\":1}")]),
            ("{\"a\":1}\r\n\n{\"b\":2}\n", vec![ok(1, "{\"a\":1}"), ok(3, "{\"b\":2}")]),
            ("{\n \"a\": 1\n}\n", vec![ok(1, "{\n \"a\": 1\n}")]),
            ("\n{\n\"a\":1}\n{\n\"b\":2}\n", vec![ok(2, "{\n\"a\":1}"), ok(4, "{\n\"b\":2}")]),
            (
                "{\"a\":1}\nnope\n{\"b\":2}\n",
                vec![
                    ok(1, "{\"a\":1}"),
                    bad(2, "is not JSON: expected ident at column 2"),
                    ok(3, "{\"b\":2}"),
                ],
            ),
            (
                "{\"a\":1}{\"b\":2}\n{\"c\":3}\n",
                vec![bad(1, "is not JSON: trailing characters at column 8"), ok(2, "{\"c\":3}")],
            ),
            (
                "{\"a\":\n{\"b\":2}\n{\"c\":3}\n",
                vec![
                    bad(1, "is not JSON: EOF while parsing a value at column 5"),
                    ok(2, "{\"b\":2}"),
                    ok(3, "{\"c\":3}"),
                ],
            ),
            ("{\n\"a\": 1,\n\"b\" 2\n}\n", vec![bad(3, "is not JSON: expected `:` at column 5")]),
            ("[1]\n7", vec![ok(1, "[1]"), ok(2, "7")]),
        ] {
            assert_eq!(read(input.as_bytes()), expected, "{input:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_a_fault_of_their_line() {
        assert_eq!(
            read(b"{\"a\":1}\n{\"\xff\":1}\n{\"b\":2}\n"),
            [
                Ok((1, "{\"a\":1}".to_owned())),
                Err((2, "is not UTF-8 at byte 3".to_owned())),
                Ok((3, "{\"b\":2}".to_owned())),
            ]
        );
    }

    #[test]
    fn nesting_of_any_depth_is_read() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(deep.as_bytes()), [Ok((1, deep.clone()))]);
    }
}
