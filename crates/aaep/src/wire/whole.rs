//! Deserializes whole numbers in any notation: in JSON, `27579.0` equals `27579`.

use serde::{Deserialize, Deserializer};

/// A type that is deserialized normally or, for whole numbers, from any notation.
pub(super) trait WholeField<'de>: Sized {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Implements [`WholeField`] with the normal deserialization.
macro_rules! plain {
    ($( $type:ty ),* $(,)?) => { $(
        impl<'de> $crate::wire::whole::WholeField<'de> for $type {
            fn read<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <$type as serde::Deserialize>::deserialize(deserializer)
            }
        }
    )* };
}
pub(super) use plain;

plain!(bool, String, Vec<String>, serde_json::Map<String, serde_json::Value>, serde_json::Number);

/// Deserializes a number without a fraction.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    if let Some(whole) = number.as_u64() {
        return Ok(whole);
    }
    #[expect(clippy::cast_precision_loss, reason = "the bound itself is a power of two")]
    let fits = |number: &f64| number.fract() == 0.0 && (0.0..u64::MAX as f64).contains(number);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the filter checks the range"
    )]
    number
        .as_f64()
        .filter(fits)
        .map(|number| number as u64)
        .ok_or_else(|| serde::de::Error::custom(format!("`{number}` is not a whole number from 0")))
}

impl<'de> WholeField<'de> for u64 {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole(deserializer)
    }
}

impl<'de> WholeField<'de> for u32 {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole(deserializer)?.try_into().map_err(serde::de::Error::custom)
    }
}

struct Read<T>(T);

impl<'de, T: WholeField<'de>> Deserialize<'de> for Read<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read(deserializer).map(Read)
    }
}

/// For required fields.
pub(super) fn must<'de, T: WholeField<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::read(deserializer)
}

/// For optional fields.
pub(super) fn may<'de, T: WholeField<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::<Read<T>>::deserialize(deserializer)?.map(|Read(value)| value))
}
