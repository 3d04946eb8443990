//! A scan of a JSON object's top level that accepts any JSON object.
