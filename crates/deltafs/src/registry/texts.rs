//! How paths stand in the texts of a registry: a text that is no path below a directory is refused
//! where it is read, with its field, line and column.

/// A path with any number of names.
pub(super) mod path {
    use keyrack_vfs::RelativePath;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(path: &RelativePath, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(path.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<RelativePath, D::Error> {
        let text = String::deserialize(from)?;
        RelativePath::new(&text).map_err(|error| D::Error::custom(format!("name: {error}")))
    }
}

/// A single name that is not the storage's own.
pub(super) mod directory {
    use keyrack_vfs::RelativePath;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(path: &RelativePath, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(path.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<RelativePath, D::Error> {
        let text = String::deserialize(from)?;
        if text.starts_with('.') {
            return Err(D::Error::custom(format!("directory: '{text}' begins with a dot")));
        }
        RelativePath::single(&text).map_err(|error| D::Error::custom(format!("directory: {error}")))
    }
}
