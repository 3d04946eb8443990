//! What operators and publishers are given: rules, dashboards, units, manifests and guides, each used
//! as they would use it.

mod deployment;
mod expressions;
mod publishing;
mod rules;
mod scraped;
