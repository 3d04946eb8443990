//! `task.mutated.v1`: the wake that a task mutation derives.
