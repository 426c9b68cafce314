//! Where a registry is, as people write it.

use keyrack_deltafs::{Error, Result};
use std::fmt;
use std::path::PathBuf;

/// Schemes with the service that each stands for.
const SCHEMES: [(&str, Service); 3] =
    [("s3", Service::S3), ("gs", Service::Google), ("az", Service::Azure)];

/// Who keeps the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Service {
    /// Amazon S3, or what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

impl Service {
    fn scheme(self) -> &'static str {
        SCHEMES.iter().find(|(_, service)| *service == self).map_or("", |(scheme, _)| scheme)
    }
}

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// `DIR` or `file://DIR`.
    Directory(PathBuf),
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`.
    Objects {
        /// Whose.
        service: Service,
        /// The bucket, or the container.
        bucket: String,
        /// What all names begin with; without slashes at its ends, and may be empty.
        prefix: String,
    },
    /// `memory:`, a store in this process that ends with it.
    Memory,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Directory(dir) => write!(f, "{}", dir.display()),
            Address::Memory => f.write_str("memory:"),
            Address::Objects { service, bucket, prefix } => {
                let slash = if prefix.is_empty() { "" } else { "/" };
                write!(f, "{}://{bucket}{slash}{prefix}", service.scheme())
            }
        }
    }
}

impl Address {
    /// Reads an address. What has no scheme is a directory.
    ///
    /// # Errors
    /// [`Error::Usage`] for a scheme that nobody knows, and for an address without a bucket.
    pub fn parse(given: &str) -> Result<Address> {
        if given == "memory:" || given == "memory://" {
            return Ok(Address::Memory);
        }
        let Some((scheme, rest)) = given.split_once("://") else {
            return if given.is_empty() {
                Err(Error::Usage("the address of the store is empty".to_owned()))
            } else {
                Ok(Address::Directory(PathBuf::from(given)))
            };
        };
        if scheme == "file" {
            return if rest.starts_with('/') {
                Ok(Address::Directory(PathBuf::from(rest)))
            } else {
                Err(Error::Usage(format!(
                    "'{given}': give an absolute path, such as file:///shared/registry"
                )))
            };
        }
        let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
        let Some((_, service)) = known else {
            return Err(Error::Usage(format!(
                "'{given}': '{scheme}' is no store; expected s3://, gs://, az://, file:// or a \
                 directory"
            )));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if bucket.is_empty() {
            return Err(Error::Usage(format!("'{given}': give a bucket, as in {scheme}://BUCKET")));
        }
        let is_plain = |part: &str| !part.is_empty() && !matches!(part, "." | "..");
        if !prefix.is_empty()
            && (!prefix.split('/').all(is_plain) || prefix.chars().any(char::is_control))
        {
            return Err(Error::Usage(format!(
                "'{given}': '{prefix}' cannot be the beginning of names"
            )));
        }
        let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
        Ok(Address::Objects { service: *service, bucket, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in ["s3://bucket/a/b", "gs://bucket", "az://container/x", "memory:", "some/dir"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        let directory = Address::parse("file:///a/b").unwrap();
        assert_eq!(directory, Address::Directory(PathBuf::from("/a/b")));
        assert_eq!(Address::parse("s3://b/p/").unwrap(), Address::parse("s3://b/p").unwrap());
    }

    #[test]
    fn what_is_no_address_says_what_would_be() {
        for (text, word) in [
            ("", "empty"),
            ("ftp://x/y", "'ftp' is no store"),
            ("s3://", "give a bucket"),
            ("s3:///x", "give a bucket"),
            ("s3://b/x/../y", "cannot be the beginning"),
            ("s3://b/x//y", "cannot be the beginning"),
            ("file://x", "absolute"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.errno(), "EINVAL");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[cfg(not(feature = "object-store"))]
    #[test]
    fn without_the_feature_an_object_store_is_refused() {
        let address = Address::parse("s3://bucket/prefix").unwrap();
        let local = std::sync::Arc::new(keyrack_vfs::MemFs::new());
        let access = crate::Access::of_environment();
        let error = crate::registry(&address, &access, local).unwrap_err();
        assert!(error.to_string().contains("--features object-store"), "{error}");
    }
}
