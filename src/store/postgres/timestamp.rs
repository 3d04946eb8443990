//! Instants as PostgreSQL's `timestamptz`, exact to the microsecond and over its whole range.
//!
//! The `time` crate's type ends at the year 9999 and would have to be clamped or refused there; the
//! wire format is microseconds anyway.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, Postgres,
};
use sqlx::{Decode, Encode, Type};
use time::OffsetDateTime;

use crate::wake::UtcMicros;

/// Microseconds from 1970-01-01 to 2000-01-01, where PostgreSQL counts from.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// An instant on its way to or from PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timestamp(pub(super) UtcMicros);

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Timestamp {
    fn array_type_info() -> PgTypeInfo {
        <OffsetDateTime as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let micros = self
            .0
            .micros()
            .checked_sub(EPOCH_MICROS)
            .ok_or("an instant lies before what timestamptz can hold")?;
        Encode::<Postgres>::encode(micros, buffer)
    }

    fn size_hint(&self) -> usize {
        size_of::<i64>()
    }
}

impl Decode<'_, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        if value.format() != PgValueFormat::Binary {
            return Err("timestamptz is read in binary form only".into());
        }
        let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?);
        // `infinity` is the largest number; it stays the largest.
        Ok(Self(UtcMicros::from_micros(micros.saturating_add(EPOCH_MICROS))))
    }
}
