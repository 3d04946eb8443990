//! The schemas of `docs/schemas`, and whether a document is as they say.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::Value;

use super::golden;

static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);

/// The file `docs/schemas/<name>.json`.
pub fn schema(name: &str) -> Value {
    let file = golden::repository().join(format!("docs/schemas/{name}.json"));
    let text = std::fs::read_to_string(&file);
    serde_json::from_str(&text.unwrap_or_else(|e| panic!("{}: {e}", file.display()))).unwrap()
}

/// Fails where the files of `docs/schemas` whose names are `of_these` are not these schemas, by name.
pub fn check_current(
    schemas: impl IntoIterator<Item = (String, Value)>,
    of_these: impl Fn(&str) -> bool,
) {
    let directory = Path::new("docs/schemas");
    let mut names = BTreeSet::new();
    for (name, schema) in schemas {
        let file = format!("{name}.json");
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        golden::check_file(&directory.join(&file), &text);
        names.insert(file);
    }
    let there: BTreeSet<String> = std::fs::read_dir(golden::repository().join(directory))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| of_these(name))
        .collect();
    assert_eq!(there, names, "a file for each, and no other");
}

/// Everything about a document that the schema of this name does not allow; formats are held too.
pub fn faults(name: &str, document: &Value) -> Vec<String> {
    let validator = {
        let mut known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || {
            let options = jsonschema::options().should_validate_formats(true);
            Arc::new(options.build(&schema(name)).unwrap_or_else(|e| panic!("{name}: {e}")))
        };
        Arc::clone(known.entry(name.to_owned()).or_insert_with(make))
    };
    let named = validator.iter_errors(document);
    named.map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
}

/// Fails where a document is not as the schema of this name says.
pub fn hold(name: &str, document: &Value) {
    assert_eq!(faults(name, document), Vec::<String>::new(), "{name}: {document}");
}
