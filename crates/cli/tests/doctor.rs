//! `keyrack doctor`: what it finds depends on the machine; the shape of it does not.

use crate::support::{Lab, parse_json};

#[test]
fn findings_are_json_with_a_remedy_each() {
    let lab = Lab::new();
    let out = lab.run("doctor --json --data-dir .");
    assert!(out.status == 0 || out.status == 1, "{}", out.told());
    assert_eq!(out.stderr, "");
    let findings = parse_json(&out.stdout);
    let findings = findings.as_array().unwrap();
    assert!(findings.len() >= 10, "{}", out.told());
    let mut failed = false;
    for finding in findings {
        let text = |key: &str| finding[key].as_str().unwrap_or_else(|| panic!("{key}: {finding}"));
        assert!(!text("name").is_empty() && !text("fact").is_empty(), "{finding}");
        match text("status") {
            "ok" => {}
            "warn" | "fail" | "unknown" => assert!(!text("remedy").is_empty(), "{finding}"),
            other => panic!("what is {other}"),
        }
        failed |= text("status") == "fail";
    }
    assert_eq!(out.status, i32::from(failed), "the status is the answer: {}", out.told());
}

#[test]
fn the_text_says_the_same() {
    let lab = Lab::new();
    let out = lab.run("doctor");
    let last = out.stdout.lines().last().unwrap_or_default();
    assert!(last.contains(" checks: ") && last.contains(" ok, "), "{}", out.told());
    assert_eq!(out.status, i32::from(out.stdout.lines().any(|line| line.starts_with("FAIL"))));
    for name in ["governor", "load", "clocksource", "open_files", "build"] {
        assert!(out.stdout.contains(&format!("  {name}")), "{name}: {}", out.told());
    }
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let lab = Lab::new();
    lab.run("doctor --data-dir absent").refuses(&["--data-dir", "absent"]);
}

#[test]
fn a_directory_in_memory_is_a_fault() {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some("/dev/shm") && line.contains("tmpfs"))
    {
        println!("SKIPPED a_directory_in_memory_is_a_fault: /dev/shm is not a tmpfs here");
        return;
    }
    let out = Lab::new().run("doctor --data-dir /dev/shm --json").exits(1);
    let findings = parse_json(&out.stdout);
    let found = findings.as_array().unwrap().iter().find(|finding| finding["name"] == "data_fs");
    assert_eq!(found.unwrap()["status"], "fail", "{}", out.told());
}
