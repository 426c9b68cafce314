//! `keyrack fs import`: whatever an archive says, it stays below the directory that was named.

use crate::support::Lab;

/// A header of ustar, and the bytes behind it.
fn entry(name: &str, kind: u8, target: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header[100..108].copy_from_slice(b"0000755\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", bytes.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[148..156].copy_from_slice(b"        ");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut all = header.to_vec();
    all.extend_from_slice(bytes);
    all.resize(all.len().next_multiple_of(512), 0);
    all
}

fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    [&entries.concat()[..], &[0; 1024]].concat()
}

fn file(name: &str) -> Vec<u8> {
    entry(name, b'0', "", b"new")
}

fn link(name: &str, target: &str) -> Vec<u8> {
    entry(name, b'2', target, b"")
}

fn found(lab: &Lab) -> String {
    lab.run("fs find --db s /").exits(0).stdout
}

#[test]
fn an_import_follows_no_symbolic_link_out_of_its_directory() {
    let lab = Lab::new();
    lab.run("fs mkdir --db s -p /etc /in").exits(0);
    lab.run("fs chmod --db s 700 /etc").exits(0);
    for (number, (archive, said)) in [
        (archive(&[link("a", "/"), file("a/etc/passwd")]), "/in/a: it is a symbolic link to /,"),
        (archive(&[link("b", "/etc"), file("b/passwd")]), "/in/b: it is a symbolic link"),
        (archive(&[link("c", "../etc"), entry("c/d/", b'5', "", b"")]), "/in/c: it is a symbolic"),
        // A directory of the name of a link: its rights are not those of what the link leads to.
        (archive(&[link("d", "/etc"), entry("d/", b'5', "", b"")]), "/in/d: it is a symbolic link"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}.tar");
        lab.write(&name, archive);
        lab.run(&format!("fs import --db s {name} /in")).exits(1).warns(said);
    }
    assert_eq!(found(&lab), "/\n/etc\n/in\n/in/a\n/in/b\n/in/c\n/in/d\n");
    let etc = lab.run("fs stat --db s /etc").exits(0).stdout;
    assert!(etc.contains("0700"), "{etc}");
    // Nor one that was there, in any format; but the directory itself may be reached by one.
    lab.write("x.jsonl", "{\"path\":\"a/etc/x\",\"type\":\"f\"}\n");
    lab.run("fs import --db s x.jsonl /in").exits(1).warns("/in/a: it is a symbolic link to /,");
    lab.run("fs import --db s x.jsonl /in/a/in/b").exits(0);
    assert!(found(&lab).contains("/etc/a/etc/x\n"));
}

#[test]
fn an_import_takes_no_absolute_path_and_none_that_goes_up() {
    let lab = Lab::new();
    lab.run("fs mkdir --db s /in").exits(0);
    for (name, said) in [
        ("/etc/passwd", "/etc/passwd: the path is absolute; write the archive with relative paths"),
        ("../up", "../up: the path goes up"),
        ("a/../../up", "a/../../up: the path goes up"),
        ("..", "..: the path goes up"),
    ] {
        lab.write("x.tar", archive(&[file(name)]));
        lab.run("fs import --db s x.tar /in").exits(2).warns(said);
        lab.write("x.jsonl", format!("{{\"path\":\"{name}\",\"type\":\"f\"}}\n"));
        lab.run("fs import --db s x.jsonl /in").exits(2).warns(said);
    }
    assert_eq!(found(&lab), "/\n/in\n");
}

#[test]
fn an_import_refuses_hard_links_devices_and_pipes_with_what_helps() {
    let lab = Lab::new();
    for (kind, said) in [
        (b'1', "x: hard links have no place in a name space; write the archive with tar --hard"),
        (b'3', "x: devices have no place in a name space; leave it out"),
        (b'4', "x: devices have no place in a name space; leave it out"),
        (b'6', "x: pipes have no place in a name space; leave it out"),
    ] {
        lab.write("x.tar", archive(&[entry("x", kind, "/etc/passwd", b"")]));
        lab.run("fs import --db s x.tar /in").exits(1).warns(said);
    }
    assert_eq!(found(&lab), "/\n");
}
