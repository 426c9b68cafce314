//! From an address to a storage that has answered once.
//!
//! Credentials and endpoints come from the variables that the services' own tools read: `AWS_*`,
//! `GOOGLE_*`, `AZURE_*`. An endpoint without TLS is asked for by writing `http://`.

use crate::Access;
use crate::address::{Address, Service};
use crate::failure::Whose;
use crate::remote::Remote;
use crate::storage::ObjectStorage;
use keyrack_deltafs::{Error, Result};
use keyrack_vfs::Fs;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::memory::InMemory;
use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long requests are sent again.
const RETRY_TIME: Duration = Duration::from_secs(20);
/// How long a connection may take.
const CONNECT_TIME: &str = "5 seconds";

/// Opens the storage at an address, and asks whether it is there.
pub(crate) fn connect(
    address: &Address,
    access: &Access,
    local: Arc<dyn Fs>,
) -> Result<ObjectStorage> {
    Ok(ObjectStorage::new(remote(address, access)?, &address.to_string(), local))
}

/// The prefix at an address, which has answered.
pub(crate) fn remote(address: &Address, access: &Access) -> Result<Remote> {
    // Whoever was first has chosen the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (store, prefix, whose): (Arc<dyn ObjectStore>, &str, Whose) = match address {
        Address::Objects { service, bucket, prefix } => {
            let endpoint = endpoint_of(*service, access);
            let whose = Whose::new(*service, address.to_string(), bucket, endpoint);
            if !endpoint.is_none_or(is_url) {
                return Err(Error::Usage(whose.wrong_endpoint()));
            }
            (open(*service, bucket, access, endpoint, &whose)?, prefix, whose)
        }
        _ => (Arc::new(InMemory::new()), "", Whose::memory()),
    };
    let remote = Remote::new(store, prefix, whose)?;
    remote.probe()?;
    Ok(remote)
}

/// Where the service is, if not where it always is.
fn endpoint_of(service: Service, access: &Access) -> Option<&str> {
    let names: &[&str] = match service {
        Service::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
        Service::Google => &["GOOGLE_BASE_URL"],
        Service::Azure => &["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"],
    };
    names.iter().find_map(|name| {
        let of_name = |(given, _): &&(String, String)| given == name;
        access.variables.iter().find(of_name).map(|(_, value)| value.as_str())
    })
}

/// Whether it has the form of `http://HOST:PORT`. `object_store` panics at characters that no
/// address has.
fn is_url(endpoint: &str) -> bool {
    let rest = endpoint.strip_prefix("http://").or(endpoint.strip_prefix("https://"));
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}".contains(c);
    rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(is_plain))
}

fn open(
    service: Service,
    bucket: &str,
    access: &Access,
    endpoint: Option<&str>,
    whose: &Whose,
) -> Result<Arc<dyn ObjectStore>> {
    let retry = RetryConfig {
        max_retries: access.retries_max,
        retry_timeout: RETRY_TIME,
        ..RetryConfig::default()
    };
    let is_plain = endpoint.is_some_and(|url| url.starts_with("http://"));
    let connect = ClientConfigKey::ConnectTimeout;
    let wrong = |error: object_store::Error| Error::Usage(whose.line(&error));
    // Variables that mean nothing to the service are none of ours.
    Ok(match service {
        Service::S3 => {
            let mut builder = AmazonS3Builder::new();
            for (key, value) in settings::<AmazonS3ConfigKey>(access, "AWS_") {
                builder = builder.with_config(key, value);
            }
            builder = builder
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_config(AmazonS3ConfigKey::Client(connect), CONNECT_TIME);
            if is_plain {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build().map_err(wrong)?)
        }
        Service::Google => {
            let mut builder = GoogleCloudStorageBuilder::new();
            for (key, value) in settings::<GoogleConfigKey>(access, "GOOGLE_") {
                builder = builder.with_config(key, value);
            }
            let builder = builder
                .with_bucket_name(bucket)
                .with_retry(retry)
                .with_config(GoogleConfigKey::Client(connect), CONNECT_TIME);
            Arc::new(builder.build().map_err(wrong)?)
        }
        Service::Azure => {
            let mut builder = MicrosoftAzureBuilder::new();
            for (key, value) in settings::<AzureConfigKey>(access, "AZURE_") {
                builder = builder.with_config(key, value);
            }
            builder = builder
                .with_container_name(bucket)
                .with_retry(retry)
                .with_config(AzureConfigKey::Client(connect), CONNECT_TIME);
            if is_plain {
                builder = builder.with_allow_http(true);
            }
            Arc::new(builder.build().map_err(wrong)?)
        }
    })
}

/// The variables of a service that it knows.
fn settings<K: FromStr>(access: &Access, prefix: &str) -> Vec<(K, String)> {
    let ours = access.variables.iter().filter(|(name, _)| name.starts_with(prefix));
    ours.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.clone())))
        .collect()
}
