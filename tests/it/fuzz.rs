//! Fuzz targets over whatever comes from outside: events, payloads, configuration, and the records
//! made of them. As ordinary tests they replay their corpus (`tests/it/fuzz/__fuzz__`) and some
//! thousand inputs made at random; `make fuzz TARGET=payload SECONDS=60` goes on for longer.
//!
//! Each target takes bytes and asserts. They come as they are, spelled from a vocabulary that gets
//! far into the grammar, and as kept inputs with pieces changed.

mod checks;
mod configuration;
mod decode;
mod inputs;
mod outcome;
mod payload;
