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
    let lab = Lab::new();
    lab.run("serve").refuses(&["data-dir"]);
    lab.run("serve --engine redb --data-dir d").refuses(&["redb", "rowstore"]);
    lab.run("serve --engine masstree --durability sync").refuses(&["durability"]);
    lab.run("serve --engine masstree --memory-max 1X").refuses(&["memory-max", "1X"]);
    lab.run("serve --engine masstree --listen ftp://127.0.0.1:1").refuses(&["ftp", "memcached://"]);
    lab.run("serve --engine masstree --listen rediss://127.0.0.1:0").refuses(&["tls-cert"]);
    lab.run("serve --config nothing.toml").refuses(&["nothing.toml"]);
    lab.write("empty", "\n");
    lab.run("serve --engine masstree --password-file empty").refuses(&["empty", "password"]);
    lab.write("bad.toml", "threads = 1\ntreads = 2\n");
    lab.run("serve --config bad.toml").refuses(&["bad.toml", "treads"]);
}

#[test]
fn settings_can_be_checked_without_a_server() {
    let lab = Lab::new();
    lab.write("k.toml", "engine = 'masstree'\nlisten = ['resp://127.0.0.1:0']\nthreads = 2\n");
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
