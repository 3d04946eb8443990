//! Everything in the worker that could grow is driven to its bound: `docs/limits.md`.

mod batch;
mod broker;
mod http;
mod memory;
mod races;
mod saturated;
mod streams;
