//! What is not started: one line that says what to do instead, and status 2.

use crate::support::Lab;

#[test]
fn a_port_for_others_without_a_password_is_refused() {
    let lab = Lab::new();
    for url in
        ["memcached://0.0.0.0:0", "resp://[::]:0", "masstree://0.0.0.0:0", "mixed://0.0.0.0:0"]
    {
        lab.run(&format!("serve --engine masstree --listen {url}")).refuses(&["--insecure", url]);
    }
    lab.run("serve --engine masstree --listen unix:///tmp/k --admin 0.0.0.0:0")
        .refuses(&["admin", "--insecure"]);
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let lab = super::lab_with_secret("");
    lab.run("serve").refuses(&["data-dir"]);
    lab.run("serve --engine redb --data-dir d").refuses(&["redb", "rowstore"]);
    lab.run("serve --engine masstree --durability sync").refuses(&["durability"]);
    lab.run("serve --engine masstree --memory-max 1X").refuses(&["memory-max", "1X"]);
    lab.run("serve --engine masstree --listen ftp://127.0.0.1:1").refuses(&["ftp", "memcached://"]);
    lab.run("serve --engine masstree --listen rediss://127.0.0.1:0").refuses(&["tls-cert"]);
    lab.run("serve --config nothing.toml").refuses(&["nothing.toml"]);
    lab.run("serve --engine masstree --password-file secret").refuses(&["secret", "password"]);
    lab.run("serve --data-dir d --engine flodb --value-max 15M").refuses(&[
        "value-max",
        "14M",
        "flodb",
        "got 15728640 bytes",
    ]);
    lab.run("serve --engine masstree --log-level loud").refuses(&["log-level", "loud", "warn"]);
    lab.write("bad.toml", "threads = 1\ntreads = 2\n");
    lab.run("serve --config bad.toml").refuses(&["bad.toml", "treads"]);
}

#[test]
fn settings_can_be_checked_without_a_server() {
    let lab =
        Lab::with("k.toml", "engine = 'masstree'\nlisten = ['resp://127.0.0.1:0']\nthreads = 2\n");
    lab.run("serve --config k.toml --check-config").exits(0).says("right");
    lab.run("serve --config k.toml --check-config --eviction clock").refuses(&["memory-max"]);
}

#[test]
fn a_port_in_use_is_refused() {
    let lab = Lab::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let outcome = lab
        .run(&format!("serve --engine masstree --threads 1 --listen resp://127.0.0.1:{port}"))
        .exits(2);
    assert!(outcome.stderr.contains(&port.to_string()), "{}", outcome.told());
}

#[test]
fn a_password_file_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let lab = super::lab_with_secret("open sesame");
    let command = "serve --engine masstree --check-config --password-file secret";
    lab.run(command).exits(0);
    for mode in [0o640, 0o604, 0o620] {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(lab.path("secret"), mode).unwrap();
        lab.run(command).refuses(&["secret", "chmod 600 secret"]);
    }
}

/// The parts of a message between colons, of which none may come twice.
#[track_caller]
fn says_its_cause_once(line: &str) {
    let parts: Vec<String> = line
        .split(": ")
        .map(|part| part.split(" (os error").next().unwrap_or(part).trim().to_lowercase())
        .collect();
    for (index, part) in parts.iter().enumerate() {
        assert!(!parts[..index].contains(part), "'{part}' twice in: {line}");
    }
}

#[test]
fn what_keeps_a_server_from_starting_is_said_once() {
    let lab = Lab::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    lab.write("file", "x");
    lab.write("junk.pem", "no certificate");
    let memory = "serve --engine masstree --threads 1 --listen resp://127.0.0.1:0";
    let disk = "serve --threads 1 --listen resp://127.0.0.1:0 --data-dir";
    for (command, name) in [
        (format!("{memory} --listen resp://127.0.0.1:{port}"), port.to_string()),
        (format!("{memory} --admin 127.0.0.1:{port}"), port.to_string()),
        (format!("{memory} --listen unix:///nothing/here/s"), "/nothing/here/s".to_owned()),
        (format!("{memory} --password-file nothing"), "nothing".to_owned()),
        (format!("{memory} --password-file ."), ".".to_owned()),
        (format!("{memory} --config nothing.toml"), "nothing.toml".to_owned()),
        (
            format!("{memory} --listen rediss://127.0.0.1:0 --tls-cert no.crt --tls-key no.key"),
            "no.crt".to_owned(),
        ),
        (
            format!(
                "{memory} --listen rediss://127.0.0.1:0 --tls-cert junk.pem --tls-key junk.pem"
            ),
            "junk.pem".to_owned(),
        ),
        (format!("{disk} file"), "file".to_owned()),
        (format!("{disk} file/below"), "file/below".to_owned()),
        (format!("{disk} /proc/nothing"), "/proc/nothing".to_owned()),
        (format!("{disk} d --log-dir /proc/nothing"), "/proc/nothing".to_owned()),
        (format!("{disk} file --engine flodb"), "file".to_owned()),
        (format!("{disk} /proc/nothing --engine flodb"), "/proc/nothing".to_owned()),
    ] {
        let outcome = lab.run(&command).exits(2);
        let said: Vec<&str> = outcome.stderr.lines().filter(|l| l.starts_with("keyrack")).collect();
        assert_eq!(said.len(), 1, "{}", outcome.told());
        assert!(said[0].contains(&name), "no {name} in: {}", said[0]);
        says_its_cause_once(said[0]);
    }
}
