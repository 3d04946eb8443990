//! Which schema a database holds, and whether this program knows it.

use super::StoreError;

/// What a database's schema is to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// Exactly the one this program knows.
    Current,
    /// There is none.
    Missing,
    /// It is older: `wakegate migrate` brings it up.
    Older {
        /// The database's version.
        found: i64,
        /// The version this program knows.
        known: i64,
    },
    /// It is newer: this program is the one to be brought up.
    Newer {
        /// The database's version.
        found: i64,
        /// The version this program knows.
        known: i64,
    },
    /// A migration began and did not end, which only a database whose DDL is not transactional, or
    /// a hand-made change, brings about.
    Unfinished {
        /// The version that is half applied.
        version: i64,
    },
}

impl SchemaState {
    /// From the migrations the database lists, as `(version, success)` in order of version.
    pub(super) fn of(applied: &[(i64, bool)], known: i64) -> Self {
        if let Some(&(version, _)) = applied.iter().find(|(_, success)| !success) {
            return Self::Unfinished { version };
        }
        match applied.last() {
            None => Self::Missing,
            Some(&(found, _)) if found < known => Self::Older { found, known },
            Some(&(found, _)) if found > known => Self::Newer { found, known },
            Some(_) => Self::Current,
        }
    }

    /// What is wrong and what to do, or `None` where nothing is.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Current => None,
            Self::Missing => {
                Some("the database holds no wakegate schema: run `wakegate migrate`".to_owned())
            }
            Self::Older { found, known } => Some(format!(
                "the database's schema is version {found}, this program needs {known}: \
                 run `wakegate migrate`"
            )),
            Self::Newer { found, known } => Some(format!(
                "the database's schema is version {found}, this worker knows {known} only: \
                 the worker is older than the schema, install a newer one"
            )),
            Self::Unfinished { version } => Some(format!(
                "migration {version} of the database's schema did not finish: \
                 restore the database, or finish it by hand"
            )),
        }
    }

    /// The answer of a ping that found this schema.
    pub(super) fn ready(self) -> Result<(), StoreError> {
        self.remedy().map_or(Ok(()), |error| Err(StoreError::Unavailable { error }))
    }
}

/// Why a schema could not be brought up.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The schema is newer than this program, or half applied; nothing was changed.
    #[error("{}", .0.remedy().unwrap_or_default())]
    Schema(SchemaState),
    /// The database's history is not this program's: a migration that was applied has changed or
    /// is unknown.
    #[error("the database's migrations are not those of this program: {error}")]
    History {
        /// Which one.
        error: String,
    },
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_told_from_its_migrations() {
        for (applied, expected) in [
            (vec![], SchemaState::Missing),
            (vec![(1, true)], SchemaState::Older { found: 1, known: 2 }),
            (vec![(1, true), (2, true)], SchemaState::Current),
            (vec![(1, true), (2, true), (3, true)], SchemaState::Newer { found: 3, known: 2 }),
            (vec![(1, true), (2, false)], SchemaState::Unfinished { version: 2 }),
        ] {
            assert_eq!(SchemaState::of(&applied, 2), expected);
        }
    }

    #[test]
    fn only_the_current_schema_needs_no_remedy() {
        assert_eq!(SchemaState::Current.remedy(), None);
        for (state, words) in [
            (SchemaState::Missing, "wakegate migrate"),
            (SchemaState::Older { found: 1, known: 2 }, "wakegate migrate"),
            (SchemaState::Newer { found: 3, known: 2 }, "older than the schema"),
            (SchemaState::Unfinished { version: 2 }, "did not finish"),
        ] {
            let remedy = state.remedy().unwrap();
            assert!(remedy.contains(words), "{remedy}");
            assert!(state.ready().is_err());
        }
    }
}
