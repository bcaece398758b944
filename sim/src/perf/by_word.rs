//! What a volume chooses, in files: by the words of the core's table of choices.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;
use weft_core::policy::Valued;

/// As its word.
pub fn serialize<T: Valued, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.word())
}

/// By its word.
pub fn deserialize<'de, T: Valued, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::named(&String::deserialize(from)?).map_err(D::Error::custom)
}

/// The same, where it may be left out.
pub mod optional {
    use super::{Deserialize, Deserializer, Error, Serializer, Valued};

    /// As its word.
    pub fn serialize<T: Valued, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.serialize_str(value.word()),
            None => serializer.serialize_none(),
        }
    }

    /// By its word.
    pub fn deserialize<'de, T: Valued, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let word = Option::<String>::deserialize(from)?;
        word.map(|word| T::named(&word).map_err(D::Error::custom)).transpose()
    }
}
