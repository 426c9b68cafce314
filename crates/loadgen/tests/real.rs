//! Servers of others.

use crate::support::{Real, load, settings, skipped, try_load};
use keyrack_loadgen::account::Report;
use keyrack_loadgen::plan::{Filling, Loading, Settings, TlsFiles};
use keyrack_loadgen::target::{Credentials, ErrorClass, Protocol};

/// What any server must do: load, look up, store, fill, verify.
fn assert_works(settings: &Settings) {
    let clean = |report: &Report, ops: u64| {
        let counts = &report.account.counts;
        assert_eq!(report.account.errors.total(), 0, "{settings:?}: {report:?}");
        assert_eq!(counts.ops, ops, "{settings:?}: {report:?}");
        counts.misses
    };
    let base = Settings { depth: 8, connections: 2, verify: true, ..settings.clone() };
    let report = load(Settings { update: 0.2, ..base.clone() });
    assert_eq!(clean(&report, 1000), 0);
    assert!(report.account.counts.verified > 700);
    let many = Settings { mget: 7, verify: false, loading: Loading::No, ..base.clone() };
    let report = load(many);
    assert_eq!(clean(&report, 1000), 0);
    assert_eq!(report.account.counts.gets, 7000);
    let filled = load(Settings {
        filling: Filling::GetSet,
        prefix: settings.protocol.name().to_owned(),
        loading: Loading::No,
        ttl_s: 1000,
        ..base
    });
    assert_eq!(filled.account.errors.total(), 0, "{filled:?}");
    assert!(filled.account.counts.misses >= 90);
    assert_eq!(filled.account.counts.ops, 1000 + filled.account.counts.misses);
}

#[test]
fn memcached_in_three_languages() {
    let Some(real) = Real::memcached(&[]) else { return };
    for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
        assert_works(&Settings { protocol, ..settings(&real.address) });
    }
}

#[test]
fn a_unix_socket_is_a_server_as_well() {
    let Some(redis) = Real::redis(&[]) else { return };
    let path = redis.dir.path().join("s");
    let unix_socket = true;
    let protocol = Protocol::Resp2;
    assert_works(&Settings { unix_socket, protocol, ..settings(path.to_str().unwrap()) });
}

#[test]
fn redis_through_tls() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("crt"), dir.path().join("key"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let started = Real::start("redis-server", |_, port| {
        let port = port.to_string();
        let mut args = ["--bind", "127.0.0.1", "--port", "0", "--tls-port", &port, "--save", ""]
            .map(str::to_owned)
            .to_vec();
        args.extend(["--tls-auth-clients".to_owned(), "no".to_owned()]);
        args.extend(["--tls-cert-file".to_owned(), text(&cert)]);
        args.extend(["--tls-key-file".to_owned(), text(&key)]);
        args.extend(["--tls-ca-cert-file".to_owned(), text(&cert)]);
        args
    });
    let Some(real) = started else { return };
    let with = |ca: &std::path::Path, name: &str| Settings {
        protocol: Protocol::Resp2,
        tls: Some(TlsFiles { ca: ca.to_owned(), identity: None, name: Some(name.to_owned()) }),
        ..settings(&real.address)
    };
    assert_works(&with(&cert, "localhost"));
    let report = load(Settings {
        valuesize: "300000".to_owned(),
        update: 0.5,
        records: 5,
        queries: 50,
        depth: 4,
        verify: true,
        ..with(&cert, "localhost")
    });
    assert_eq!((report.account.errors.total(), report.account.counts.ops), (0, 50), "{report:?}");
    // Another name, another signer: neither is trusted, and both are said.
    let failed = |settings: Settings| {
        let report = load(Settings { loading: Loading::No, ..settings });
        assert_eq!(report.account.counts.ops, 0);
        report.troubles.concat()
    };
    let other = failed(with(&cert, "other.example"));
    assert!(other.contains("certificate"), "{other}");
    let stranger = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let foreign = dir.path().join("foreign");
    std::fs::write(&foreign, stranger.cert.pem()).unwrap();
    let unknown = failed(with(&foreign, "localhost"));
    assert!(unknown.contains("certificate"), "{unknown}");
}

/// What `memcached -h` says, where it is installed.
fn help_of_memcached() -> Option<String> {
    let help = std::process::Command::new("memcached").arg("-h").output();
    let Ok(help) = help else { return skipped("memcached is not installed") };
    Some(String::from_utf8_lossy(&help.stdout).into_owned())
}

/// A directory that a server which is nobody can read.
fn open_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

#[test]
fn memcached_through_tls() {
    let Some(help) = help_of_memcached() else { return };
    if !help.contains("--enable-ssl") {
        return skipped("memcached is built without TLS").unwrap_or_default();
    }
    let dir = open_dir();
    let start = |name: &str, not_after: i32| {
        let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(not_after, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let (cert, key_file) = (dir.path().join(name), dir.path().join(format!("{name}.key")));
        std::fs::write(&cert, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        let options = format!("ssl_chain_cert={},ssl_key={}", cert.display(), key_file.display());
        Real::memcached(&["-Z", "-o", &options]).map(|real| (real, cert))
    };
    let with = |address: &str, ca: &std::path::Path, name: &str| Settings {
        tls: Some(TlsFiles { ca: ca.to_owned(), identity: None, name: Some(name.to_owned()) }),
        ..settings(address)
    };
    let Some((real, cert)) = start("good", 2090) else { return };
    for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
        assert_works(&Settings { protocol, ..with(&real.address, &cert, "localhost") });
    }
    let failed = |settings: Settings| {
        let report = load(Settings { loading: Loading::No, ..settings });
        assert_eq!(report.account.counts.ops, 0);
        report.troubles.concat()
    };
    let other = failed(with(&real.address, &cert, "other.example"));
    assert!(other.contains("certificate"), "{other}");
    let Some((old, expired)) = start("expired", 2001) else { return };
    let said = failed(with(&old.address, &expired, "localhost"));
    assert!(said.contains("certificate") && said.contains("expired"), "{said}");
}

#[test]
fn memcached_asks_for_sasl() {
    let Some(help) = help_of_memcached() else { return };
    if !help.contains("--enable-sasl") {
        return skipped("memcached is built without SASL").unwrap_or_default();
    }
    let dir = open_dir();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let long = "u".repeat(33);
    // The library takes no empty password; what comes from the network may be one.
    for user in ["alice", &long] {
        let add = |program: &str| {
            std::process::Command::new(program)
                .args(["-p", "-c", "-f", &path("db"), "-a", "memcached", user])
                .stdin(std::process::Stdio::piped())
                .spawn()
        };
        let Ok(mut add) = add("saslpasswd2").or_else(|_| add("/usr/sbin/saslpasswd2")) else {
            return skipped("saslpasswd2 of sasl2-bin is not installed").unwrap_or_default();
        };
        std::io::Write::write_all(&mut add.stdin.take().unwrap(), b"sesame").unwrap();
        assert!(add.wait().unwrap().success());
    }
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(path("db"), readable).unwrap();
    let conf = format!("mech_list: plain\nsasldb_path: {}\n", path("db"));
    std::fs::write(path("memcached.conf"), conf).unwrap();
    let env = [("SASL_CONF_PATH", dir.path().to_str().unwrap().to_owned())];
    let Some(real) = Real::start_with("memcached", &env, |_, port| {
        let port = port.to_string();
        ["-S", "-l", "127.0.0.1", "-p", &port, "-u", "nobody"].map(str::to_owned).to_vec()
    }) else {
        return;
    };
    let with = |user: &str, password: &str| Settings {
        protocol: Protocol::Binary,
        credentials: Some(Credentials { user: user.to_owned(), password: password.to_owned() }),
        ..settings(&real.address)
    };
    assert_works(&with("alice", "sesame"));
    assert_eq!(load(with(&long, "sesame")).account.errors.total(), 0, "a name of 33 bytes");
    for (user, password) in [("alice", "close"), ("alice", ""), ("nobody", "sesame")] {
        let refused = try_load(with(user, password), None).unwrap_err().to_string();
        assert!(refused.contains("refuses the user name or password"), "{refused}");
        assert!(refused.contains(&real.address), "{refused}");
    }
    // Without a word of who we are, a status that is no miss, and the end of the connection.
    let none = Settings { protocol: Protocol::Binary, ..settings(&real.address) };
    assert_stops(&none);
    // It takes the binary protocol alone.
    let text = load(Settings { loading: Loading::No, queries: 10, ..settings(&real.address) });
    assert_eq!(text.account.counts.ops, 0, "{text:?}");
    assert!(text.account.errors.total() > 0, "{text:?}");
}

#[test]
fn an_ipv6_address_is_a_server_as_well() {
    let Some(real) = Real::start("memcached", |_, port| {
        let both = "127.0.0.1,::1".to_owned();
        let port = port.to_string();
        vec!["-l".to_owned(), both, "-p".to_owned(), port, "-u".to_owned(), "nobody".to_owned()]
    }) else {
        return;
    };
    let port = real.address.rsplit_once(':').unwrap().1;
    assert_works(&settings(&format!("[::1]:{port}")));
}

#[test]
fn values_above_the_limit_are_errors_of_their_own_class() {
    let Some(real) = Real::memcached(&[]) else { return };
    for protocol in [Protocol::Text, Protocol::Binary, Protocol::Meta] {
        let report = load(Settings {
            protocol,
            valuesize: "1100000".to_owned(),
            update: 1.0,
            queries: 10,
            depth: 2,
            loading: Loading::No,
            ..settings(&real.address)
        });
        let errors = &report.account.errors;
        assert_eq!(errors.count(ErrorClass::TooLarge), 10, "{protocol:?}: {report:?}");
        assert_eq!(report.account.counts.ops, 0);
    }
}

#[test]
fn redis_in_two_languages_with_its_hashes() {
    let Some(real) = Real::redis(&[]) else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let settings = Settings { protocol, ..settings(&real.address) };
        assert_works(&settings);
        let report = load(Settings { assoc: Some(4), update: 0.3, depth: 4, ..settings });
        assert_eq!((report.account.errors.total(), report.account.counts.misses), (0, 0));
    }
}

#[test]
fn redis_asks_for_a_password() {
    let Some(real) = Real::redis(&["--requirepass", "open sesame"]) else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let with = |user: &str, password: &str| {
            let them = Credentials { user: user.to_owned(), password: password.to_owned() };
            let credentials = Some(them);
            try_load(Settings { protocol, credentials, ..settings(&real.address) }, None)
        };
        assert_eq!(with("", "open sesame").unwrap().account.errors.total(), 0);
        assert_eq!(with("default", "open sesame").unwrap().account.errors.total(), 0);
        let refused = with("", "close").unwrap_err().to_string();
        assert!(refused.contains("refuses the user name or password"), "{refused}");
        assert!(refused.contains(&real.address) && refused.contains("WRONGPASS"), "{refused}");
    }
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let said = assert_stops(&Settings { protocol, ..settings(&real.address) });
        assert!(said.contains("NOAUTH"), "{said}");
    }
}

/// A run without the password that the server wants ends with its first reply, also where it
/// would last for an hour, load first, or have several threads. Returns the error.
fn assert_stops(without: &Settings) -> String {
    let mut said = String::new();
    for loading in [Loading::No, Loading::Yes] {
        let (time_s, threads) = (3600.0, 2);
        let settings = Settings { loading, queries: 0, time_s, threads, ..without.clone() };
        said = try_load(settings, None).unwrap_err().to_string();
        assert!(said.contains(&without.servers[0]), "{said}");
        assert!(said.contains("the server wants a password; give --password"), "{said}");
    }
    said
}

/// A user who may look up and not store: each refusal is one, and the rest is served.
#[test]
fn a_user_of_redis_has_rights() {
    let rights = "--user reader on >sesame ~* +get +hello --user default off";
    let rights: Vec<&str> = rights.split(' ').collect();
    let Some(real) = Real::redis(&rights) else { return };
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let them = Credentials { user: "reader".to_owned(), password: "sesame".to_owned() };
        let report = load(Settings {
            protocol,
            credentials: Some(them),
            loading: Loading::No,
            update: 0.5,
            queries: 100,
            ..settings(&real.address)
        });
        let counts = &report.account.counts;
        let refused = report.account.errors.count(ErrorClass::Auth);
        assert_eq!((counts.gets + refused, counts.sets), (100, 0), "{report:?}");
        assert!(refused > 20, "{report:?}");
    }
}

#[test]
fn memcached_asks_for_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwords");
    std::fs::write(&file, "alice:sesame\n").unwrap();
    let Some(real) = Real::memcached(&["-Y", file.to_str().unwrap()]) else { return };
    for protocol in [Protocol::Text, Protocol::Meta] {
        let with = |password: &str| {
            let (user, password) = ("alice".to_owned(), password.to_owned());
            let credentials = Some(Credentials { user, password });
            try_load(Settings { protocol, credentials, ..settings(&real.address) }, None)
        };
        assert_eq!(with("sesame").unwrap().account.errors.total(), 0);
        let refused = with("close").unwrap_err().to_string();
        assert!(refused.contains("refuses the user name or password"), "{refused}");
    }
    for protocol in [Protocol::Text, Protocol::Meta] {
        assert_stops(&Settings { protocol, ..settings(&real.address) });
    }
}

/// The text protocol logs in by a `set`: the password became the value of a key.
#[test]
fn a_server_without_users_stored_the_password() {
    let Some(real) = Real::memcached(&[]) else { return };
    for protocol in [Protocol::Text, Protocol::Meta] {
        let (user, password) = ("alice".to_owned(), "sesame".to_owned());
        let credentials = Some(Credentials { user, password });
        let load = Settings { protocol, credentials, ..settings(&real.address) };
        let refused = try_load(load, None).unwrap_err().to_string();
        assert!(refused.contains("leave --username and --password out"), "{refused}");
    }
    let mut stream = std::net::TcpStream::connect(&real.address).unwrap();
    std::io::Write::write_all(&mut stream, b"get auth\r\n").unwrap();
    let mut reply = [0; 5];
    std::io::Read::read_exact(&mut stream, &mut reply).unwrap();
    assert_eq!(&reply, b"END\r\n");
}

#[test]
fn a_server_that_is_killed_leaves_partial_results() {
    let Some(mut real) = Real::memcached(&[]) else { return };
    let settings =
        Settings { queries: u64::from(u32::MAX), time_s: 60.0, ..settings(&real.address) };
    let run = std::thread::spawn(move || load(settings));
    // It is killed when it has served something.
    real.wait_for_lookups(100);
    real.kill();
    let report = run.join().unwrap();
    assert!(report.account.counts.ops >= 100, "{report:?}");
    assert_eq!(report.account.counts.broken, 1);
    assert!(report.troubles[0].contains(&real.address), "{:?}", report.troubles);
}
