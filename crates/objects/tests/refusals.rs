//! What is wrong with a store, each in one line that names the remedy.

use crate::server::{BUCKET, Server, access};
use crate::support::Lab;
use keyrack_backup::Repository;
use keyrack_deltafs::Error;
use keyrack_objects::{Access, Address, backup_target, registry};
use std::net::TcpListener;

#[track_caller]
fn refusal(address: &str, access: &Access) -> Error {
    let address = Address::parse(address).unwrap();
    let error = registry(&address, access, Lab::new().fs()).unwrap_err();
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[track_caller]
fn assert_names(error: &Error, words: &[&str]) {
    let line = error.to_string();
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
}

#[test]
fn an_endpoint_that_nobody_serves() {
    // Bound and not listened to by anybody afterwards.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let endpoint = format!("http://127.0.0.1:{port}");
    let error = refusal("s3://bucket/x", &access(&endpoint, "s"));
    assert!(matches!(error, Error::Remote(_)), "{error:?}");
    assert_names(&error, &["s3://bucket/x", "no answer", &endpoint, "AWS_ENDPOINT_URL"]);
}

/// The user and the password of an endpoint stood in every message.
#[test]
fn a_password_in_an_endpoint_is_not_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap();
    drop(listener);
    for endpoint in [format!("http://user:hidden@{host}"), "http://user:hidden@ho st".to_owned()] {
        let access = access(&endpoint, "hidden-too");
        let line = refusal("s3://bucket/x", &access).to_string();
        assert!(line.contains("s3://bucket/x") && !line.contains("hidden"), "{line}");
        assert!(!format!("{access:?}").contains("hidden"), "{access:?}");
    }
}

/// The library ended the process at some of them.
#[test]
fn an_endpoint_that_is_no_address() {
    for endpoint in ["", "http://", "host:9000", "http://ho st", "http://a|b", "http://h\u{f6}st"] {
        let error = refusal("s3://bucket/x", &access(endpoint, "s"));
        assert!(matches!(error, Error::Usage(_)), "{error:?}");
        assert_names(&error, &["s3://bucket/x", "AWS_ENDPOINT_URL must be an address", endpoint]);
    }
}

#[test]
fn a_bucket_that_is_not_there() {
    let Some(server) = Server::start("a_bucket_that_is_not_there") else { return };
    let error = refusal("s3://no-such-bucket/x", &server.access());
    assert!(matches!(error, Error::Usage(_)), "{error:?}");
    assert_names(&error, &["no bucket 'no-such-bucket'", &server.endpoint()]);
}

#[test]
fn a_key_that_opens_nothing() {
    let Some(server) = Server::start("a_key_that_opens_nothing") else { return };
    if !server.is_strict {
        println!("SKIPPED a_key_that_opens_nothing: the server here looks at no signatures");
        return;
    }
    let address = format!("s3://{BUCKET}/x");
    let error = refusal(&address, &access(&server.endpoint(), "another-secret"));
    assert!(matches!(error, Error::Remote(_)), "{error:?}");
    assert_names(&error, &["refuses access", "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"]);
}

/// The server tells of the region that it expects.
#[test]
fn a_region_that_is_another() {
    let Some(server) = Server::start("a_region_that_is_another") else { return };
    if !server.is_strict {
        println!("SKIPPED a_region_that_is_another: the server here looks at no signatures");
        return;
    }
    let mut access = server.access();
    access.variables.retain(|(name, _)| name != "AWS_REGION");
    access.variables.push(("AWS_REGION".to_owned(), "mars-north-1".to_owned()));
    let error = refusal(&format!("s3://{BUCKET}/x"), &access);
    assert_names(&error, &["s3://bucket/x", "AWS_REGION"]);
}

/// As for registries, and an object that is refused is named.
#[test]
fn places_for_backups_are_refused_in_a_line() {
    let Some(server) = Server::start("places_for_backups_are_refused") else { return };
    let refusal = |bucket: &str, access: &Access| {
        let address = Address::parse(&format!("s3://{bucket}/x")).unwrap();
        let error = backup_target(&address, access).and_then(Repository::open).unwrap_err();
        assert!(!error.to_string().contains('\n'), "{error}");
        error
    };
    let error = refusal("no-such-bucket", &server.access());
    assert!(matches!(error, keyrack_backup::Error::Usage(_)), "{error:?}");
    assert!(error.to_string().contains("no bucket 'no-such-bucket'"), "{error}");
    let error = refusal(BUCKET, &server.access());
    assert!(matches!(error, keyrack_backup::Error::Usage(_)), "{error:?}");
    assert!(error.to_string().contains("s3://bucket/x: there are no backups"), "{error}");
    let target = backup_target(&Address::parse("s3://bucket/x").unwrap(), &server.access());
    let target = target.unwrap();
    drop(server);
    let error = Repository::open(target).unwrap_err();
    let words = ["s3://bucket/x/REPOSITORY: no answer from", "AWS_ENDPOINT_URL"];
    assert!(words.iter().all(|word| error.to_string().contains(word)), "{error}");
}
