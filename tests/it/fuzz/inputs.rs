//! How inputs come about.

use std::path::Path;

/// Pieces of events and payloads.
pub const JSON: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"\"",
    b"\\",
    b" ",
    b"\n",
    b"\t",
    b"null",
    b"true",
    b"false",
    b"0",
    b"-",
    b"1.5e+3",
    b"-0",
    b"9223372036854775807",
    b"18446744073709551616",
    b"1e999",
    b"\"task_id\":",
    b"\"actor_type\":",
    b"\"actor_id\":",
    b"\"payload\":",
    b"\"type\":",
    b"\"task.mutated.v1\"",
    b"\"wake.requested.v1\"",
    b"\"organization_id\":",
    b"\"project_id\":",
    b"\"agent_profile_id\":",
    b"\"acting_agent_id\":",
    b"\"new_assignee_agent_profile_id\":",
    b"\"assignment_generation\":",
    b"\"reason\":",
    b"\"idempotency_key\":",
    b"\"task_assigned\"",
    b"\"agent\"",
    b"\"user\"",
    b"\"t\"",
    b"\"\"",
    b"\"acme\"",
    b"\"org\"",
    b"\\u0000",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"\\u0074",
    b"\\\"",
    b"\\/",
    b"\\u00",
    b"\x00",
    b"\x1f",
    b"\x7f",
    b"\xff",
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"{\"task_id\":\"t\"}",
    b"{\"a\":{\"task_id\":\"x\"}}",
    b"\"{\\\"task_id\\\":\\\"t\\\"}\"",
    b"[[[[[[[[",
    b"]]]]]]]]",
    b"{\"k\":{\"k\":",
    b"task_comment:",
    b"//",
    b"NaN",
    b"'",
    b"\"task\\u005fid\":",
];

/// Pieces of configuration files and of variables.
pub const TOML: &[&[u8]] = &[
    b"[nats]\n",
    b"[database]\n",
    b"[http]\n",
    b"[lanes]\n",
    b"[log]\n",
    b"[shutdown]\n",
    b"[streams]\n",
    b"[nonsense]\n",
    b"url = ",
    b"addr = ",
    b"level = ",
    b"format = ",
    b"batch_wakes_max = ",
    b"hold_backoff_ms_min = ",
    b"connections_max = ",
    b"directory = ",
    b"credentials_file = ",
    b"inbox_prefix = ",
    b"tls_ca_file = ",
    b"deadline_ms = ",
    b"typo = ",
    b"\"",
    b"'",
    b"\"\"\"",
    b"\n",
    b"\r",
    b"=",
    b"#",
    b"{",
    b"}",
    b"[",
    b"]",
    b".",
    b",",
    b"0",
    b"-1",
    b"500",
    b"0x10",
    b"1_000",
    b"99999999999999999999",
    b"1.5",
    b"true",
    b"1979-05-27",
    b"nats://",
    b"tls://",
    b"postgres://",
    b"sqlite://",
    b"u:p@",
    b"@",
    b"host",
    b":4222",
    b":port",
    b"/",
    b"?",
    b"sslmode=require",
    b"&",
    b"password=x",
    b"%",
    b"%2C",
    b"[::1]",
    b"127.0.0.1:0",
    b"info",
    b"json",
    b"\x00",
    b"\xff",
    b"\\",
    b"\\u0000",
    b"\xe2\x80\xae",
    b"_INBOX",
    b" ",
    b";",
];

/// The pieces that the bytes name, one after the other.
pub fn spelled(vocabulary: &[&[u8]], bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| vocabulary[usize::from(*byte) % vocabulary.len()])
        .copied()
        .collect()
}

/// The kept inputs of a target.
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/fuzz/__fuzz__")
        .join(target)
        .join("corpus");
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// One of the kept inputs, with edits that the bytes name: each takes four.
pub fn changed(kept: &[Vec<u8>], bytes: &[u8]) -> Vec<u8> {
    let Some((which, edits)) = bytes.split_first() else { return Vec::new() };
    let mut input = kept[usize::from(*which) % kept.len()].clone();
    for edit in edits.chunks_exact(4) {
        let [how, high, low, value] = *edit else { continue };
        let at = usize::from(u16::from_be_bytes([high, low])) % (input.len() + 1);
        let piece = JSON[usize::from(value) % JSON.len()];
        match how % 6 {
            0 if at < input.len() => input[at] = value,
            1 => drop(input.splice(at..at, piece.iter().copied())),
            2 => drop(input.drain(at..(at + usize::from(value % 9)).min(input.len()))),
            3 => input.truncate(at),
            4 => {
                let other = &kept[usize::from(value) % kept.len()];
                let from = at.min(other.len());
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => {
                let again: Vec<u8> = input[at..].iter().take(usize::from(value)).copied().collect();
                input.extend(again);
            }
        }
    }
    input
}

/// Inputs too large to keep: around the limit of a body, of a scan's depth, of an id.
pub fn edges() -> Vec<Vec<u8>> {
    const BODY: usize = 256 * 1_024;
    let mut edges = Vec::new();
    for bytes in [BODY - 1, BODY, BODY + 1] {
        let frame = |head: &str, tail: &str| {
            let filling = bytes.saturating_sub(head.len() + tail.len());
            format!("{head}{}{tail}", "x".repeat(filling)).into_bytes()
        };
        edges.push(frame(r#"{"type":"task.mutated.v1","task_id":"t","x":""#, r#""}"#));
        edges.push(frame(r#"{"task_id":"t","x":""#, r#""}"#));
        edges.push(frame("", ""));
        edges.push(frame("[database]\nurl = \"", "\"\n"));
    }
    for depth in [127, 128, 129, 10_000, 100_000] {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        edges.push(format!(r#"{{"task_id":"t","x":{open}{close}}}"#).into_bytes());
        edges.push(format!(r#"{{"task_id":"t","x":{open}"#).into_bytes());
        let (open, close) = (r#"{"k":"#.repeat(depth), "}".repeat(depth));
        edges.push(format!(r#"{{"actor_type":"agent","x":{open}0{close}}}"#).into_bytes());
    }
    for id in [255, 256, 257, 1_024, 1_025] {
        let id = "i".repeat(id);
        edges.push(format!(r#"{{"task_id":"{id}","actor_type":"agent"}}"#).into_bytes());
        edges.push(
            format!(
                r#"{{"type":"wake.requested.v1","reason":"r","agent_profile_id":"a","idempotency_key":"{id}"}}"#
            )
            .into_bytes(),
        );
    }
    edges.push(format!(r#"{{"task_id":"t","n":{}}}"#, "9".repeat(100_000)).into_bytes());
    edges.push(format!(r#"{{"task_id":"t",{}}}"#, r#""a":1,"#.repeat(20_000)).into_bytes());
    edges
}
