//! What an object store's errors mean to a person: one line, with what to do about it.

use crate::address::Service;
use keyrack_deltafs::Error;
use keyrack_vfs::RelativePath;
use std::error::Error as _;

/// Whose errors they are.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    address: String,
    bucket: String,
    /// Without user and password.
    endpoint: String,
    /// The endpoint as it was given, to find it in messages.
    given: String,
    /// Variables with credentials.
    credentials: &'static str,
    /// Variables with the endpoint.
    setting: &'static str,
    /// The variable with the region, if the service has regions.
    region: &'static str,
}

impl Whose {
    pub(crate) fn new(
        service: Service,
        address: String,
        bucket: &str,
        endpoint: Option<&str>,
    ) -> Whose {
        let (name, credentials, setting) = match service {
            Service::S3 => {
                ("Amazon S3", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")
            }
            Service::Google => {
                ("Google Cloud Storage", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_BASE_URL")
            }
            Service::Azure => (
                "Azure",
                "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
                "AZURE_STORAGE_ENDPOINT",
            ),
        };
        let given = endpoint.unwrap_or(name).to_owned();
        let (endpoint, bucket) = (without_user(&given), bucket.to_owned());
        let region = if service == Service::S3 { "AWS_REGION" } else { "" };
        Whose { address, bucket, endpoint, given, credentials, setting, region }
    }

    pub(crate) fn memory() -> Whose {
        Whose {
            address: "memory:".to_owned(),
            bucket: String::new(),
            endpoint: "memory".to_owned(),
            given: "memory".to_owned(),
            credentials: "",
            setting: "",
            region: "",
        }
    }

    /// The error of a request for an object.
    pub(crate) fn error_at(&self, name: &RelativePath, error: &object_store::Error) -> Error {
        Error::Remote(self.line_at(&self.place(Some(name)), error))
    }

    /// The error of a request for many objects.
    pub(crate) fn error(&self, error: &object_store::Error) -> Error {
        Error::Remote(self.line(error))
    }

    /// All of it, or an object, as people write it.
    pub(crate) fn place(&self, name: Option<&RelativePath>) -> String {
        name.map_or_else(|| self.address.clone(), |name| format!("{}/{name}", self.address))
    }

    /// The error of the first request: what is not found there is the bucket.
    pub(crate) fn first_error(&self, error: &object_store::Error) -> Error {
        let is_not_found = matches!(error, object_store::Error::NotFound { .. });
        if is_not_found || status_of(error) == Some(404) {
            return Error::Usage(format!(
                "{}: there is no bucket '{}' at {}; make it, or correct the address",
                self.address, self.bucket, self.endpoint
            ));
        }
        self.error(error)
    }

    /// The endpoint is no address.
    pub(crate) fn wrong_endpoint(&self) -> String {
        format!(
            "{}: {} must be an address such as http://HOST:PORT (got {})",
            self.address, self.setting, self.endpoint
        )
    }

    /// The error in a line.
    pub(crate) fn line(&self, error: &object_store::Error) -> String {
        self.line_at(&self.address, error)
    }

    fn line_at(&self, place: &str, error: &object_store::Error) -> String {
        let said = users_removed(&innermost(error).replace(&self.given, &self.endpoint));
        let is_refused = matches!(
            error,
            object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. }
        );
        if is_refused || matches!(status_of(error), Some(401 | 403)) {
            return format!(
                "{place}: {} refuses access ({said}); check {}",
                self.endpoint, self.credentials
            );
        }
        if is_of_region(&said) && !self.region.is_empty() {
            format!("{place}: {}: {said}; check {} and the bucket", self.endpoint, self.region)
        } else if answer_of(error) {
            format!("{place}: {}: {said}", self.endpoint)
        } else {
            format!(
                "{place}: no answer from {} ({said}); check {}, {} and the network",
                self.endpoint, self.setting, self.credentials
            )
        }
    }
}

/// An endpoint without the user and the password that may be before its host. A password may have
/// any characters, and nothing behind the host has an `@`.
fn without_user(endpoint: &str) -> String {
    let (scheme, rest) = match endpoint.find("://") {
        Some(at) => endpoint.split_at(at + 3),
        None => ("", endpoint),
    };
    format!("{scheme}{}", rest.rsplit_once('@').map_or(rest, |(_, host)| host))
}

/// A message without users and passwords in its addresses, however a library has written them.
fn users_removed(message: &str) -> String {
    let mut parts = message.split("://");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | ')');
        let (authority, rest) = part.split_at(part.find(is_end).unwrap_or(part.len()));
        out += "://";
        out += authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        out += rest;
    }
    out
}

/// The status of the answer. Only some requests have kinds of errors for it.
fn status_of(error: &object_store::Error) -> Option<u16> {
    let text = error.to_string();
    let (_, rest) = text.split_once("status code: ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Whether a server has said that the bucket is one of another region.
fn is_of_region(said: &str) -> bool {
    let codes = ["AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraint"];
    codes.iter().any(|code| said.contains(code)) || said.contains("configured region")
}

/// Whether a server has said something.
fn answer_of(error: &object_store::Error) -> bool {
    use object_store::client::{HttpError, HttpErrorKind};
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(http) = source.downcast_ref::<HttpError>() {
            return !matches!(
                http.kind(),
                HttpErrorKind::Connect
                    | HttpErrorKind::Request
                    | HttpErrorKind::Timeout
                    | HttpErrorKind::Interrupted
            );
        }
        next = source.source();
    }
    true
}

/// The reason at the bottom, on one line: the code of an answer in XML, or the last words.
fn innermost(error: &object_store::Error) -> String {
    let all = error.to_string();
    if let Some((_, rest)) = all.split_once("<Code>")
        && let Some((code, _)) = rest.split_once("</Code>")
    {
        return code.to_owned();
    }
    let mut text = all;
    let mut next = error.source();
    while let Some(source) = next {
        text = source.to_string();
        next = source.source();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    line.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_of_an_address_is_told() {
        for (given, told) in [
            ("http://user:secret@host:9000", "http://host:9000"),
            ("https://user:se/cr@t@host/path", "https://host/path"),
            ("user:secret@host", "host"),
            ("https://host/path", "https://host/path"),
            ("Amazon S3", "Amazon S3"),
        ] {
            assert_eq!(without_user(given), told);
        }
        for (said, told) in [
            ("no host in http://user:secret@/x", "no host in http:///x"),
            (
                "url (http://us%20er:secret@host/b?x=a@b): timed out",
                "url (http://host/b?x=a@b): timed out",
            ),
            ("a://b:c@d then \"e://f@g\"", "a://d then \"e://g\""),
            ("mail me@home", "mail me@home"),
        ] {
            assert_eq!(users_removed(said), told);
        }
    }
}
