//! The schemas of `docs/schemas`, and whether a document is as they say.

use std::collections::HashMap;
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
